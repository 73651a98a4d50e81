//! Decides by the age of a point whether it goes into the head, to the late points, or to the points ahead of
//! now.

use std::sync::Arc;

use plumbago_model::{MetricConfig, MetricId};

use super::{ALLOWANCE, ApplyContext, KIND_LATE, KIND_RELEASED_LATE, NUMBER_BITS, Shard};
use crate::router::NameHash;
use crate::shard::creation::NewMetric;
use crate::shard::head::Applied;
use crate::shard::head_state::{LifeEvent, mark};
use crate::stats::Reject;

impl Shard {
    /// Decides by the age of a point where it goes, and puts it there.
    #[inline]
    pub(super) fn accept(&mut self, at: u32, timestamp: u32, value: f64, context: &mut ApplyContext<'_>) {
        let head = &mut self.heads[at];
        let raw = self.layouts[usize::from(head.config)].raw;
        let age = context.now - i64::from(timestamp);
        if age > raw.duration() as i64 {
            return self.accept_aged(at, timestamp, value, age, context);
        }
        if age < -i64::from(ALLOWANCE * raw.resolution) {
            return self.accept_future(at, timestamp, value, -age, context);
        }
        let mut record = head.number;
        let slot = raw.slot(timestamp);
        if self.late.waiting.is_on() && head.is_late(slot) {
            record |= KIND_LATE << NUMBER_BITS;
        }
        self.sequence = context.writer.point(record, timestamp, value);
        if head.segment == 0 {
            head.segment = context.writer.segment();
        }
        self.put(at, slot, value, context.now);
    }

    /// Puts a point that is already in the journal into its head.
    #[inline]
    pub(crate) fn put(&mut self, at: u32, slot: u32, value: f64, now: i64) {
        let head = &mut self.heads[at];
        if !head.is(mark::PLACED) {
            self.begin(at, slot);
        }
        if self.limits.at_intervals && slot < self.unwritten_from[at] {
            self.heads[at].set(mark::REWRITE);
        }
        let head = &mut self.heads[at];
        match head.apply(&mut self.pool, &mut self.scratch, slot, value) {
            Applied::Held => self.ledger.held += 1,
            Applied::Replaced => {
                self.ledger.replaced += 1;
                if self.crowded.has_room() {
                    head.set(mark::WATCHED);
                }
            }
            Applied::Advanced => {
                self.ledger.held += 1;
                self.check_due(at);
            }
            Applied::Late => {
                self.ledger.held += 1;
                self.push_late(at, 0, slot, value, now);
            }
        }
    }

    /// Chooses the base of a head at its first point: the start of the block that contains the slot `ALLOWANCE` slots
    /// before `slot`. If the open windows must be folded from the store, the base is after `slot` instead, so that the
    /// point counts as late.
    fn begin(&mut self, at: u32, slot: u32) {
        let head = &mut self.heads[at];
        head.set(mark::PLACED);
        if head.is(mark::REFOLD) {
            head.clear(mark::REFOLD);
            (head.base, head.newest) = (slot + 1, slot + 1);
            return;
        }
        head.base = self.blocks.block_start(&head.id, slot.saturating_sub(ALLOWANCE)).max(0) as u32;
        head.newest = slot;
    }

    fn accept_aged(&mut self, at: u32, timestamp: u32, value: f64, age: i64, context: &mut ApplyContext<'_>) {
        let head = &self.heads[at];
        let layout = Arc::clone(&self.layouts[usize::from(head.config)]);
        let Some(stage) = aged_stage(&layout.config, age) else {
            return self.ledger.reject(Reject::TooOld);
        };
        self.sequence = context.writer.point(head.number | (stage as u32) << NUMBER_BITS, timestamp, value);
        self.put_aged(at, stage, timestamp, value, context.now, context.writer.segment());
    }

    /// Puts a point that is older than the raw stage into the finest stage that covers it.
    pub(crate) fn put_aged(
        &mut self,
        at: u32,
        stage: usize,
        timestamp: u32,
        value: f64,
        now: i64,
        segment: u32,
    ) {
        let head = &mut self.heads[at];
        let layout = Arc::clone(&self.layouts[usize::from(head.config)]);
        if head.segment == 0 {
            head.segment = segment;
        }
        if !head.is(mark::PLACED) {
            let slot = layout.raw.slot(u32::try_from(now).unwrap_or(u32::MAX));
            self.begin(at, slot);
        }
        self.ledger.held += 1;
        self.push_late(at, stage as u8, layout.stage(stage).slot(timestamp), value, now);
    }

    /// Creates the metric of a point, unless the metric or the point has to be refused.
    pub(super) fn create(
        &mut self,
        hash: &NameHash,
        name: &str,
        timestamp: u32,
        context: &mut ApplyContext<'_>,
    ) -> Option<u32> {
        let age = context.now - i64::from(timestamp);
        let allowed = if -age > self.limits.future_max { Err(Reject::Future) } else { Ok(()) };
        let allowed = allowed.and_then(|()| context.gate.check(name));
        if let Err(reason) = allowed.and_then(|()| context.gate.admit(context.now)) {
            self.ledger.reject(reason);
            return None;
        }
        let config = context.gate.config_for(name);
        if let Err(reason) = self.check_age(&config, age) {
            self.ledger.reject(reason);
            return None;
        }
        let Some(number) = context.gate.next_number() else {
            self.ledger.reject(Reject::MemoryLimited);
            return None;
        };
        let at = self.insert(*hash, MetricId::of(name), number, &config, LifeEvent::Insert);
        self.sequence = context.writer.creation(number, name);
        self.heads[at].segment = context.writer.segment();
        let metric = NewMetric { at, name: name.to_owned(), config, created_on: context.now as u32 };
        if let Some(metric) = self.deletions.hold(hash, metric) {
            context.gate.submit(metric);
        }
        Some(at)
    }

    /// Refuses a point by its age in seconds (negative if it is ahead of now), as [`Shard::accept`] would for a
    /// metric with these settings.
    fn check_age(&self, config: &MetricConfig, age: i64) -> Result<(), Reject> {
        let raw = config.retention.finest();
        if age > raw.duration() as i64 && aged_stage(config, age).is_none() {
            return Err(Reject::TooOld);
        }
        if age < -i64::from(ALLOWANCE * raw.resolution) && self.future.is_full() {
            return Err(Reject::FutureFull);
        }
        Ok(())
    }
}

/// The stage that takes a point older than the raw stage; `None` if no stage does, or if the journal has no
/// record kind for that stage.
fn aged_stage(config: &MetricConfig, age: i64) -> Option<usize> {
    config.retention.stage_for_age(age).filter(|stage| *stage < KIND_RELEASED_LATE as usize)
}
