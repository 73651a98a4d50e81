//! Adopts, forgets and deletes metrics, and answers questions about them.

use std::sync::Arc;

use futures::future::try_join_all;
use plumbago_model::MetricConfig;
use plumbago_store::{FetchError, MetricMeta};

use super::Engine;
use crate::command::ShardCommand;
use crate::shard::live::Adopted;

impl Engine {
    /// Adds metrics that other programs created in the metadata store. Metrics that the engine already has
    /// stay as they are, but get the new settings if the stored values can be read with them.
    ///
    /// # Errors
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn adopt(&self, metrics: &[MetricMeta]) -> Result<(), FetchError> {
        let mut shares: Vec<Vec<Adopted>> = self.0.workers.iter().map(|_| Vec::new()).collect();
        for metric in metrics {
            let hash = self.0.router.hash(&metric.name);
            let places = self.quotas().places(&metric.name);
            let adopted = Adopted { hash, id: metric.id(), config: Arc::clone(&metric.config), places };
            shares[self.0.router.shard(&hash)].push(adopted);
        }
        let shares = self.0.workers.iter().zip(shares).filter(|(_, share)| !share.is_empty());
        let sent = shares.map(|(shard, share)| async {
            shard.send(ShardCommand::Adopt(share)).await.map_err(|_| FetchError::Stopping)
        });
        try_join_all(sent).await?;
        self.0.parts.index.insert(metrics.iter().map(|metric| metric.name.as_str()));
        Ok(())
    }

    /// Returns for each name whether the engine has the metric.
    ///
    /// # Errors
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn contains(&self, names: &[&str]) -> Result<Vec<bool>, FetchError> {
        self.ask_each(names, ShardCommand::Contains).await
    }

    /// Returns for each metric whether it got a point since `since` (seconds since the epoch), holds a point
    /// that is not stored, or is being created.
    ///
    /// # Errors
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn are_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, FetchError> {
        self.ask_each(names, |hashes, answer| ShardCommand::AreWritten(hashes, since, answer)).await
    }

    /// Returns for each metric the time (seconds since the epoch) before which its windows are closed: the
    /// engine stores none of them again, except for late points.
    ///
    /// # Errors
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn closed_until(&self, names: &[&str]) -> Result<Vec<i64>, FetchError> {
        self.ask_each(names, ShardCommand::ClosedUntil).await
    }

    /// Removes metrics without a point since `since` (seconds since the epoch) from heads and index; the
    /// stores keep them. A metric with points that are not stored stays. Returns for each name whether the
    /// engine no longer has it.
    ///
    /// # Errors
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn forget(&self, names: &[&str], since: i64) -> Result<Vec<bool>, FetchError> {
        let index = &self.0.parts.index;
        // Remove the name from the index first. If a point arrives after the head was removed, it adds the
        // name again.
        let listed: Vec<bool> = names.iter().map(|name| index.remove(name)).collect();
        let forgotten =
            self.ask_each(names, |hashes, answer| ShardCommand::Forget(hashes, since, answer)).await;
        let stays = |at: &usize| listed[*at] && forgotten.as_ref().map_or(true, |forgotten| !forgotten[*at]);
        index.insert((0..names.len()).filter(stays).map(|at| names[at]));
        forgotten
    }

    /// The settings in the heads of these metrics; `None` for a metric without a head.
    ///
    /// # Errors
    ///
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub(crate) async fn settings_of(
        &self,
        names: &[&str],
    ) -> Result<Vec<Option<Arc<MetricConfig>>>, FetchError> {
        self.ask_each(names, ShardCommand::Settings).await
    }

    /// Begins to delete whole metrics: drops the points in memory, which count as rejected (`deleted`), and
    /// writes the removal to the journal. Returns for each name whether the deletion has begun. If it has
    /// not, the caller tries again in a moment. Points that arrive later create a new metric. None of its
    /// points go to the stores before [`Engine::end_deletions`], so every deletion that has begun must be
    /// ended.
    ///
    /// # Errors
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn begin_deletions(&self, names: &[&str]) -> Result<Vec<bool>, FetchError> {
        self.apply_queued().await?;
        let begun = self.ask_each(names, ShardCommand::BeginDeletions).await?;
        // A new metric of the same name is added to the index only after the deletion has ended.
        for (name, _) in names.iter().zip(&begun).filter(|(_, begun)| **begun) {
            self.0.parts.index.remove(name);
        }
        let journal = self.0.parts.journal.clone();
        let synced = tokio::task::spawn_blocking(move || journal.sync()).await;
        if let Ok(Err(error)) = synced {
            let error: &(dyn std::error::Error + 'static) = &error;
            tracing::warn!(error, "cannot sync the removal of metrics; a power cut may bring them back");
        }
        Ok(begun)
    }

    /// Ends deletions that have begun: metrics of the same names that got points meanwhile are created now.
    ///
    /// # Errors
    /// [`FetchError::Stopping`] when the engine was stopped.
    pub async fn end_deletions(&self, names: &[&str]) -> Result<(), FetchError> {
        self.ask_each(names, ShardCommand::EndDeletions).await.map(|_| ())
    }
}
