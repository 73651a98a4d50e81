//! The table `plumbago_tags`, which holds the marks of hidden series ([`crate::hidden`]). Earlier releases also listed
//! all series there by tag, without bound; nothing reads those rows, and they stay. Only Plumbago has the table, so it
//! may be missing in a keyspace that BigGraphite created. Series cannot be hidden then; everything else works.

use std::sync::atomic::{AtomicI64, Ordering};

/// How long a table that was found absent is not tried again, in milliseconds. Each try costs a request.
const ABSENT_FOR_MS: i64 = 60_000;

/// The time when the table was last found absent, in milliseconds since the epoch.
#[derive(Debug)]
pub(crate) struct TagsTable(AtomicI64);

impl Default for TagsTable {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl TagsTable {
    pub(crate) fn is_absent(&self, now_ms: i64) -> bool {
        is_lately(self.0.load(Ordering::Relaxed), now_ms)
    }

    /// Records that the table is absent. Returns `true` if that was not known.
    pub(crate) fn set_absent(&self, now_ms: i64) -> bool {
        !is_lately(self.0.swap(now_ms, Ordering::Relaxed), now_ms)
    }
}

fn is_lately(at_ms: i64, now_ms: i64) -> bool {
    (0..ABSENT_FOR_MS).contains(&now_ms.saturating_sub(at_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_table_is_asked_for_again() {
        let table = TagsTable::default();
        assert!(!table.is_absent(0));
        assert!(table.set_absent(5) && !table.set_absent(6));
        assert!(table.is_absent(7) && !table.is_absent(6 + ABSENT_FOR_MS));
        assert!(table.set_absent(6 + ABSENT_FOR_MS));
        assert!(!table.is_absent(0), "a clock that went back");
    }
}
