//! The load of the crash tests, and the model that the daemon is compared with. The load has points of every
//! kind, on a clock that only the test moves. The model folds each aggregate from all slots of stage 0.
//!
//! Results are compared to the last bit. The model therefore adds in the order that the daemon promises, by
//! slots of stage 0; `fold::Flat` does not.

use std::collections::BTreeMap;

use plumbago_tests::fold::floor;
use plumbago_tests::send::Point;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(crate) const METHODS: [&str; 8] = ["average", "sum", "min", "max", "last", "count", "avg_zero", "median"];
/// Groups of metrics with their stages: seconds per slot and number of slots.
pub(crate) const GROUPS: [(&str, &[(i64, i64)]); 2] =
    [("a", &[(10, 1440), (60, 1440), (600, 4320)]), ("b", &[(30, 480), (300, 576)])];
const FACTORS: [(&str, f64); 2] = [("x0", 0.0), ("x50", 0.5)];
/// How many slots ahead of now a point may be. Points further ahead are kept until they are due.
const ALLOWANCE: i64 = 20;
/// How long after its end a window of the slowest group still accepts points without reading the store, in
/// seconds.
pub(crate) const OPEN_AFTER_END: i64 = ALLOWANCE * 30;
/// Largest age of late points in seconds. It is well inside stage 0, so that the exact clock does not matter.
const LATEST: i64 = 1200;

/// storage-schemas.conf of [`GROUPS`].
pub(crate) const SCHEMAS: &str = "[a]\npattern = ^load\\.a\\.\nretentions = 10s:4h,1m:1d,10m:30d\n\
     [b]\npattern = ^load\\.b\\.\nretentions = 30s:4h,5m:2d\n";

/// storage-aggregation.conf that selects method and factor by the name.
pub(crate) fn aggregation() -> String {
    let mut text = String::new();
    for method in METHODS {
        for (name, factor) in FACTORS {
            text += &format!(
                "[{method}-{name}]\npattern = \\.{method}\\.{name}\\.\nxFilesFactor = {factor}\naggregationMethod = {method}\n"
            );
        }
    }
    text
}

/// A metric and all points written to it.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: String,
    pub(crate) stages: &'static [(i64, i64)],
    method: &'static str,
    factor: f64,
    slots: BTreeMap<i64, f64>,
    next: i64,
    gap: f64,
}

impl Metric {
    /// The value that a reader sees in a slot of a stage at `now`. Points too far in the future are not visible.
    pub(crate) fn shown(&self, stage: usize, slot: i64, now: i64) -> Option<f64> {
        let (step, first) = (self.stages[stage].0, self.stages[0].0);
        let visible = (now + ALLOWANCE * first + 1).min(slot + step);
        if stage == 0 {
            return (slot < visible).then(|| self.slots.get(&slot).copied()).flatten();
        }
        let known: Vec<f64> =
            if slot < visible { self.slots.range(slot..visible).map(|(_, v)| *v).collect() } else { vec![] };
        let whole = (step / first) as f64;
        if known.is_empty() || (known.len() as f64) < self.factor * whole {
            return None;
        }
        Some(fold(self.method, &known, whole))
    }

    /// Whether the metric has a point.
    pub(crate) fn exists(&self) -> bool {
        !self.slots.is_empty()
    }

    fn put(&mut self, timestamp: i64, value: f64) -> Option<f64> {
        self.slots.insert(floor(timestamp, self.stages[0].0), value)
    }
}

/// Folds known values in the order of their slots.
fn fold(method: &str, known: &[f64], whole: f64) -> f64 {
    let sum = || known[1..].iter().fold(known[0], |a, b| a + b);
    match method {
        "average" => sum() / known.len() as f64,
        "avg_zero" => sum() / whole,
        "sum" => sum(),
        "min" => known.iter().copied().fold(f64::INFINITY, f64::min),
        "max" => known.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "last" => known[known.len() - 1],
        "count" => known.len() as f64,
        "median" => {
            let mut sorted = known.to_vec();
            sorted.sort_by(f64::total_cmp);
            sorted[sorted.len().div_ceil(2) - 1]
        }
        other => panic!("no fold for {other}"),
    }
}

/// A point to send. `release` is the time at which a point from the future becomes due; 0 for all others.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) metric: usize,
    pub(crate) point: Point,
    pub(crate) release: i64,
    /// The earlier value of its slot.
    pub(crate) before: Option<f64>,
}

