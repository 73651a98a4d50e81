//! Hidden series, which tag searches do not find. Each is marked by a row in the tags table, under a tag
//! that no series can have. The `id` of that row holds the time since when the series is hidden.

use plumbago_store::StoreError;
use scylla::value::CqlTimeuuid;
use uuid::Uuid;

use crate::flight;
use crate::metadata::{CONCURRENCY, NameStore, seconds_of, time_uuid};

/// The tag and value under which hidden series are listed.
pub(crate) const MARK: (&str, &str) = ("!hidden", "series");

impl NameStore {
    pub(crate) async fn hide(&self, names: &[&str], at: u32) -> Result<(), StoreError> {
        let since = Uuid::from_bytes(*time_uuid(at).as_bytes());
        let (tag, value) = MARK;
        let hide =
            |i: usize| self.run("hide a series", self.text.insert_mark(), (tag, value, names[i], since));
        flight::all(names.len(), CONCURRENCY, hide).await.map(|_| ())
    }

    pub(crate) async fn show(&self, names: &[&str]) -> Result<(), StoreError> {
        let (tag, value) = MARK;
        let show = |i: usize| self.run("show a series", self.text.delete_mark(), (tag, value, names[i]));
        flight::all(names.len(), CONCURRENCY, show).await.map(|_| ())
    }

    /// The hidden series, each with the time since when (seconds since the epoch). Empty if the server has no
    /// tags table.
    pub(crate) async fn hidden(&self) -> Result<Vec<(String, u32)>, StoreError> {
        let rows: Result<Vec<(String, Option<Uuid>)>, _> =
            self.rows("list hidden series", self.text.marks(), MARK).await;
        let rows = self.without_tags(rows)?;
        let since = |id: Option<Uuid>| id.map_or(0, |id| seconds_of(CqlTimeuuid::from_bytes(*id.as_bytes())));
        Ok(rows.into_iter().map(|(name, id)| (name, since(id))).collect())
    }
}
