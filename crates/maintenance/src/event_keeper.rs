//! Where events are kept, as an import sees it.

use std::fmt::Debug;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::graphite_source::SourceEvent;
use crate::verb_error::VerbError;

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
