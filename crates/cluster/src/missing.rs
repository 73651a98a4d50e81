//! Metrics that another program deleted from the shared store. A metric that gets more points is created
//! again; the others are unloaded.

use std::time::Duration;

use plumbago_model::MetricId;
use plumbago_store::MetricMeta;

use crate::pace::{AT_ONCE, Work};
use crate::watched::{Deletion, QUIET, Verdict};
use crate::{ClusterError, LocalMetrics, Member};

/// How often deleted metrics are checked for new points.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl Member {
    /// Unloads metrics that are missing in the shared store because they were deleted, and deletes them from
    /// the local copy. Metrics that got points recently are watched first. Each name comes with the time of its
    /// deletion by the servers' clock (seconds since the epoch), if it is known. Returns how many are missing.
    pub(crate) async fn apply_deletions(
        &self,
        local: &dyn LocalMetrics,
        deletions: &[Deletion<'_>],
    ) -> Result<usize, ClusterError> {
        let mut missing = 0;
        for deletions in deletions.chunks(AT_ONCE) {
            self.forget_rows(deletions).await?;
            let names: Vec<&str> = deletions.iter().map(|(name, _)| *name).collect();
            // Keep a metric that was created again after its deletion.
            let exist = self.do_exist(&names).await?;
            let deleted = divide(deletions, &exist).1;
            missing += deleted.len();
            self.unload_or_watch(local, &deleted).await?;
        }
        Ok(missing)
    }

    /// Removes the rows of deleted metrics that are older than the deletion from the local disk. A deletion
    /// finds only what is stored, so rows that arrived after it would stay.
    async fn forget_rows(&self, deletions: &[Deletion<'_>]) -> Result<(), ClusterError> {
        let known = deletions.iter().filter_map(|(name, at)| Some((*name, (*at)?)));
        let rows: Vec<(MetricId, i64)> =
            known.map(|(name, at)| (MetricId::of(name), at.saturating_mul(1_000_000))).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let this = self.clone();
        // On a blocking thread because it reads and writes files. A panic is reported by the panic hook.
        match tokio::task::spawn_blocking(move || this.outbox().forget_before(&rows)).await {
            Ok(done) => Ok(done?),
            Err(_) => Ok(()),
        }
    }

    /// Handles metrics that are known to be missing in the shared store.
    pub(crate) async fn unload_or_watch(
        &self,
        local: &dyn LocalMetrics,
        deleted: &[Deletion<'_>],
    ) -> Result<(), ClusterError> {
        let now = self.clock().now();
        let names: Vec<&str> = deleted.iter().map(|(name, _)| *name).collect();
        // A metric with points from after its deletion is watched, even if this daemon hears of the deletion
        // much later.
        let times = deleted.iter().filter_map(|(_, at)| *at);
        let since = times.fold(now - QUIET.as_secs() as i64, |since, at| since.min(at + 1));
        let unloaded = local.forget(&names, since).await?;
        let (gone, watched) = divide(deleted, &unloaded);
        self.watched().add(&watched, now);
        let gone: Vec<&str> = gone.into_iter().map(|(name, _)| name).collect();
        Ok(self.names().copy().delete(&gone).await?)
    }

    /// Checks the watched metrics regularly. Never returns.
    pub(crate) async fn watch_deleted(self, local: std::sync::Arc<dyn LocalMetrics>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            for (since, names) in self.watched().by_time() {
                if let Err(error) = self.look_at_deleted(&*local, &names, since).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "cannot check whether deleted metrics get points; retrying");
                }
            }
        }
    }

    async fn look_at_deleted(
        &self,
        local: &dyn LocalMetrics,
        names: &[String],
        since: i64,
    ) -> Result<(), ClusterError> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let written = local.are_written(&names, since).await?;
        let verdicts: Vec<(&str, Verdict)> =
            names.into_iter().zip(written).map(|(name, is)| (name, self.watched().note(name, is))).collect();
        let of = |wanted| -> Vec<&str> {
            verdicts.iter().filter(|(_, verdict)| *verdict == wanted).map(|(name, _)| *name).collect()
        };
        for names in of(Verdict::Written).chunks(AT_ONCE) {
            let kept: Vec<MetricMeta> = self.names().copy().get(names).await?.into_iter().flatten().collect();
            self.create_missing(&kept).await?;
            self.watched().remove(names);
        }
        // A server that has returned may have lost names. Those are created again first.
        if self.has_unhandled_return() {
            return Ok(());
        }
        for names in of(Verdict::Quiet).chunks(AT_ONCE) {
            let exist = self.do_exist(names).await?;
            let deleted = divide(names, &exist).1;
            let unloaded = local.forget(&deleted, since).await?;
            let (gone, stays) = divide(&deleted, &unloaded);
            self.names().copy().delete(&gone).await?;
            let done: Vec<&str> = names.iter().filter(|name| !stays.contains(name)).copied().collect();
            self.watched().remove(&done);
        }
        Ok(())
    }

    /// Whether each of `names` exists in the shared store.
    async fn do_exist(&self, names: &[&str]) -> Result<Vec<bool>, ClusterError> {
        self.pace().wait(names.len(), Work::LookUp).await;
        Ok(self.store().exist(names).await?)
    }
}

/// Splits a list into the items whose flag is set and the others.
fn divide<T: Copy>(items: &[T], flags: &[bool]) -> (Vec<T>, Vec<T>) {
    let (set, others): (Vec<_>, Vec<_>) = items.iter().zip(flags).partition(|(_, flag)| **flag);
    let items = |pairs: Vec<(&T, &bool)>| pairs.into_iter().map(|(item, _)| *item).collect();
    (items(set), items(others))
}
