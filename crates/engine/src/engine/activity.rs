//! Counts the points that arrive, and finds out which metrics may have points in a time range.

use plumbago_store::FetchError;

use super::Engine;
use crate::command::ShardCommand;

impl Engine {
    /// The number of points that were queued for the shards since the start.
    pub fn received(&self) -> u64 {
        self.0.stats.received.get()
    }

    /// Returns whether each metric may have points from `from` until `until` (seconds since the epoch, both
    /// inclusive); `None` if this is not known. After a flush of all slots of a metric, its newest point may
    /// seem only twenty slots old, however old it is, so the answer may be true although there are no points
    /// in the range.
    ///
    /// # Errors
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn may_have_points(
        &self,
        names: &[&str],
        from: i64,
        until: i64,
    ) -> Result<Vec<Option<bool>>, FetchError> {
        self.ask_each(names, |hashes, answer| ShardCommand::MayHavePoints(hashes, (from, until), answer))
            .await
    }
}
