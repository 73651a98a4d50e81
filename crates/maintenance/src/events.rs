//! Adds the events of another Graphite server to those of this data directory.

use serde::{Deserialize, Serialize};

use crate::graphite::heard;
use crate::graphite_source::SourceServer;
use crate::verb::{VerbError, Work};

pub use crate::event_keeper::{EventKeeper, EventsReport};

/// The end of the range if none is given: 2100-01-01, because events may be ahead of now.
const END: i64 = 4_102_444_800;

/// Adds the events of another Graphite server.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportEvents {
    /// The server to read, and how it is reached.
    pub server: SourceServer,
    /// Earlier events are left out; seconds since the epoch.
    pub from: Option<i64>,
    /// Later events are left out; seconds since the epoch.
    pub until: Option<i64>,
    /// Whether to count what would be done, and change nothing.
    pub dry_run: bool,
}

/// Imports events.
///
/// # Errors
///
/// If the server does not answer, or the events cannot be stored.
pub(crate) async fn import(plan: &ImportEvents, work: &Work) -> Result<EventsReport, VerbError> {
    let source = work.graphites.connect(&plan.server).map_err(VerbError::Invalid)?;
    work.progress.begin("events", None);
    let call = source.events(plan.from.unwrap_or(0), plan.until.unwrap_or(END));
    let events = heard(work, call).await?.map_err(|error| VerbError::Failed(error.to_string()))?;
    work.progress.add(events.len() as u64);
    work.events.add_missing(events, plan.dry_run).await
}
