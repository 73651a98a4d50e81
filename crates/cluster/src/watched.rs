//! The deleted metrics that are watched: whether they still get points.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A deleted metric that got no point for this long is assumed to get none any more. It is unloaded. If a point
/// arrives later, the metric is created again.
pub(crate) const QUIET: Duration = Duration::from_secs(600);
/// Number of checks in a row that must find points before a metric is created again. A single check may have
/// found points from before the deletion that were still on their way to the store.
const LOOKS: u32 = 2;
/// Largest number of deleted metrics that are watched. Further ones stay loaded; the next round over all
/// names finds them again.
const WATCHED_MAX: usize = 100_000;

/// A deleted metric, and the time of its deletion by the servers' clock (seconds since the epoch), if it is known.
pub(crate) type Deletion<'a> = (&'a str, Option<i64>);

/// Deleted metrics that are still loaded.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<HashMap<String, Watch>>);

#[derive(Debug, Clone, Copy)]
struct Watch {
    /// Points from this time on are from after the deletion. In seconds since the epoch.
    points_since: i64,
    begun: Instant,
    looks: u32,
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches deleted metrics. `now` is in seconds since the epoch.
    ///
    /// A daemon hears of a deletion some time after it, and much later if the servers could not be reached.
    /// Points that arrived in between are new. So what counts is the time of the deletion, not the time at
    /// which the daemon hears of it. A metric that is deleted once more is watched from then on.
    pub(crate) fn add(&self, deletions: &[Deletion<'_>], now: i64) {
        let mut watched = self.lock();
        for (name, deleted) in deletions {
            if watched.len() >= WATCHED_MAX {
                tracing::warn!(
                    WATCHED_MAX,
                    "many metrics were deleted at once; whether some of them still get points is checked later"
                );
                return;
            }
            // The points of the second in which the metric was deleted may be older than the deletion.
            let points_since = deleted.map_or(now, |deleted| now.min(deleted + 1));
            let watch = Watch { points_since, begun: Instant::now(), looks: 0 };
            let known = watched.entry((*name).to_owned()).or_insert(watch);
            if deleted.is_some() && known.points_since < points_since {
                *known = watch;
            }
        }
    }

    pub(crate) fn remove(&self, names: &[&str]) {
        let mut watched = self.lock();
        for name in names {
            watched.remove(*name);
        }
    }

    /// The names by the time since which their points count as new.
    pub(crate) fn by_time(&self) -> BTreeMap<i64, Vec<String>> {
        let mut by_time: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for (name, watch) in &*self.lock() {
            by_time.entry(watch.points_since).or_default().push(name.clone());
        }
        by_time
    }

    /// Records whether a check found points that the metric got after its deletion, and returns the verdict of all its
    /// checks. `Open` for a metric that is not watched.
    pub(crate) fn note(&self, name: &str, is_written: bool) -> Verdict {
        let mut watched = self.lock();
        let Some(watch) = watched.get_mut(name) else { return Verdict::Open };
        watch.looks = if is_written { watch.looks + 1 } else { 0 };
        match is_written {
            true if watch.looks >= LOOKS => Verdict::Written,
            false if watch.begun.elapsed() >= QUIET => Verdict::Quiet,
            _ => Verdict::Open,
        }
    }
}

/// Whether a deleted metric is still being written, according to all checks so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not known yet.
    Open,
    /// Several checks in a row found new points.
    Written,
    /// No new points were found for long enough.
    Quiet,
}
