//! The deleted metrics that are watched: whether they still get points.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A deleted metric that got no point for this long is assumed to get none any more. It is unloaded. If a point
/// arrives later, the metric is created again.
pub(crate) const QUIET: Duration = Duration::from_secs(600);
/// Number of checks in a row that must find points before a metric is created again. A single one may have found
/// points from before the deletion that were still on their way to the store.
const LOOKS: u32 = 2;
/// Most deleted metrics that are watched. Further ones stay loaded; the next round over all names finds them again.
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

    pub(crate) fn add(&self, names: &[&str], noticed: i64) {
        let mut watched = self.lock();
        for name in names {
            if watched.len() >= WATCHED_MAX {
                tracing::warn!(
                    WATCHED_MAX,
                    "many metrics were deleted at once; whether the rest still get points is checked later"
                );
                return;
            }
            let watch = Watch { noticed, since: Instant::now(), looks: 0 };
            watched.entry((*name).to_owned()).or_insert(watch);
        }
    }

    pub(crate) fn remove(&self, names: &[&str]) {
        let mut watched = self.lock();
        for name in names {
            watched.remove(*name);
        }
    }

    /// The names by the time at which their deletion was noticed.
    pub(crate) fn by_time(&self) -> BTreeMap<i64, Vec<String>> {
        let mut by_time: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for (name, watch) in &*self.lock() {
            by_time.entry(watch.noticed).or_default().push(name.clone());
        }
        by_time
    }

    /// Notes whether a look found points that the metric got after its deletion. Returns the verdict of all looks so
    /// far: `Open` while they do not suffice, and for a metric that is not watched.
    pub(crate) fn note(&self, name: &str, is_written: bool) -> Verdict {
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

/// What the looks at a deleted metric have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Open,
    Written,
    Quiet,
}