/// The stream of points, and the expected result.
#[derive(Debug)]
pub(crate) struct Load {
    random: StdRng,
    pub(crate) metrics: Vec<Metric>,
    pub(crate) now: i64,
    pub(crate) start: i64,
    /// The times at which points from the future become due.
    releases: Vec<i64>,
}

impl Load {
    /// A load with `each` metrics for every group, method and factor.
    pub(crate) fn new(seed: u64, each: usize) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let start = 1_700_000_000 + random.random_range(0..100_000);
        let mut metrics = Vec::new();
        for i in 0..each {
            for (group, stages) in GROUPS {
                for method in METHODS {
                    for (factor_name, factor) in FACTORS {
                        metrics.push(Metric {
                            name: format!("load.{group}.{method}.{factor_name}.m{i}"),
                            stages,
                            method,
                            factor,
                            slots: BTreeMap::new(),
                            next: floor(start, stages[0].0),
                            gap: [0.0, 0.05, 0.4][random.random_range(0..3)],
                        });
                    }
                }
            }
        }
        Self { random, metrics, now: start, start, releases: Vec::new() }
    }

    /// Advances the clock and returns the points that arrive, in order.
    pub(crate) fn step(&mut self) -> Vec<Sent> {
        self.now += self.random.random_range(3..=30);
        let mut sent = Vec::new();
        for at in 0..self.metrics.len() {
            self.emit(at, &mut sent);
        }
        self.releases.extend(sent.iter().map(|one| one.release).filter(|release| *release > 0));
        sent
    }

    /// Number of points from the future that have become due since the time `since`. The journal contains
    /// each of them twice.
    pub(crate) fn released(&self, since: i64) -> usize {
        self.releases.iter().filter(|release| (since + 1..=self.now).contains(release)).count()
    }

    /// Removes points from `sent` and from the model.
    pub(crate) fn take_back(&mut self, sent: &mut Vec<Sent>, doomed: impl Fn(&Sent) -> bool) {
        // Backwards, because a point may have replaced one that was sent just before it.
        for at in (0..sent.len()).rev().filter(|at| doomed(&sent[*at])).collect::<Vec<_>>() {
            let one = sent.remove(at);
            if let Some(listed) = self.releases.iter().rposition(|release| *release == one.release) {
                self.releases.remove(listed);
            }
            let metric = &mut self.metrics[one.metric];
            match one.before {
                Some(before) => metric.put(one.point.timestamp, before),
                None => metric.slots.remove(&floor(one.point.timestamp, metric.stages[0].0)),
            };
        }
    }

    fn emit(&mut self, at: usize, sent: &mut Vec<Sent>) {
        let now = self.now;
        let resolution = self.metrics[at].stages[0].0;
        let ahead = ALLOWANCE * resolution;
        while self.metrics[at].next <= now {
            let slot = self.metrics[at].next;
            self.metrics[at].next += resolution;
            if !self.random.random_bool(self.metrics[at].gap) {
                let timestamp = slot + self.random.random_range(0..resolution);
                self.put(at, timestamp, 0, sent);
                if self.random.random_bool(0.03) {
                    self.put(at, slot, 0, sent);
                }
            }
        }
        if self.random.random_bool(0.02) {
            let age = self.random.random_range(0..ahead);
            self.put(at, now - age, 0, sent);
        }
        if self.random.random_bool(0.004) {
            let age = self.random.random_range(ahead..LATEST.max(ahead + 1));
            self.put(at, now - age, 0, sent);
        }
        if self.random.random_bool(0.01) {
            let early = self.random.random_range(0..ahead - 2 * resolution);
            self.put(at, now + early, 0, sent);
        }
        if self.random.random_bool(0.002) {
            // The time is the start of a slot, so that slot and point become visible together.
            let timestamp = floor(now + ahead, resolution) + resolution * self.random.random_range(1..20);
            self.put(at, timestamp, timestamp - ahead, sent);
        }
    }

    fn put(&mut self, at: usize, timestamp: i64, release: i64, sent: &mut Vec<Sent>) {
        let value = match self.random.random_range(0..4) {
            0 => f64::from(self.random.random_range(-1000..1000)),
            1 => f64::from(self.random.random_range(0..100)),
            _ => (self.random.random::<f64>() - 0.5) * 1e6,
        };
        let metric = &mut self.metrics[at];
        let before = metric.put(timestamp, value);
        let point = Point::new(metric.name.clone(), timestamp, value);
        sent.push(Sent { metric: at, point, release, before });
    }
}
