//! Finds metrics that repeatedly get several points for one slot of their raw stage. All but the last point
//! of a slot are replaced, so their senders send more often than the retention can keep.
//!
//! A sample of the metrics is watched. A point that replaces another makes its metric watched, and a few
//! slots later the metric is either reported as crowded or no longer watched. Points that were sent twice
//! have the same timestamp and do not count.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use plumbago_model::Stage;

use crate::router::NameHash;

/// Number of metrics of a shard that are watched at the same time.
const WATCHED_MAX: usize = 1024;
/// Number of slots after which a metric is judged.
const SLOTS_MIN: u32 = 4;
/// Number of slots at which the counts are halved, so that old slots count less than new ones.
const SLOTS_MAX: u32 = 64;
/// Number of crowded metrics of a shard that are reported by name.
const NAMED_MAX: usize = 3;
/// Seconds without a point after which a metric is no longer watched.
const SILENT: i64 = 86_400;

/// A metric that gets several points for each slot of its raw stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrowdedMetric {
    /// The name of the metric.
    pub name: String,
    /// The raw stage of the metric.
    pub raw: Stage,
    /// The smallest distance between two of its points, in seconds.
    pub interval: u32,
}

/// The crowded metrics that a shard or an engine has found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CrowdedMetrics {
    /// How many of the watched metrics are crowded. The total number is at least this large.
    pub count: u64,
    /// Examples of crowded metrics.
    pub examples: Vec<CrowdedMetric>,
}

/// The watched metrics of a shard, by the position of their head.
#[derive(Debug, Default)]
pub(crate) struct Crowded(HashMap<u32, Watched>);

#[derive(Debug)]
struct Watched {
    hash: NameHash,
    name: String,
    raw: Stage,
    slot: u32,
    /// The timestamp of the last point.
    last: u32,
    /// Whether the newest slot got points with different timestamps.
    is_crowded: bool,
    /// The number of slots that have passed, and how many of them got points with different timestamps.
    slots: u32,
    crowded: u32,
    interval: u32,
}

impl Crowded {
    /// Whether another metric can be watched.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.0.len() < WATCHED_MAX
    }

    /// Notes a point of a metric that is to be watched. Returns whether the metric is watched.
    pub(crate) fn note(&mut self, at: u32, hash: NameHash, name: &str, raw: Stage, timestamp: u32) -> bool {
        let (slot, has_room) = (raw.slot(timestamp), self.has_room());
        let watched = match self.0.entry(at) {
            Entry::Occupied(watched) => watched.into_mut(),
            Entry::Vacant(_) if !has_room => return false,
            Entry::Vacant(free) => free.insert(Watched::new(hash, name, raw, slot, timestamp)),
        };
        if watched.hash == hash {
            watched.note(slot, timestamp);
        } else {
            // The head belonged to another metric before.
            *watched = Watched::new(hash, name, raw, slot, timestamp);
        }
        true
    }

    /// Judges the metrics that were watched long enough. Returns the crowded ones, and the heads that are no
    /// longer watched. `now` is in seconds since the epoch.
    pub(crate) fn judge(&mut self, now: i64) -> (CrowdedMetrics, Vec<(u32, NameHash)>) {
        let (mut found, mut released) = (CrowdedMetrics::default(), Vec::new());
        self.0.retain(|at, watched| {
            let is_judged = watched.slots >= SLOTS_MIN;
            let is_crowded = is_judged && watched.crowded * 2 > watched.slots;
            if now - i64::from(watched.last) > SILENT || is_judged && !is_crowded {
                released.push((*at, watched.hash));
                return false;
            }
            if is_crowded {
                found.add(watched);
            }
            true
        });
        (found, released)
    }
}

impl Watched {
    fn new(hash: NameHash, name: &str, raw: Stage, slot: u32, timestamp: u32) -> Self {
        Self {
            hash,
            name: name.to_owned(),
            raw,
            slot,
            last: timestamp,
            is_crowded: false,
            slots: 0,
            crowded: 0,
            interval: u32::MAX,
        }
    }

    fn note(&mut self, slot: u32, timestamp: u32) {
        if slot == self.slot {
            if timestamp != self.last {
                self.is_crowded = true;
                self.interval = self.interval.min(timestamp.abs_diff(self.last));
            }
        } else if slot > self.slot {
            self.slots += 1;
            self.crowded += u32::from(self.is_crowded);
            if self.slots == SLOTS_MAX {
                (self.slots, self.crowded) = (self.slots / 2, self.crowded / 2);
            }
            (self.slot, self.is_crowded) = (slot, false);
        } else {
            return;
        }
        self.last = timestamp;
    }
}

impl CrowdedMetrics {
    fn add(&mut self, watched: &Watched) {
        self.count += 1;
        if self.examples.len() < NAMED_MAX {
            let (name, raw, interval) = (watched.name.clone(), watched.raw, watched.interval);
            self.examples.push(CrowdedMetric { name, raw, interval });
        }
    }

    /// Adds the crowded metrics that another shard has found.
    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.examples.extend(other.examples);
        self.examples.truncate(NAMED_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: Stage = Stage { resolution: 60, points: 10_080 };
    const START: u32 = 1_700_000_040;

    /// What is found after `minutes` minutes, with points at these seconds of each minute.
    fn found(seconds: &[u32], minutes: u32) -> CrowdedMetrics {
        let mut crowded = Crowded::default();
        for minute in 0..minutes {
            for second in seconds {
                let timestamp = START + minute * 60 + second;
                crowded.note(7, NameHash::default(), "a.b", RAW, timestamp);
            }
        }
        crowded.judge(i64::from(START + minutes * 60)).0
    }

    #[test]
    fn a_metric_that_is_sent_more_often_than_it_is_kept_is_named() {
        let metrics = found(&[0, 10, 20, 30, 40, 50], 6);
        let example = CrowdedMetric { name: "a.b".to_owned(), raw: RAW, interval: 10 };
        assert_eq!(metrics, CrowdedMetrics { count: 1, examples: vec![example] });
        assert_eq!(found(&[5, 35], 200).examples[0].interval, 30);
        assert_eq!(found(&[0, 10, 20], 4).count, 0, "too early");
    }

    #[test]
    fn points_that_are_sent_twice_and_jitter_do_not_count() {
        assert_eq!(found(&[0], 100).count, 0);
        assert_eq!(found(&[3, 3], 100).count, 0, "sent twice");
        let mut crowded = Crowded::default();
        for minute in 0..50 {
            // Every tenth point is late by enough to share a slot with the next one.
            let late = if minute % 10 == 0 { 59 } else { 0 };
            crowded.note(7, NameHash::default(), "a.b", RAW, START + minute * 60 + late);
        }
        let (metrics, released) = crowded.judge(i64::from(START) + 3000);
        assert_eq!((metrics.count, released), (0, vec![(7, NameHash::default())]));
        assert!(crowded.0.is_empty());
    }

    #[test]
    fn silent_metrics_make_room_and_the_sample_is_bounded() {
        let mut crowded = Crowded::default();
        for at in 0..2000 {
            let is_watched = crowded.note(at, NameHash::default(), "a.b", RAW, START);
            assert_eq!(is_watched, at < WATCHED_MAX as u32);
        }
        assert_eq!(crowded.judge(i64::from(START) + SILENT).1.len(), 0);
        assert_eq!(crowded.judge(i64::from(START) + SILENT + 1).1.len(), WATCHED_MAX);
    }
}
