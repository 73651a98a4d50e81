//! Renamed settings. The old name is refused with a message that gives the new one.

/// Pairs of old and new paths of keys.
const RENAMED: &[(&str, &str)] = &[
    ("spool.gather", "spool.linger"),
    ("sender.patience", "sender.defer_after"),
    ("sender.parked_every", "sender.retry_deferred_every"),
];

/// Returns the new path of a renamed key, or `None` if `path` is not an old one.
pub(super) fn new_name(path: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(old, _)| *old == path).map(|(_, new)| *new)
}
