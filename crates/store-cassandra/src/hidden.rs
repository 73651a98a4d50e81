//! Hidden series, which tag searches do not find. Each is marked by a row in the tags table, under a tag
//! that no series can have. The `id` of that row holds the time since when the series is hidden.

use std::collections::HashSet;

use plumbago_store::StoreError;
use scylla::value::CqlTimeuuid;
use uuid::Uuid;

use crate::driver::Session;
use crate::metadata::{CONCURRENCY, NameStore, seconds_of, time_uuid};
use crate::{error, flight, names};

/// The tag and value under which hidden series are listed.
const MARK: (&str, &str) = ("!hidden", "series");

impl NameStore {
    pub(crate) async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError> {
        let since = Uuid::from_bytes(*time_uuid(at).as_bytes());
        let (tag, value) = MARK;
        let hide = async |i: usize| {
            self.run("hide a series", self.text.insert_mark(), &(tag, value, names[i], since)).await
        };
        flight::all(names.len(), CONCURRENCY, hide).await.map(|_| ())
    }

    pub(crate) async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        let (tag, value) = MARK;
        let show = async |i: usize| {
            self.run("show a series", self.text.delete_mark(), &(tag, value, names[i])).await
        };
        flight::all(names.len(), CONCURRENCY, show).await.map(|_| ())
    }

    /// The hidden series, each with the time since when (seconds since the epoch). Empty if the server has no
    /// tags table.
    pub(crate) async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        let rows: Result<Vec<(String, Option<Uuid>)>, _> =
            self.rows("list hidden series", self.text.marks(), &MARK).await;
        let rows = self.without_tags(rows)?;
        let since = |id: Option<Uuid>| id.map_or(0, |id| seconds_of(CqlTimeuuid::from_bytes(*id.as_bytes())));
        Ok(rows.into_iter().map(|(name, id)| (name, since(id))).collect())
    }

    /// Removes the marks of those deleted metrics that are hidden series. With `as_of_us` (microseconds since the
    /// epoch), marks set after that time stay. The others get no tombstones: too many in the partition of the marks
    /// would make it unreadable.
    pub(crate) async fn remove_marks(
        &self,
        session: &dyn Session,
        deleted: &[&str],
        as_of_us: Option<i64>,
    ) -> Result<(), StoreError> {
        if !deleted.iter().any(|name| names::is_tagged(name)) || self.tags.is_absent(self.clock.now_ms()) {
            return Ok(());
        }
        let marked = self.hidden().await?;
        let marked: HashSet<&str> = marked.iter().map(|(name, _)| name.as_str()).collect();
        let marked: Vec<&str> = deleted.iter().copied().filter(|name| marked.contains(name)).collect();
        let (tag, value) = MARK;
        let remove = async |i: usize| {
            let values = (tag, value, marked[i]);
            self.execute_at(session, "show a series", self.text.delete_mark(), &values, as_of_us).await
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
