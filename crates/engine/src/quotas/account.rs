//! How much the metrics below one directory use of their quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plumbago_model::rules::Quota;
use plumbago_telemetry::Throttle;

/// Marks a number of bytes that has not been measured yet.
const UNKNOWN: u64 = u64::MAX;

/// What a quota limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited {
    /// The number of metrics.
    Metrics,
    /// The number of points that arrive in a minute.
    Points,
    /// The number of bytes in the store.
    Bytes,
}

impl Limited {
    /// All kinds of limits, in the order of the enum.
    pub const ALL: [Self; 3] = [Self::Metrics, Self::Points, Self::Bytes];

    /// The key of this limit in the file of quotas.
    pub fn key(self) -> &'static str {
        ["metrics", "points_per_minute", "bytes"][self as usize]
    }
}

/// The counts that are kept when the quotas change: the points of a minute, the bytes of the directory, and
/// the refused points.
#[derive(Debug)]
pub(crate) struct Usage {
    /// The minute since the epoch is in the high half, the number of points that arrived in it is in the low
    /// half.
    minute: AtomicU64,
    /// Like `minute`, for the minute before.
    minute_before: AtomicU64,
    bytes: AtomicU64,
    /// Refused points, by the limit that was reached. In a dry run, these are the points that would have been
    /// refused.
    refused: [AtomicU64; 3],
}

impl Default for Usage {
    fn default() -> Self {
        let (minute, minute_before, refused) = Default::default();
        Self { minute, minute_before, bytes: AtomicU64::new(UNKNOWN), refused }
    }
}

/// A directory with a quota. All shards share the account.
#[derive(Debug)]
pub(crate) struct Account {
    /// The number of the account, counted from 1. A number is never used again.
    pub(crate) number: u32,
    pub(crate) quota: Quota,
    /// The directory; empty for all metrics.
    pub(crate) directory: String,
    metrics: AtomicU64,
    pub(super) usage: Arc<Usage>,
    throttle: Throttle,
}

impl Account {
    pub(super) fn new(number: u32, quota: Quota, directory: &str, usage: Arc<Usage>) -> Self {
        let (directory, metrics) = (directory.to_owned(), AtomicU64::new(0));
        Self { number, quota, directory, metrics, usage, throttle: Throttle::new(10_000) }
    }

