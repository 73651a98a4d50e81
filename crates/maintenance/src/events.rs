//! Adds the events of another Graphite server to those of this data directory.

use std::fmt::Debug;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::graphite::{SourceEvent, heard};
use crate::verb::{VerbError, Work};
use crate::verbs::graphite::ImportEvents;

/// The end of the range if none is given: 2100-01-01, because events may be ahead of now.
const END: i64 = 4_102_444_800;

/// Stores the events of a data directory.
#[async_trait]
pub trait EventKeeper: Send + Sync + Debug {
    /// Adds the events that are not stored yet, in the order of time. Two events are the same if time, title,
    /// text and tags are equal. Events for which there is no room are left out, the oldest first.
    ///
    /// # Errors
    /// If events are switched off, or they cannot be written.
    async fn add_missing(&self, events: Vec<SourceEvent>, dry_run: bool) -> Result<EventsReport, VerbError>;
}

/// The results of an import of events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventsReport {
    /// Number of events of the server.
    pub events: u64,
    /// Number of events that were added; in a dry run, that would be added.
    pub added: u64,
    /// Number of events that were stored already, or occurred twice.
    pub known: u64,
    /// Number of events for which there is no room (`api.events_bytes`).
    pub no_room: u64,
    /// Number of events that are longer than an event may be.
    pub too_long: u64,
    /// Whether this was a dry run, which changes nothing.
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
