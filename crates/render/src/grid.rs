//! Series of different starts and steps on the slots that they have in common.
//!
//! Series are laid on each other by time; Graphite lays them on each other by index, which shifts
//! those that start at different times (docs/decisions/alignment.md).

use std::borrow::Cow;

use crate::consolidate::fold;
use crate::context::Fault;
use crate::series::TimeSeries;

/// The slots that hold all of some series: their common step, from the earliest start to the last end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: i64,
    pub(crate) len: usize,
}

impl Grid {
    /// `None` when there are no series.
    pub(crate) fn of<'a>(
        series: impl IntoIterator<Item = &'a TimeSeries> + Clone,
    ) -> Result<Option<Self>, Fault> {
        /// About three years; larger ones come only from steps made up to be different.
        const STEP_MAX: i64 = 100_000_000;
        let all = || series.clone().into_iter();
        let Some(first) = all().next() else { return Ok(None) };
        let mut step = first.step;
        for series in all() {
            step = step / gcd(step, series.step) * series.step;
            if step > STEP_MAX {
                return Err("the steps of the series have no common multiple of use".into());
            }
        }
        let earliest = all().map(|s| s.start).min().unwrap_or(first.start);
        let is_mixed = all().any(|s| (s.start - earliest) % step != 0);
        let start = if is_mixed { earliest - earliest.rem_euclid(step) } else { earliest };
        let last = all().map(|s| s.end).max().unwrap_or(start);
        let grid = Self { start, end: last - (last - start).rem_euclid(step), step, len: 0 };
        let slots = |series: &TimeSeries| {
            let (offset, into, group) = grid.place(series);
            offset + (into + series.values.len()).div_ceil(group)
        };
        Ok(Some(Self { len: all().map(slots).max().unwrap_or(0), ..grid }))
    }

    /// The slot in which a series begins, how many of its steps the slot is old by then, and how many of
    /// its steps a slot has.
    fn place(&self, series: &TimeSeries) -> (usize, usize, usize) {
        let group = usize::try_from(self.step / series.step).unwrap_or(1).max(1);
        let late = series.start - self.start;
        let offset = usize::try_from(late / self.step).unwrap_or(0);
        let into = usize::try_from(late % self.step / series.step).unwrap_or(0);
        (offset, into.min(group - 1), group)
    }

    pub(crate) fn times(&self) -> (i64, i64, i64) {
        (self.start, self.end, self.step)
    }

    /// The values of a series on the grid, and the slot of the first.
    pub(crate) fn align<'a>(&self, series: &'a TimeSeries) -> (usize, Cow<'a, [f64]>) {
        let (offset, into, group) = self.place(series);
        if group == 1 {
            return (offset, Cow::Borrowed(&series.values));
        }
        let (head, rest) = series.values.split_at((group - into).min(series.values.len()));
        let fold = |values: &[f64]| fold(values, group, series.consolidation, series.x_files_factor);
        let head = (!head.is_empty()).then_some(head);
        let folded = head.into_iter().chain(rest.chunks(group)).map(fold).collect();
        (offset, Cow::Owned(folded))
    }

    /// The values of a series in every slot.
    pub(crate) fn spread<'a>(&self, series: &'a TimeSeries) -> Cow<'a, [f64]> {
        let (offset, values) = self.align(series);
        if offset == 0 && values.len() == self.len {
            return values;
        }
        let mut spread = vec![f64::NAN; self.len];
        for (slot, value) in spread.iter_mut().skip(offset).zip(values.iter()) {
            *slot = *value;
        }
        Cow::Owned(spread)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
