//! Points for the comparison with graphite-web: every aggregation method and xFilesFactor, with gaps, late
//! points, duplicates and points too old for stage 0. They cover three short stages, on the clock of the
//! test.

use plumbago_tests::fold::{Flat, floor};
use plumbago_tests::oracle::Kept;
use plumbago_tests::send::Point;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(crate) const STAGES: [(i64, i64); 3] = [(10, 30), (60, 30), (600, 12)];
pub(crate) const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 10s:5m,60s:30m,600s:2h\n";
pub(crate) const METHODS: [&str; 8] =
    ["average", "sum", "last", "max", "min", "avg_zero", "absmax", "absmin"];
pub(crate) const FACTORS: [(&str, f64); 3] = [("x0", 0.0), ("x50", 0.5), ("x100", 1.0)];

/// The age in seconds from which a point counts as very late.
const ALLOWANCE: i64 = 20 * STAGES[0].0;

/// A metric, and the probabilities of its irregularities.
struct Metric {
    kept: Kept,
    flat: Flat,
    history: Vec<(i64, i64, f64)>,
    slot: i64,
    gap: f64,
    late: f64,
    very_late: f64,
    duplicate: f64,
    too_old: f64,
}

/// The points that arrive at one instant.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) now: i64,
    pub(crate) points: Vec<Point>,
}

/// A sequence of steps.
pub(crate) struct Scenario {
    random: StdRng,
    metrics: Vec<Metric>,
    now: i64,
}

impl Scenario {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        // Not aligned to any stage.
        let now = 1_700_000_000 + random.random_range(0..100_000);
        let mut metrics = Vec::new();
        for method in METHODS {
            for (name, factor) in FACTORS {
                metrics.push(metric(&mut random, method, name, factor, now));
            }
        }
        Self { random, metrics, now }
    }

    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    pub(crate) fn metrics(&self) -> impl Iterator<Item = &Kept> {
        self.metrics.iter().map(|m| &m.kept)
    }

    pub(crate) fn flat(&self, name: &str) -> &Flat {
        &self.metrics.iter().find(|m| m.kept.name == name).unwrap().flat
    }

    /// The points sent for a window, for messages: time of arrival, timestamp, value.
    pub(crate) fn history(&self, name: &str, slot: i64, step: i64) -> Vec<(i64, i64, f64)> {
        let metric = self.metrics.iter().find(|m| m.kept.name == name).unwrap();
        metric.history.iter().filter(|(_, t, _)| floor(*t, step) == slot).copied().collect()
    }

    /// The definition of a metric.
    pub(crate) fn kept(&self, name: &str) -> &Kept {
        &self.metrics.iter().find(|m| m.kept.name == name).unwrap().kept
    }

    /// Advances by up to 25 seconds and returns the points in the order of arrival.
    pub(crate) fn step(&mut self) -> Step {
        self.now += self.random.random_range(1..=25);
        let mut points = Vec::new();
        for metric in &mut self.metrics {
            metric.emit(&mut self.random, self.now, &mut points);
        }
        Step { now: self.now, points }
    }
}

/// storage-aggregation.conf for the names of [`Scenario`].
pub(crate) fn aggregation() -> String {
    let mut text = String::new();
    for method in METHODS {
        for (name, factor) in FACTORS {
            text += &format!(
                "[{method}-{name}]\npattern = \\.{method}\\.{name}$\nxFilesFactor = {factor}\naggregationMethod = {method}\n"
            );
        }
    }
    text
}

fn metric(random: &mut StdRng, method: &str, factor_name: &str, factor: f64, now: i64) -> Metric {
    let mut one_of = |choices: &[f64]| choices[random.random_range(0..choices.len())];
    Metric {
        kept: Kept {
            name: format!("oracle.{method}.{factor_name}"),
            stages: STAGES.to_vec(),
            factor,
            method: method.to_owned(),
        },
        flat: Flat::new(method, factor, &STAGES),
        history: Vec::new(),
        slot: floor(now, STAGES[0].0),
        gap: one_of(&[0.0, 0.3, 0.85]),
        late: one_of(&[0.0, 0.1]),
        very_late: one_of(&[0.0, 0.05]),
        duplicate: one_of(&[0.0, 0.1]),
        too_old: one_of(&[0.0, 0.01]),
    }
}

impl Metric {
    fn emit(&mut self, random: &mut StdRng, now: i64, points: &mut Vec<Point>) {
        while self.slot <= now {
            let in_slot = random.random_range(0..STAGES[0].0).min(now - self.slot);
            if !random.random_bool(self.gap) {
                self.put(random, now, self.slot + in_slot, points);
            }
            if random.random_bool(self.duplicate) {
                self.put(random, now, self.slot, points);
            }
            self.slot += STAGES[0].0;
        }
        if random.random_bool(self.late) {
            let age = random.random_range(STAGES[0].0..ALLOWANCE);
            self.put(random, now, now - age, points);
        }
        // The ages avoid the boundaries between stages, where whisper aggregates windows of which the finer
        // archive has already dropped a part.
        if random.random_bool(self.very_late) {
            let age = random.random_range(ALLOWANCE + 10..=240);
            self.put(random, now, now - age, points);
        }
        if random.random_bool(self.too_old) {
            let ages = [360..1140, 2460..6500, 7300..9000];
            let range = ages[random.random_range(0..ages.len())].clone();
            let age = random.random_range(range);
            self.put(random, now, now - age, points);
        }
    }

    fn put(&mut self, random: &mut StdRng, now: i64, timestamp: i64, points: &mut Vec<Point>) {
        // Multiples of 1/8 add up exactly in any order.
        let value = f64::from(random.random_range(-4000..4000)) / 8.0;
        self.flat.put(now, timestamp, value);
        self.history.push((now, timestamp, value));
        points.push(Point::new(self.kept.name.clone(), timestamp, value));
    }
}
