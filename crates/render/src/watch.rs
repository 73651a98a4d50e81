//! Stops evaluations that take too long or too much memory, and reports the results of their parts.

use std::fmt::Debug;
use std::ops::Range;

use crate::fault::{EvalError, Fault};
use crate::series::TimeSeries;
use crate::target::Target;

/// Decides whether an evaluation may continue.
pub trait Watch: Debug {
    /// Returns `false` to stop the evaluation. `bytes` is the memory that it holds, without the series that
    /// were fetched.
    fn may_hold(&self, bytes: usize) -> bool;
}

/// Observes the result of each part of the targets, to explain an answer. Targets that functions make from
/// names are reported as a whole, without their parts.
pub trait Observer: Debug {
    /// A call or path is about to be evaluated. Calls nest. A call that is read over several ranges is evaluated
    /// several times.
    fn begins(&self, place: &Place);

    /// The call or path gave these series; `None` if it gave something else or failed.
    fn ends(&self, place: &Place, series: Option<&[TimeSeries]>);

    /// A function made this target, and it is about to be evaluated. It belongs to the innermost call that
    /// has begun.
    fn begins_made(&self, target: &Target);

    /// The target that a function made gave these series; `None` if it failed.
    fn ends_made(&self, target: &Target, series: Option<&[TimeSeries]>);

    /// The evaluation has ended. `calls` is the number of evaluated calls, `points` the number of points that
    /// functions made.
    fn is_done(&self, calls: usize, points: usize);
}

/// A call or path in the targets of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The number of the target, from 0.
    pub target: usize,
    /// Where the call or path is in the text of the target, in bytes.
    pub span: Range<usize>,
}

/// Calls a watch at intervals in long loops.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    watch: &'a dyn Watch,
    held: usize,
    steps: usize,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(watch: &'a dyn Watch, held: usize) -> Self {
        Self { watch, held, steps: 0 }
    }

    /// Counts values that were processed, and calls the watch after every 65,536 values.
    pub(crate) fn step(&mut self, values: usize) -> Result<(), Fault> {
        /// The number of values between two calls of the watch: less than a millisecond of work.
        const UNTIL_ASKED: usize = 1 << 16;
        self.steps = self.steps.saturating_add(values);
        if self.steps < UNTIL_ASKED {
            return Ok(());
        }
        self.steps = 0;
        if self.watch.may_hold(self.held) { Ok(()) } else { Err(EvalError::Stopped.into()) }
    }
}

/// Lets every evaluation continue.
#[derive(Debug)]
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    fn may_hold(&self, _: usize) -> bool {
        true
    }
}
