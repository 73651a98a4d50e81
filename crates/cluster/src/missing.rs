//! Metrics that another program deleted from the shared store. A metric that gets more points is created
//! again; the others are unloaded.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumbago_store::MetricMeta;
use tokio::time::Instant;

use crate::pace::{AT_ONCE, Work};
use crate::{ClusterError, LocalMetrics, Member};

/// A deleted metric that got no point for this long is unloaded, because it will probably get none any more.
/// If a point arrives later, the metric is created again.
const QUIET: Duration = Duration::from_secs(600);
/// How often deleted metrics are checked for new points.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Number of checks in a row that must find points before a metric is created again. A single check may find
/// points from before the deletion that were still on their way to the store.
const LOOKS: u32 = 2;
/// Largest number of deleted metrics that are watched. Further ones stay loaded, and the next round over all
/// names finds them again.
const WATCHED_MAX: usize = 100_000;

/// Deleted metrics that are still loaded.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<HashMap<String, Watch>>);

#[derive(Debug, Clone, Copy)]
struct Watch {
    /// When the deletion was noticed, in seconds since the epoch.
    noticed: i64,
    since: Instant,
    looks: u32,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, names: &[&str], noticed: i64) {
        let mut watched = self.lock();
        for name in names {
            if watched.len() >= WATCHED_MAX {
                tracing::warn!(WATCHED_MAX, "many metrics were deleted at once; the rest is checked later");
                return;
            }
            let watch = Watch { noticed, since: Instant::now(), looks: 0 };
            watched.entry((*name).to_owned()).or_insert(watch);
        }
    }

    fn remove(&self, names: &[&str]) {
        let mut watched = self.lock();
        for name in names {
            watched.remove(*name);
        }
    }

    /// The names, grouped by the time at which their deletion was noticed.
    fn by_time(&self) -> BTreeMap<i64, Vec<String>> {
        let mut by_time: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for (name, watch) in &*self.lock() {
            by_time.entry(watch.noticed).or_default().push(name.clone());
        }
        by_time
    }

    /// Notes whether the metric got points since the deletion. Returns whether this is certain now.
    fn note(&self, name: &str, is_written: bool) -> Verdict {
        let mut watched = self.lock();
        let Some(watch) = watched.get_mut(name) else { return Verdict::Open };
        watch.looks = if is_written { watch.looks + 1 } else { 0 };
        match is_written {
            true if watch.looks >= LOOKS => Verdict::Written,
            false if watch.since.elapsed() >= QUIET => Verdict::Quiet,
            _ => Verdict::Open,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Open,
    Written,
    Quiet,
}

impl Member {
    /// Unloads metrics that are missing in the shared store because they were deleted, and deletes them from
    /// the local copy. Metrics that got points recently are watched first. Returns how many are missing.
    pub(crate) async fn apply_deletions(
        &self,
        local: &dyn LocalMetrics,
        names: &[&str],
    ) -> Result<usize, ClusterError> {
        let mut missing = 0;
        for names in names.chunks(AT_ONCE) {
            // Keep a metric that was created again after its deletion.
            let deleted = self.not_there(names).await?;
            missing += deleted.len();
            self.unload_or_watch(local, &deleted).await?;
        }
        Ok(missing)
    }

    /// Handles metrics that are known to be missing in the shared store.
    pub(crate) async fn unload_or_watch(
        &self,
        local: &dyn LocalMetrics,
        deleted: &[&str],
    ) -> Result<(), ClusterError> {
        let now = self.clock().now();
        let unloaded = local.forget(deleted, now - QUIET.as_secs() as i64).await?;
        let (gone, watched) = divide(deleted, &unloaded);
        self.watched().add(&watched, now);
        Ok(self.names().copy().delete(&gone).await?)
    }

    /// Checks the watched metrics regularly. Never returns.
    pub(crate) async fn watch_deleted(self, local: std::sync::Arc<dyn LocalMetrics>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            for (noticed, names) in self.watched().by_time() {
                if let Err(error) = self.look_at_deleted(&*local, &names, noticed).await {
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
        noticed: i64,
    ) -> Result<(), ClusterError> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let written = local.are_written(&names, noticed).await?;
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
            let deleted = self.not_there(names).await?;
            let unloaded = local.forget(&deleted, noticed).await?;
            let (gone, stays) = divide(&deleted, &unloaded);
            self.names().copy().delete(&gone).await?;
            let done: Vec<&str> = names.iter().filter(|name| !stays.contains(name)).copied().collect();
            self.watched().remove(&done);
        }
        Ok(())
    }

    /// Returns those of `names` that are missing in the shared store.
    async fn not_there<'a>(&self, names: &[&'a str]) -> Result<Vec<&'a str>, ClusterError> {
        self.pace().wait(names.len(), Work::LookUp).await;
        let exist = self.store().exist(names).await?;
        Ok(divide(names, &exist).1)
    }
}

/// Splits names into those whose flag is set and the others.
fn divide<'a>(names: &[&'a str], flags: &[bool]) -> (Vec<&'a str>, Vec<&'a str>) {
    let (set, others): (Vec<_>, Vec<_>) = names.iter().zip(flags).partition(|(_, flag)| **flag);
    let names = |pairs: Vec<(&&'a str, &bool)>| pairs.into_iter().map(|(name, _)| *name).collect();
    (names(set), names(others))
}
