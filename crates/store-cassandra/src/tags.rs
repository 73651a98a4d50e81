//! The table that lists series by their tags. It is our own, so a keyspace that BigGraphite made may be
//! without it: then series are not listed there, and everything else goes on.

use std::sync::atomic::{AtomicI64, Ordering};

use plumbago_store::StoreError;
use scylla::client::session::Session;
use uuid::Uuid;

use crate::metadata::NameStore;
use crate::{error, hidden, names};

/// How long an absent table is not asked for again: each refusal costs a request to the nodes.
const ABSENT_FOR_MS: i64 = 60_000;

/// When the table was last found absent, milliseconds since the epoch.
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

    /// Notes it; true when that is news.
    fn set_absent(&self, now_ms: i64) -> bool {
        !is_lately(self.0.swap(now_ms, Ordering::Relaxed), now_ms)
    }
}

fn is_lately(at_ms: i64, now_ms: i64) -> bool {
    (0..ABSENT_FOR_MS).contains(&now_ms.saturating_sub(at_ms))
}

impl NameStore {
    /// Lists a series under its tags.
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

    /// Takes a series from under its tags, with its mark when it is hidden.
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

    /// What was asked of the table, or nothing where the server says that there is no such table.
    pub(crate) fn without_tags<T: Default>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match result {
            Err(error) if error::is_invalid(&error) => {
                if self.tags.set_absent(self.clock.now_ms()) {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::warn!(error, "series are not listed by tag; run `plumbago syncdb`");
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
