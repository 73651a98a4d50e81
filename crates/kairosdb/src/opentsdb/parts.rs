//! The parts of a query, as a body or a query string has them.

use super::filter::Filter;
use super::rate::RateOptions;
use crate::PARTS_MAX;

/// The parts of a query, before times and names in it are interpreted.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) start: String,
    pub(super) end: String,
    pub(super) zone: String,
    pub(super) use_calendar: bool,
    pub(super) ms_resolution: bool,
    pub(super) show_query: bool,
    pub(super) subs: Vec<SubParts>,
}

/// The parts of a sub-query.
#[derive(Debug, Default)]
pub(super) struct SubParts {
    pub(super) metric: String,
    pub(super) aggregator: String,
    pub(super) filters: Vec<Filter>,
    pub(super) explicit_tags: bool,
    pub(super) downsample: String,
    pub(super) rate: bool,
    pub(super) rate_options: Option<RateOptions>,
}

/// Refuses more parts than a query may have.
pub(super) fn within(count: usize, what: &str) -> Result<(), String> {
    if count > PARTS_MAX { Err(format!("{what}: more than {PARTS_MAX}")) } else { Ok(()) }
}