    /// Counts a metric without checking the limit.
    pub(crate) fn add_metric(&self) {
        self.metrics.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a metric from the count.
    pub(crate) fn remove_metric(&self) {
        self.metrics.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a new metric, unless a limit is reached. Returns whether it was counted.
    pub(crate) fn admit_metric(&self, name: &str, now: i64) -> bool {
        if self.is_over(self.quota.limits.bytes, self.bytes()) && self.refuses(Limited::Bytes, name, now) {
            return false;
        }
        let most = self.quota.limits.metrics.unwrap_or(u64::MAX);
        let add = |metrics| (metrics < most).then_some(metrics + 1);
        if self.metrics.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok() {
            return true;
        }
        if self.refuses(Limited::Metrics, name, now) {
            return false;
        }
        self.add_metric();
        true
    }

    /// Counts a point of a known metric, unless a limit is reached. Returns whether it was counted.
    pub(crate) fn admit_point(&self, name: &str, now: i64) -> bool {
        if self.quota.over_bytes_refuses_points
            && self.is_over(self.quota.limits.bytes, self.bytes())
            && self.refuses(Limited::Bytes, name, now)
        {
            return false;
        }
        let most = self.quota.limits.points_per_minute.unwrap_or(u64::from(u32::MAX));
        self.usage.add_point(now, if self.quota.dry_run { u64::from(u32::MAX) } else { most }, most)
            || !self.refuses(Limited::Points, name, now)
    }

    /// The number of metrics.
    pub(crate) fn metrics(&self) -> u64 {
        self.metrics.load(Ordering::Relaxed)
    }

    /// Number of points that arrived in the current minute or in the one before, whichever number is larger.
    pub(crate) fn points_per_minute(&self, now: i64) -> u64 {
        let this = minute_of(now);
        let points = |cell: &AtomicU64| {
            let (minute, points) = split(cell.load(Ordering::Relaxed));
            if minute == this || minute.wrapping_add(1) == this { points } else { 0 }
        };
        points(&self.usage.minute).max(points(&self.usage.minute_before))
    }

    /// Size of the points in the store, in bytes, at the last measurement; `None` before the first one.
    pub(crate) fn bytes(&self) -> Option<u64> {
        Some(self.usage.bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes != UNKNOWN)
    }

    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.usage.bytes.store(bytes.min(UNKNOWN - 1), Ordering::Relaxed);
    }

    /// Points that were refused so far, or would have been in a dry run, in the order of [`Limited::ALL`].
    pub(crate) fn refused(&self) -> [u64; 3] {
        std::array::from_fn(|at| self.usage.refused[at].load(Ordering::Relaxed))
    }

    fn is_over(&self, limit: Option<u64>, used: Option<u64>) -> bool {
        limit.zip(used).is_some_and(|(limit, used)| used >= limit)
    }

    /// Counts a refused point, and logs this from time to time. Returns `false` in a dry run.
    #[cold]
    fn refuses(&self, limited: Limited, name: &str, now: i64) -> bool {
        self.usage.refused[limited as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(suppressed) = self.throttle.pass(now * 1000) {
            let what = if self.quota.dry_run { "would refuse (dry_run)" } else { "refused" };
            let limits = &self.quota.limits;
            let (limit, used) = match limited {
                Limited::Metrics => (limits.metrics, self.metrics()),
                Limited::Points => (limits.points_per_minute, self.points_per_minute(now)),
                Limited::Bytes => (limits.bytes, self.bytes().unwrap_or(0)),
            };
            tracing::warn!(
                quota = self.quota.name,
                directory = shown(&self.directory),
                limit,
                used,
                name,
                suppressed,
                "a quota {what} a point, because a directory has reached the limit {}",
                limited.key()
            );
        }
        !self.quota.dry_run
    }
}

impl Usage {
    /// Counts a point of the minute of `now` while fewer than `most` have arrived. Returns whether fewer than
    /// `limit` had arrived before. If the clock is set back a little, points still count for the later
    /// minute.
    fn add_point(&self, now: i64, most: u64, limit: u64) -> bool {
        let now = minute_of(now);
        let mut old = self.minute.load(Ordering::Relaxed);
        loop {
            let (minute, points) = split(old);
            let is_same = minute == now || minute.wrapping_sub(now) <= 2;
            if is_same && points >= most {
                return false;
            }
            let (minute, points) = if is_same { (minute, points) } else { (now, 0) };
            match self.minute.compare_exchange_weak(
                old,
                joined(minute, points + 1),
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    if !is_same {
                        self.minute_before.store(old, Ordering::Relaxed);
                    }
                    return points < limit;
                }
                Err(newer) => old = newer,
            }
        }
    }
}

/// The text for a directory; for all metrics it is `/`.
pub(super) fn shown(directory: &str) -> &str {
    if directory.is_empty() { "/" } else { directory }
}

fn minute_of(now: i64) -> u32 {
    (now / 60) as u32
}

fn split(cell: u64) -> (u32, u64) {
    ((cell >> 32) as u32, cell & u64::from(u32::MAX))
}

fn joined(minute: u32, points: u64) -> u64 {
    u64::from(minute) << 32 | points
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_040;

    fn account(text: &str) -> Account {
        let (rules, problems) =
            plumbago_model::rules::QuotaRules::parse(&format!("[q]\npattern = /\n{text}"));
        assert!(problems.is_empty(), "{problems:?}");
        Account::new(1, rules.quotas()[0].clone(), "", Arc::default())
    }

    #[test]
    fn metrics_beyond_the_limit_are_refused_until_one_goes() {
        let account = account("metrics = 2");
        assert_eq!([0; 3].map(|_| account.admit_metric("a", NOW)), [true, true, false]);
        account.remove_metric();
        assert!(account.admit_metric("b", NOW) && !account.admit_metric("c", NOW));
        assert_eq!((account.metrics(), account.refused()), (2, [2, 0, 0]));
    }

    #[test]
    fn points_beyond_the_limit_are_refused_until_the_minute_ends() {
        let account = account("points_per_minute = 3");
        let admitted = |now| (0..5).filter(|_| account.admit_point("a", now)).count();
        assert_eq!((admitted(NOW), admitted(NOW + 59), admitted(NOW + 60)), (3, 0, 3));
        assert_eq!((account.points_per_minute(NOW + 60), account.points_per_minute(NOW + 200)), (3, 0));
        assert_eq!(admitted(NOW), 0, "a clock that goes back a little gives nothing");
        assert_eq!(admitted(NOW - 86_400), 3, "one that was set right counts from there");
    }

    #[test]
    fn shards_together_admit_what_the_limit_says() {
        let account = account("points_per_minute = 10000\nmetrics = 500");
        let admitted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let points = (0..5000).filter(|_| account.admit_point("a", NOW)).count();
                    let metrics = (0..400).filter(|_| account.admit_metric("a", NOW)).count();
                    admitted.fetch_add((points + metrics) as u64, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(admitted.into_inner(), 10_500);
    }

    #[test]
    fn bytes_refuse_names_or_points_once_they_are_measured() {
        let (names, points) = (account("bytes = 1kB"), account("bytes = 1kB\nover_bytes = points"));
        for account in [&names, &points] {
            assert!(account.admit_metric("a", NOW) && account.admit_point("a", NOW));
            account.set_bytes(1000);
            assert!(!account.admit_metric("b", NOW));
        }
        assert!(names.admit_point("a", NOW) && !points.admit_point("a", NOW));
        points.set_bytes(999);
        assert!(points.admit_point("a", NOW) && points.admit_metric("b", NOW));
    }

    #[test]
    fn a_dry_run_counts_and_refuses_nothing() {
        let account = account("metrics = 1\npoints_per_minute = 2\ndry_run = true");
        assert!((0..3).all(|_| account.admit_metric("a", NOW)));
        assert!((0..5).all(|_| account.admit_point("a", NOW)));
        assert_eq!(account.refused(), [2, 3, 0]);
        assert_eq!((account.metrics(), account.points_per_minute(NOW)), (3, 5));
    }
}
