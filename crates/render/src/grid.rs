//! Brings series of different starts and steps to common slots.
//!
//! As in Graphite, series are combined by index, each from its own first value (docs/decisions/alignment.md).

use std::borrow::Cow;

use crate::consolidate::fold;
use crate::fault::Fault;
use crate::series::{Consolidation, TimeSeries};

/// The common slots of some series: their common step, from the earliest start to the latest end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: i64,
    pub(crate) len: usize,
}

impl Grid {
    /// The grid of some series; `None` if there are none.
    pub(crate) fn of<'a>(
        series: impl IntoIterator<Item = &'a TimeSeries> + Clone,
    ) -> Result<Option<Self>, Fault> {
        /// The longest common step, in seconds. It is far beyond any graph (as in Graphite, all values are one
        /// slot then), and small enough for arithmetic.
        const STEP_MAX: i64 = 1 << 40;
        let all = || series.clone().into_iter();
        let Some(first) = all().next() else { return Ok(None) };
        let mut step = first.step;
        for series in all() {
            step = (step / gcd(step, series.step)).saturating_mul(series.step);
            if step > STEP_MAX {
                return Err("the steps of the series have no usable common multiple".into());
            }
        }
        let start = all().map(|s| s.start).min().unwrap_or(first.start);
        let last = all().map(|s| s.end).max().unwrap_or(start);
        let grid = Self { start, end: last - (last - start).rem_euclid(step), step, len: 0 };
        let slots = |series: &TimeSeries| series.values.len().div_ceil(grid.group(series));
        Ok(Some(Self { len: all().map(slots).max().unwrap_or(0), ..grid }))
    }

    /// The number of the series' steps in a slot.
    fn group(&self, series: &TimeSeries) -> usize {
        usize::try_from(self.step / series.step).unwrap_or(1).max(1)
    }

    /// Whether the values of all series are integers in graphite-web, on the grid too.
    pub(crate) fn is_whole(&self, series: &[TimeSeries]) -> bool {
        let divides = |c: Consolidation| matches!(c, Consolidation::Average | Consolidation::AvgZero);
        series
            .iter()
            .all(|series| series.is_whole && (self.group(series) == 1 || !divides(series.consolidation)))
    }

    pub(crate) fn times(&self) -> (i64, i64, i64) {
        (self.start, self.end, self.step)
    }

    /// The values of a series on the grid. There may be fewer than slots.
    pub(crate) fn align<'a>(&self, series: &'a TimeSeries) -> Cow<'a, [f64]> {
        let group = self.group(series);
        if group == 1 {
            return Cow::Borrowed(&series.values);
        }
        let fold = |values: &[f64]| fold(values, group, series.consolidation, series.x_files_factor);
        Cow::Owned(series.values.chunks(group).map(fold).collect())
    }

    /// The values of a series, one for each slot.
    pub(crate) fn spread<'a>(&self, series: &'a TimeSeries) -> Cow<'a, [f64]> {
        let mut values = self.align(series);
        if values.len() != self.len {
            values.to_mut().resize(self.len, f64::NAN);
        }
        values
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
