//! The trait through which an import of events stores them.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;
use serde::{Deserialize, Serialize};

use crate::graphite_source::SourceEvent;
use crate::verb_error::VerbError;

/// Keeps the events of this data directory.
#[boxed_futures]
pub trait EventKeeper: Send + Sync + Debug {
    /// Adds the events that are not kept yet, in the order of time. Two events with the same time, title, text and tags
    /// count as one. If there is no room for all, the oldest are left out.
    ///
    /// # Errors
    /// If no events are kept here, or they cannot be written.
    async fn add_missing(&self, events: Vec<SourceEvent>, dry_run: bool) -> Result<EventsReport, VerbError>;
}

/// How many events were added, and why others were not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventsReport {
    /// Number of events that the server returned.
    pub events: u64,
    /// Number of events that were added; in a dry run, that would be added.
    pub added: u64,
    /// Number of events that are kept already, and of duplicates.
    pub known: u64,
    /// Number of events for which there is no room (`api.events_bytes`).
    pub no_room: u64,
    /// Number of events that are longer than an event may be.
    pub too_long: u64,
    /// Whether this was a dry run, which changes nothing.
    pub dry_run: bool,
}
