//! Deletes time ranges step by step, so that points, flushes and crashes come between the steps.

use plumbago_store::TimeRange;

use super::*;
use crate::ranges::plan::{RangePlan, Subject};
use crate::shard::import::{Begun, End, ImportHead};
use crate::shard::ranges::{Ask, BeginRange, raw_slots};
use crate::slots::Stored;

/// A deletion that has begun.
pub(super) struct Erasing {
    metric: usize,
    range: TimeRange,
    /// When the range was chosen, in seconds since the epoch. The plan is always made for this time, even
    /// after a crash. At a later time, the raw slots from which a window is folded could have expired, and
    /// the window would stay as it is.
    chosen: i64,
    head: Box<ImportHead>,
    plan: RangePlan,
    step: Step,
}

enum Step {
    Commit,
    Delete,
    End,
}

impl World {
    /// Begins to delete a random range, or continues with one.
    pub(super) fn erase(&mut self) {
        if let Some(erasing) = self.erasing.take() {
            return self.go_on_erasing(erasing);
        }
        let metric = self.rng.random_range(0..3);
        let now = self.clock.now();
        let mut border = |back: i64| {
            let time = now - self.rng.random_range(-30..back);
            // A window whose raw slots have expired would stay as it is.
            let aligned = time / 20 * 20;
            u32::try_from(if now - time > self.spans[0] - 50 { aligned } else { time }).unwrap()
        };
        let (a, b) = (border(400), border(100));
        let range = match self.rng.random_range(0..5) {
            0 => TimeRange { from: a.min(b), until: u32::MAX },
            1 => TimeRange { from: 0, until: a.min(b) },
            _ => TimeRange { from: a.min(b), until: a.max(b) },
        };
        if !self.begin_erasing(metric, range, now) && self.rng.random_bool(0.5) {
            self.leave(metric, range);
        }
    }

    /// Gives up on a deletion. Without this, its metric would wait until the next deletion or until the end.
    fn leave(&mut self, metric: usize, range: TimeRange) {
        let hash = self.router.hash(&format!("m.{metric}"));
        let Some(writer) = self.writer.as_mut() else { return };
        self.shard.begin_range(&BeginRange { hash, range, ask: Ask::Leave }, writer);
    }

    fn begin_erasing(&mut self, metric: usize, range: TimeRange, chosen: i64) -> bool {
        let hash = self.router.hash(&format!("m.{metric}"));
        let Some(writer) = self.writer.as_mut() else { return false };
        let begun = self.shard.begin_range(&BeginRange { hash, range, ask: Ask::Begin }, writer);
        writer.write_out().unwrap();
        let head = match begun {
            Begun::Ready(head) => head,
            Begun::Busy => return false,
            Begun::Unknown => return true,
        };
        self.balance();
        let is_in = |time: u32| (range.from..range.until).contains(&time);
        self.model.retain(|(of, time), _| *of != metric || !is_in(*time));
        let is_whole = |window: u32| is_in(window * PER[0]) && is_in(window * PER[0] + PER[0] - 1);
        self.aged.retain(|(of, window), _| *of != metric || !is_whole(*window));
        let (plan, step) = (RangePlan::default(), Step::Commit);
        self.erasing = Some(Erasing { metric, range, chosen, head, plan, step });
        true
    }

    fn go_on_erasing(&mut self, mut erasing: Erasing) {
        match erasing.step {
            Step::Commit => {
                let slots = raw_slots(erasing.range, erasing.head.layout.raw);
                let subject = Subject { head: &erasing.head, slots, now: erasing.chosen };
                let edges = subject.edges();
                let request = ReadRequest { ranges: subject.reads(&edges), ..Default::default() };
                let columns = self.runtime.block_on(self.store.read(&request)).unwrap();
                let read = request.ranges.iter().zip(columns);
                let read: Vec<_> = read.map(|(range, column)| Stored::new(range.from, column)).collect();
                let plan = subject.plan(&edges, &read);
                self.runtime.block_on(self.store.delete_ranges(&plan.stale)).unwrap();
                let bytes = erasing.head.state.with_open(&plan.open).encode();
                let states = vec![plumbago_store::StateRow { id: erasing.head.id, bytes }];
                let rows = plan.rows.clone();
                self.store.commit(&plumbago_store::FlushBatch { rows, states }).unwrap();
                (erasing.plan, erasing.step) = (plan, Step::Delete);
            }
            Step::Delete => {
                // A crash may come when only a part is deleted.
                let few = self.rng.random_range(0..=erasing.plan.gone.len());
                let (now, left) = erasing.plan.gone.split_at(few);
                self.runtime.block_on(self.store.delete_ranges(now)).unwrap();
                erasing.step = if left.is_empty() { Step::End } else { Step::Delete };
                erasing.plan.gone = left.to_vec();
            }
            Step::End => {
                self.erased += 1;
                self.release_erased(Some(erasing.plan.open), erasing.head.at);
                return;
            }
        }
        self.erasing = Some(erasing);
    }

    fn release_erased(&mut self, open: Option<Vec<Window>>, at: u32) {
        let Some(writer) = self.writer.as_mut() else { return };
        let mut gate =
            OpenGate { config: Arc::clone(&self.config), numbers: &mut self.numbers, made: Vec::new() };
        let mut context = ApplyContext { writer, gate: &mut gate, now: self.clock.now() };
        let end = End { at, name: "".into(), open, fill: Vec::new(), config: None };
        self.shard.end_import(vec![end], &mut context);
        self.balance();
    }

    /// Completes a deletion that has begun.
    pub(super) fn end_erasing(&mut self) {
        while let Some(erasing) = self.erasing.take() {
            self.go_on_erasing(erasing);
        }
        (0..3).for_each(|metric| self.leave(metric, TimeRange { from: 0, until: 0 }));
    }

    /// After a crash, repeats the command that was not answered.
    pub(super) fn erase_again(&mut self) {
        let Some(Erasing { metric, range, chosen, .. }) = self.erasing.take() else { return };
        for round in 0.. {
            assert!(round < 10_000, "the metric is never at rest: {:?}", self.shard.late);
            if self.begin_erasing(metric, range, chosen) {
                return self.end_erasing();
            }
            self.build();
            self.work();
            self.acknowledge();
        }
    }
}
