//! What a request to `/render` asks.

use plumbago_render::{Limits, Request, TimeRange, TimeZone, attime};

use super::picture::Picture;
use super::render_format::Format;
use crate::error::{ApiError, beyond, quoted};
use crate::format::protobuf::{FetchRequest, MultiFetchRequest};
use crate::format::wrap::Wrapping;
use crate::params::Params;
use crate::state::Api;

/// A request to `/render`, checked.
#[derive(Debug)]
pub(super) struct RenderParams {
    pub(super) targets: Vec<String>,
    pub(super) format: Format,
    /// Times, zone and factor.
    pub(super) request: Request,
    pub(super) width: Option<usize>,
    pub(super) no_nulls: bool,
    pub(super) wrapping: Wrapping,
    /// A graphite-web in front asks: what it cannot use must not be an error, or it takes the whole
    /// node for broken.
    pub(super) is_front_end: bool,
    /// What a picture looks like; only there when one is asked for.
    pub(super) picture: Option<Picture>,
    /// What a message in the body asks for instead of `targets`, each with a range of its own.
    pub(super) fetches: Vec<FetchRequest>,
}

impl RenderParams {
    pub(super) fn of(params: &Params, api: &Api) -> Result<Self, ApiError> {
        let fetches = fetches(params)?;
        let targets = params.all("target");
        if targets.len().max(fetches.len()) > api.limits.targets {
            return Err(beyond("targets", "targets", api.limits.targets));
        }
        let format = Format::of(params)?;
        let zone = zone(params, api);
        let now = now(params, api, &zone)?;
        let mut targets: Vec<String> =
            targets.into_iter().filter(|t| !t.trim().is_empty()).map(str::to_owned).collect();
        let picture = Picture::of(params, format, &mut targets, api)?;
        let wrapping = if params.has("format") { Wrapping::of(params)? } else { Wrapping::default() };
        Ok(Self {
            targets,
            format,
            request: Request {
                range: range(params, now, &zone)?,
                now,
                zone,
                x_files_factor: x_files_factor(params)?,
                templates: templates(params)?,
                limits: Limits {
                    calls: api.limits.calls,
                    points: api.limits.computed_points,
                    fetches: api.limits.fetches,
                },
            },
            width: width(params),
            no_nulls: params.has("noNullPoints"),
            wrapping,
            is_front_end: format.is_of_front_ends() || params.get("local") == Some("1"),
            picture,
            fetches,
        })
    }
}

/// The fetches of a message in the body; their times in order, as those of other requests.
fn fetches(params: &Params) -> Result<Vec<FetchRequest>, ApiError> {
    let Some(message) = params.message::<MultiFetchRequest>()? else { return Ok(Vec::new()) };
    let mut fetches = message.metrics;
    for fetch in &mut fetches {
        let (a, b) = (clamped(fetch.start_time), clamped(fetch.stop_time));
        (fetch.start_time, fetch.stop_time) = (a.min(b), a.max(b));
    }
    Ok(fetches)
}

/// The zone of the request; a name that is none is passed over, as in Graphite.
pub(super) fn zone(params: &Params, api: &Api) -> TimeZone {
    params.get("tz").and_then(TimeZone::named).unwrap_or_else(|| api.zone.clone())
}

/// The name of that zone.
pub(super) fn zone_name<'a>(params: &'a Params, api: &'a Api) -> &'a str {
    params.get("tz").filter(|name| TimeZone::named(name).is_some()).unwrap_or(&api.zone_name)
}

/// The request's now: its own, or the clock's.
pub(super) fn now(params: &Params, api: &Api, zone: &TimeZone) -> Result<i64, ApiError> {
    let clock = api.clock.now();
    params.get("now").map_or(Ok(clock), |text| time("now", text, clock, zone))
}

pub(super) fn time(name: &str, text: &str, now: i64, zone: &TimeZone) -> Result<i64, ApiError> {
    attime::parse(text, now, zone).map_err(|error| ApiError::Invalid(format!("{name}: {error}")))
}

/// `from` to `until`, a day up to now by default, in the right order.
fn range(params: &Params, now: i64, zone: &TimeZone) -> Result<TimeRange, ApiError> {
    const DAY: i64 = 86_400;
    let until = params.get("until").map_or(Ok(now), |text| time("until", text, now, zone))?;
    let from = params.get("from").map_or(Ok(now - DAY), |text| time("from", text, now, zone))?;
    if from == until {
        return Err(ApiError::Invalid("from and until are the same: the time range is empty".to_owned()));
    }
    Ok(TimeRange { from: from.min(until), until: from.max(until) })
}

/// Not further away than texts of times can be.
fn clamped(time: i64) -> i64 {
    time.clamp(0, i64::from(u32::MAX))
}

fn x_files_factor(params: &Params) -> Result<f64, ApiError> {
    let Some(text) = params.get("xFilesFactor") else { return Ok(0.0) };
    match text.trim().parse::<f64>() {
        Ok(factor) if factor.is_finite() => Ok(factor),
        _ => Err(ApiError::Invalid(format!("xFilesFactor={} is no number", quoted(text)))),
    }
}

/// Only digits count; anything else is passed over, as in Graphite, and so is 0.
fn width(params: &Params) -> Option<usize> {
    let text = params.get("maxDataPoints")?;
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(usize::MAX)).filter(|width| *width > 0)
}

/// `template[name]=value`.
fn templates(params: &Params) -> Result<Vec<(String, String)>, ApiError> {
    /// More than any dashboard has.
    const TEMPLATES_MAX: usize = 64;
    let named = |(key, value): (&str, &str)| {
        let name = key.strip_prefix("template[")?.strip_suffix(']')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let templates: Vec<(String, String)> = params.iter().filter_map(named).collect();
    if templates.len() > TEMPLATES_MAX {
        return Err(ApiError::TooLarge(format!("more than {TEMPLATES_MAX} parameters template[…]")));
    }
    Ok(templates)
}
