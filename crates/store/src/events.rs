//! Events, as daemons on the same store send them to each other. No store keeps them: each daemon has those that were
//! posted to it.

/// An event. Its id is unique among the events of all daemons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerEvent {
    /// The unique number of the event.
    pub id: u64,
    /// The time of the event, in seconds since the epoch.
    pub when: i64,
    /// The title, which graphs show.
    pub what: String,
    /// A longer description; may be empty.
    pub data: String,
    /// The tags of the event.
    pub tags: Vec<String>,
}

/// Which events of a peer are requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventQuestion {
    /// The event with this id, if there is one.
    Id(u64),
    /// All events that these conditions select.
    Selected(EventFilter),
}

/// Selects events by time and tags.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct EventFilter {
    /// Start of the time range in seconds since the epoch, inclusive.
    pub from: i64,
    /// End of the time range in seconds since the epoch, inclusive.
    pub until: i64,
    /// Tags that an event must have. `None` selects all events, an empty list selects none.
    pub tags: Option<Vec<String>>,
    /// Whether an event needs only one of the tags instead of all.
    pub any: bool,
}
