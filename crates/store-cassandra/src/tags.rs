//! The table that lists series by their tags. Only Plumbago has it, so it may be missing in a keyspace that
//! BigGraphite created. Series are then not listed by tag; everything else works.

use std::sync::atomic::{AtomicI64, Ordering};

use plumbago_store::StoreError;
use scylla::client::session::Session;
use uuid::Uuid;

use crate::metadata::NameStore;
use crate::{error, hidden, names};

/// How long a table that was found absent is not tried again, in milliseconds. Each try costs a request.
const ABSENT_FOR_MS: i64 = 60_000;

/// When the table was last found absent, in milliseconds since the epoch.
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
    /// Lists a series under its tags, unless the table is absent.
    pub(crate) async fn add_tags(&self, session: &Session, name: &str, id: Uuid) -> Result<(), StoreError> {
        if !self.is_listed_by_tag(name) {
            return Ok(());
        }
        self.without_tags(self.insert_tags(session, name, id).await)
    }

    async fn insert_tags(&self, session: &Session, name: &str, id: Uuid) -> Result<(), StoreError> {
        for (tag, value) in names::tags(name) {
            self.execute(session, "write a tag", self.text.insert_tag(), (tag, value, name, id)).await?;
        }
        Ok(())
    }

    /// Removes a series from under its tags, and its mark if it is hidden. With `as_of_us` (microseconds
    /// since the epoch), what was written after that time stays.
    pub(crate) async fn remove_tags(
        &self,
        session: &Session,
        name: &str,
        as_of_us: Option<i64>,
    ) -> Result<(), StoreError> {
        if !self.is_listed_by_tag(name) {
            return Ok(());
        }
        self.without_tags(self.delete_tags(session, name, as_of_us).await)
    }

    async fn delete_tags(
        &self,
        session: &Session,
        name: &str,
        as_of_us: Option<i64>,
    ) -> Result<(), StoreError> {
        for (tag, value) in names::tags(name).chain([hidden::MARK]) {
            let text = self.text.delete_tag();
            self.execute_at(session, "delete a tag", text, (tag, value, name), as_of_us).await?;
        }
        Ok(())
    }

    fn is_listed_by_tag(&self, name: &str) -> bool {
        names::is_tagged(name) && !self.tags.is_absent(self.clock.now_ms())
    }

    /// Turns the error of a server that has no such table into an empty result.
    pub(crate) fn without_tags<T: Default>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match result {
            Err(error) if error::is_invalid(&error) => {
                if self.tags.set_absent(self.clock.now_ms()) {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::warn!(
                        error,
                        "the table plumbago_tags cannot be used, so series are not listed by tag; run `plumbago syncdb`"
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
