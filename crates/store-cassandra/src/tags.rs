//! The table `plumbago_tags`, which holds the marks of hidden series ([`crate::hidden`]). Earlier releases also listed
//! all series there by tag, without bound; nothing reads those rows, and they stay. Only Plumbago has the table, so it
//! may be missing in a keyspace that BigGraphite created. Series cannot be hidden then; everything else works.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};

use plumbago_store::StoreError;
use scylla::client::session::Session;

use crate::metadata::{CONCURRENCY, NameStore};
use crate::{error, flight, hidden, names};

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
    fn is_absent(&self, now_ms: i64) -> bool {
        is_lately(self.0.load(Ordering::Relaxed), now_ms)
    }

    /// Records that the table is absent. Returns `true` if that was not known.
    fn set_absent(&self, now_ms: i64) -> bool {
        !is_lately(self.0.swap(now_ms, Ordering::Relaxed), now_ms)
    }
}

fn is_lately(at_ms: i64, now_ms: i64) -> bool {
    (0..ABSENT_FOR_MS).contains(&now_ms.saturating_sub(at_ms))
}

impl NameStore {
    /// Removes the marks of those deleted metrics that are hidden series. With `as_of_us` (microseconds since the
    /// epoch), marks set after that time stay. The others get no tombstones: too many in the partition of the marks
    /// would make it unreadable.
    pub(crate) async fn remove_marks(
        &self,
        session: &Session,
        deleted: &[&str],
        as_of_us: Option<i64>,
    ) -> Result<(), StoreError> {
        if !deleted.iter().any(|name| names::is_tagged(name)) || self.tags.is_absent(self.clock.now_ms()) {
            return Ok(());
        }
        let marked = self.hidden().await?;
        let marked: HashSet<&str> = marked.iter().map(|(name, _)| name.as_str()).collect();
        let marked: Vec<&str> = deleted.iter().copied().filter(|name| marked.contains(name)).collect();
        let (tag, value) = hidden::MARK;
        let remove = |i: usize| {
            self.execute_at(
                session,
                "show a series",
                self.text.delete_mark(),
                (tag, value, marked[i]),
                as_of_us,
            )
        };
        self.without_tags(flight::all(marked.len(), CONCURRENCY, remove).await.map(|_| ()))
    }

    /// Turns the error of a server that has no such table into an empty result.
    pub(crate) fn without_tags<T: Default>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match result {
            Err(error) if error::is_invalid(&error) => {
                if self.tags.set_absent(self.clock.now_ms()) {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::warn!(
                        error,
                        "the table plumbago_tags cannot be used, so series cannot be hidden; run `plumbago syncdb`"
                    );
                }
                Ok(T::default())
            }
            result => result,
        }
    }
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
