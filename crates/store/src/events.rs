//! Events, as daemons on the same store send them to each other. No store keeps them: each daemon has those that were
//! posted to it.

/// An event. Its id is unique among the events of all daemons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PeerEvent {
    /// Number of the event.
    pub id: u64,
    /// Seconds since the epoch.
    pub when: i64,
    /// Title.
    pub what: String,
    /// Longer description; may be empty.
    pub data: String,
    /// Its tags.
    pub tags: Vec<String>,
}

/// Which events of a peer are wanted.
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
    /// First second of the range, since the epoch.
    pub from: i64,
    /// Last second of the range, which is part of it.
    pub until: i64,
    /// Tags that an event must have. `None` selects all events, an empty list selects none.
    pub tags: Option<Vec<String>>,
    /// Whether an event needs only one of the tags instead of all.
    pub any: bool,
}
