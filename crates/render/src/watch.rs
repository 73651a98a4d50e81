//! Stopping an evaluation that takes too much.

use std::fmt::Debug;

use crate::context::Fault;
use crate::eval::EvalError;

/// Is asked, while targets are evaluated, whether that may go on.
pub trait Watch: Debug {
    /// What the evaluation holds now, beside the series that were fetched; false stops it.
    fn may_hold(&self, bytes: usize) -> bool;
}

/// Asks a watch now and then, in loops that take long, whether they may go on.
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

    /// So many more values were looked at.
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

/// Lets everything pass.
#[derive(Debug)]
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    fn may_hold(&self, _: usize) -> bool {
        true
    }
}
