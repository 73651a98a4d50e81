//! Adds the events of another Graphite server to those of this data directory.

use serde::{Deserialize, Serialize};

use crate::graphite::heard;
use crate::graphite_source::SourceServer;
use crate::rate::Rate;
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
    /// The most events to add in a second; 0 for no limit.
    pub rate: u32,
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
    let mut events = heard(work, call).await?.map_err(|error| VerbError::Failed(error.to_string()))?;
    let mut rate = Rate::new(plan.rate);
    let step = rate.step(events.len());
    if plan.dry_run || step == events.len() {
        work.progress.add(events.len() as u64);
        return work.events.add_missing(events, plan.dry_run).await;
    }
    // Counted at once, because an event that is added early may have to make room for a later one.
    let counted = work.events.add_missing(events.clone(), true).await?;
    events.sort_by_key(|event| event.when);
    work.progress.begin("events", Some(events.len() as u64));
    for some in events.chunks(step) {
        let turn = work.stop().run_until_cancelled(rate.take(some.len())).await;
        turn.ok_or(VerbError::Cancelled)?;
        work.events.add_missing(some.to_vec(), false).await?;
        work.progress.add(some.len() as u64);
    }
    Ok(EventsReport { dry_run: false, ..counted })
}
