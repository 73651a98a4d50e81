//! Adds the events of another Graphite server to ours.

use std::fmt::Debug;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::graphite::{SourceEvent, heard};
use crate::verb::{VerbError, Work};
use crate::verbs::graphite::ImportEvents;

/// The end of the range if none is named: events may be ahead of now. 2100-01-01.
const END: i64 = 4_102_444_800;

/// Where the events of this data directory are kept.
#[async_trait]
pub trait EventKeeper: Send + Sync + Debug {
    /// Adds those of these events that are not kept yet, in the order of time. An event is the same if time, title, text
    /// and tags are. Those for which there is no room are left out, the oldest first.
    ///
    /// # Errors
    /// If no events are kept here, or they cannot be written.
    async fn add_missing(&self, events: Vec<SourceEvent>, dry_run: bool) -> Result<EventsReport, VerbError>;
}

/// What became of events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventsReport {
    /// Events of the server.
    pub events: u64,
    /// Events that were added; in a dry run, that would be.
    pub added: u64,
    /// Events that are kept already, or were there twice.
    pub known: u64,
    /// Events for which there is no room (`api.events_bytes`).
    pub no_room: u64,
    /// Events that are longer than an event may be.
    pub too_long: u64,
    /// True if nothing was changed.
    pub dry_run: bool,
}

/// Imports.
///
/// # Errors
/// If the server does not answer, or the events cannot be kept.
pub(crate) async fn import(plan: &ImportEvents, work: &Work) -> Result<EventsReport, VerbError> {
    let source = work.graphites.connect(&plan.server).map_err(VerbError::Invalid)?;
    work.progress.begin("events", None);
    let call = source.events(plan.from.unwrap_or(0), plan.until.unwrap_or(END));
    let events = heard(work, call).await?.map_err(|error| VerbError::Failed(error.to_string()))?;
    work.progress.add(events.len() as u64);
    work.events.add_missing(events, plan.dry_run).await
}
