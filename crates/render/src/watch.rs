//! Stops evaluations that take too long or too much memory.

use std::fmt::Debug;

use crate::fault::{EvalError, Fault};

/// Decides whether an evaluation may continue.
pub trait Watch: Debug {
    /// Returns `false` to stop the evaluation. `bytes` is the memory that it holds, without the series that
    /// were fetched.
    fn may_hold(&self, bytes: usize) -> bool;
}

/// Asks a watch now and then in long loops.
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

    /// Counts values that were processed, and asks the watch after every 65,536.
    pub(crate) fn step(&mut self, values: usize) -> Result<(), Fault> {
        /// Less than a millisecond of work.
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
