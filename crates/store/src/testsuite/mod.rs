//! The conformance suite: functions that check a store. The tests of each store call them.
//!
//! Every function uses its own metrics, so one store may serve all of them. They panic at the first
//! difference. Calls that fail with a transient error are repeated, as the engine does, so the suite also
//! passes on a store with [`Faults`](crate::layer::Faults).

// These functions are test code, so a panic is a failed test.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

pub mod directories;
pub mod flush;
pub mod metadata;
pub mod points;

mod model;
mod random;

use std::future::Future;

use plumbago_model::{Aggregation, MetricConfig, MetricId, Retention, Stage};

use crate::{RowCount, Run, SlotRange, StoreError};

/// The number of attempts for a call that fails with a transient error.
const ATTEMPTS: usize = 200;

/// Repeats a call until it succeeds. Panics on a permanent error or after too many attempts.
pub(crate) async fn insist<T, F: Future<Output = Result<T, StoreError>>>(call: impl Fn() -> F) -> T {
    for _ in 0..ATTEMPTS {
        match call().await {
            Err(error) if error.is_transient() => {}
            result => return result.unwrap(),
        }
    }
    panic!("still failing after {ATTEMPTS} attempts");
}

/// [`insist`] for blocking calls.
pub(crate) fn insist_blocking<T>(call: impl Fn() -> Result<T, StoreError>) -> T {
    for _ in 0..ATTEMPTS {
        match call() {
            Err(error) if error.is_transient() => {}
            result => return result.unwrap(),
        }
    }
    panic!("still failing after {ATTEMPTS} attempts");
}

/// A metric of the suite: a raw and a coarse stage, both longer than any range that the suite writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) id: MetricId,
    pub(crate) raw: Stage,
    pub(crate) coarse: Stage,
}

impl Subject {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            id: MetricId::of(&format!("conformance.{name}")),
            raw: Stage { resolution: 60, points: 10_080 },
            coarse: Stage { resolution: 900, points: 35_040 },
        }
    }

    pub(crate) fn run(&self, stage_index: u8, first_slot: u32, whole: bool) -> Run {
        Run {
            id: self.id,
            stage: self.stage(stage_index),
            stage_index,
            aggregation: Aggregation::Average,
            first_slot,
            len: 0,
            at: 0,
            whole,
        }
    }

    pub(crate) fn range(&self, stage_index: u8, from: u32, until: u32) -> SlotRange {
        SlotRange {
            id: self.id,
            stage: self.stage(stage_index),
            stage_index,
            aggregation: Aggregation::Average,
            from,
            until,
        }
    }

    pub(crate) fn stage(&self, stage_index: u8) -> Stage {
        if stage_index == 0 { self.raw } else { self.coarse }
    }
}

pub(crate) fn row_counts(counts: &[i32]) -> Vec<RowCount> {
    counts.iter().map(|count| RowCount::new(*count)).collect()
}

pub(crate) fn config(retention: &str) -> MetricConfig {
    MetricConfig {
        retention: retention.parse::<Retention>().unwrap(),
        aggregation: Aggregation::Average,
        x_files_factor: 0.5,
    }
}

/// Asserts that the values are equal bit for bit. All NaN count as equal.
pub(crate) fn assert_same(got: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what}: length");
    for (i, (a, b)) in got.iter().zip(wanted).enumerate() {
        let same = a.is_nan() && b.is_nan() || a.to_bits() == b.to_bits();
        assert!(same, "{what}: slot {i} is {a:?}, not {b:?}\ngot {got:?}\nwanted {wanted:?}");
    }
}
