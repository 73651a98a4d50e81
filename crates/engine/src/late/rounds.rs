//! Reads for many metrics in rounds. Each call of the store reads a limited number of slots of each metric.
//! So a metric with long windows does not delay the others, and the memory in use is limited.

use std::collections::VecDeque;

use plumbago_store::{Column, PointStore, ReadRequest, StoreError};

use crate::read::read_merged;

/// Limits on how much is read and kept at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    /// The largest number of slots of one metric in a call.
    pub(crate) metric_slots: u32,
    /// At this number of slots, no further metric is added to a call.
    pub(crate) call_slots: usize,
    /// The number of bytes that all metrics together may keep from one call to the next. A metric that needs
    /// more is read alone.
    pub(crate) kept_bytes: usize,
}

impl Budget {
    /// The limits that flushers use.
    pub(crate) const USUAL: Self = Self { metric_slots: 4000, call_slots: 262_144, kept_bytes: 16 << 20 };
}

/// The reads that one metric needs from the store, done piece by piece.
pub(crate) trait InPieces {
    /// The largest number of bytes that are kept from one call to the next.
    fn keeps(&self) -> usize;

    /// Whether pieces were requested before.
    fn has_begun(&self) -> bool;

    /// Whether nothing more has to be read.
    fn is_complete(&self) -> bool;

    /// Adds the next pieces to the request and returns the number of their slots, at most `slots_max`. If no
    /// [`InPieces::take`] follows, the next call asks for the same pieces.
    fn ask(&mut self, slots_max: u32, request: &mut ReadRequest) -> usize;

    /// Takes the columns of the pieces that were requested last.
    fn take(&mut self, columns: &mut dyn Iterator<Item = Column>);
}

/// Work on several metrics, which take turns.
#[derive(Debug)]
pub(crate) struct Rounds<W> {
    works: VecDeque<W>,
    /// The number of bytes that the metrics whose reads have begun may keep.
    reserved: usize,
}

impl<W> Default for Rounds<W> {
    fn default() -> Self {
        Self { works: VecDeque::new(), reserved: 0 }
    }
}

impl<W: InPieces> Rounds<W> {
    pub(crate) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    pub(crate) fn push(&mut self, work: W) {
        self.works.push_back(work);
    }

    /// Reads once, and returns the work on metrics that are complete now.
    ///
    /// # Errors
    /// If the store cannot be read. Everything is as before the call.
    pub(crate) async fn read(
        &mut self,
        store: &dyn PointStore,
        budget: &Budget,
    ) -> Result<Vec<W>, StoreError> {
        let mut request = ReadRequest { include_retained: true, ..ReadRequest::default() };
        let mut chosen = self.choose(budget, &mut request);
        let columns = match read_merged(store, &request).await {
            Ok(columns) => columns,
            Err(error) => {
                chosen.into_iter().rev().for_each(|work| self.works.push_front(work));
                return Err(error);
            }
        };
        let mut columns = columns.into_iter();
        chosen.iter_mut().for_each(|work| work.take(&mut columns));
        let mut complete = Vec::new();
        for work in chosen {
            if work.is_complete() {
                self.reserved -= work.keeps();
                complete.push(work);
            } else {
                self.works.push_back(work);
            }
        }
        Ok(complete)
    }

    /// Takes out the metrics whose turn it is. A metric that would need too much memory waits until others are
    /// complete. Meanwhile no later metric that needs memory may go before it.
    fn choose(&mut self, budget: &Budget, request: &mut ReadRequest) -> Vec<W> {
        let (mut chosen, mut passed) = (Vec::new(), Vec::new());
        let mut slots = 0;
        while slots < budget.call_slots {
            let Some(mut work) = self.works.pop_front() else { break };
            if !work.has_begun() {
                let keeps = work.keeps();
                let is_too_much = self.reserved > 0 && self.reserved + keeps > budget.kept_bytes;
                if keeps > 0 && (is_too_much || !passed.is_empty()) {
                    passed.push(work);
                    continue;
                }
                self.reserved += keeps;
            }
            slots += work.ask(budget.metric_slots, request);
            chosen.push(work);
        }
        passed.into_iter().rev().for_each(|work| self.works.push_front(work));
        chosen
    }
}
