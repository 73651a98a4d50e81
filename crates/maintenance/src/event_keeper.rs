//! The trait through which an import of events stores them.

use std::fmt::Debug;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::graphite_source::SourceEvent;
use crate::verb_error::VerbError;

/// Keeps the events of this data directory.
#[async_trait]
pub trait EventKeeper: Send + Sync + Debug {
    /// Adds the events that are not kept yet, in the order of time. Two events with the same time, title, text and tags
    /// count as one. If there is no room for all, the oldest are left out.
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
