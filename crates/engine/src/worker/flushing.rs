//! Which flushes a worker builds and when: due metrics, sweeps, a flush of everything, a stop.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot;

use super::flush_all::FlushAll;
use super::run::{ShardWorker, WRITE_OUT};
use crate::shard::flush::Extent;
use crate::shard::head_state::Life;
use crate::shard::jobs::{Flushes, Job};

/// Largest number of metrics in one flush batch.
const FLUSH_METRICS: usize = 1000;
/// Due metrics are collected until there are this many, or for a second, so that they can be sorted by id.
const DUE_METRICS: usize = 32_768;
/// A sweep over all metrics takes about this many ticks of a busy worker.
const SWEEP_TICKS: u32 = 6000;

impl ShardWorker {
    /// Begins a flush of everything. A flush of everything that is in progress continues as part of the new
    /// one.
    pub(super) fn begin_flush_all(&mut self, done: oneshot::Sender<()>) {
        let order = self.shard.held_in_id_order();
        let mut all_done = self.state.flush_all.take().map(|all| all.done).unwrap_or_default();
        all_done.push(done);
        let (sent, sequence) = (VecDeque::new(), Some(self.shard.sequence));
        self.state.flush_all = Some(FlushAll { slots: true, order, sent, sequence, done: all_done });
    }

    /// Continues the sweep over all metrics, a few heads at each tick.
    pub(super) fn sweep(&mut self, now: i64) {
        if !self.has_room() || self.state.flush_all.as_ref().is_some_and(FlushAll::goes_first) {
            return;
        }
        if self.hands_over() {
            return;
        }
        let interval = self.sweep_every;
        if self.shard.sweep.is_over && self.state.swept.is_some_and(|began| began.elapsed() < interval) {
            return;
        }
        if self.shard.sweep.is_over || self.state.swept.is_none() {
            self.state.swept = Some(Instant::now());
        }
        let ticks = match (interval.as_millis() / WRITE_OUT.as_millis()) as u32 {
            0 => SWEEP_TICKS,
            ticks => ticks.min(SWEEP_TICKS),
        };
        // After a longer pause a tick sweeps more metrics, so that the whole sweep takes no longer.
        let pauses = (self.state.pause.as_millis() / WRITE_OUT.as_millis()) as u32;
        let heads = (self.shard.len() as u32 / ticks).max(64).saturating_mul(pauses);
        let heads = heads.min(4 * FLUSH_METRICS as u32);
        let mut flushes = Flushes::default();
        self.shard.sweep(heads, self.writer.segment(), now, &mut flushes);
        flushes.into_jobs().for_each(|job| self.send(job));
    }

    /// Submits jobs while the flushers have room. Late points go first, so that a later state row covers
    /// them. Only heads that have to be flushed before their late points go even earlier.
    pub(super) fn flush(&mut self) {
        while self.has_room() {
            if !self.shard.late.is_empty()
                && let Some(flushes) = self.shard.take_aged(self.writer.segment(), self.clock.now())
            {
                flushes.into_jobs().for_each(|job| self.send(job));
                continue;
            }
            if !(self.send_late() || self.send_flush()) {
                return;
            }
        }
    }

    fn send_late(&mut self) -> bool {
        if !self.has_room_for_late() || self.shard.late.is_empty() {
            return false;
        }
        let Some(job) = self.shard.take_late() else { return false };
        self.send(Job::Late(job));
        true
    }

    fn send_flush(&mut self) -> bool {
        let Some(flushes) = self.next_flush() else { return false };
        flushes.into_jobs().for_each(|job| self.send(job));
        true
    }

    /// Whether a flusher can take a job. Also notes whether the flusher for jobs that read has room.
    fn has_room(&mut self) -> bool {
        for job in std::mem::take(&mut self.state.ready) {
            self.send(job);
        }
        self.shard.may_read = self.reading.capacity() > 0;
        self.state.ready.is_empty() && self.jobs.capacity() > 0
    }

    /// Whether there is room for a job of late points. In the queue of jobs that read, late points and
    /// flushes take turns for the last place. Otherwise many small jobs of late points would leave no room
    /// for a flush.
    fn has_room_for_late(&self) -> bool {
        let room = self.reading.capacity();
        room > 1 || (room == 1 && !self.state.late_went_last)
    }

    fn next_flush(&mut self) -> Option<Flushes> {
        if let Some(flushes) = self.next_of_all() {
            return Some(flushes);
        }
        if self.state.flush_all.as_ref().is_some_and(FlushAll::goes_first) {
            return None;
        }
        if self.shard.flushing.is_empty() && self.shard.due.is_empty() {
            return None;
        }
        // Late points may wait for a flush of their head. Apart from that, nothing has to be stored.
        if self.hands_over() && self.shard.late.is_idle() {
            return None;
        }
        if self.shard.flushing.is_empty() {
            let since = *self.state.due_since.get_or_insert_with(Instant::now);
            if self.shard.due.len() < DUE_METRICS && since.elapsed() < Duration::from_secs(1) {
                return None;
            }
            self.shard.begin_due();
            self.state.due_since = None;
        }
        self.shard.take_due(FLUSH_METRICS, self.writer.segment())
    }

    fn send(&mut self, job: Job) {
        let flusher = if job.reads() {
            self.state.late_went_last = matches!(job, Job::Late(_));
            &self.reading
        } else {
            &self.jobs
        };
        let is_flush = matches!(job, Job::Flush(_));
        match flusher.try_send(job) {
            Ok(()) => self.state.in_flight += usize::from(is_flush),
            Err(TrySendError::Full(job) | TrySendError::Closed(job)) => self.state.ready.push_back(job),
        }
    }

    fn next_of_all(&mut self) -> Option<Flushes> {
        let now = self.clock.now();
        let segment = self.writer.segment();
        let all = self.state.flush_all.as_mut()?;
        let extent = if all.slots { Extent::All { now } } else { self.shard.last_extent() };
        let mut flushes = Flushes::default();
        // A metric that cannot be flushed yet is tried again in the next round.
        for _ in 0..all.order.len() {
            if flushes.len() == FLUSH_METRICS {
                break;
            }
            let Some(at) = all.order.pop_front() else { break };
            if self.shard.heads[at].state.life() == Life::Vacant {
                continue;
            }
            if self.shard.may_flush(at) {
                self.shard.build(at, extent, segment, &mut flushes);
                all.sent.push_back(at);
            } else {
                self.shard.defer_late(at);
                all.order.push_back(at);
            }
        }
        (flushes.len() > 0).then_some(flushes)
    }

    /// Completes the flush of everything once every point that was present at the request is committed.
    /// Points that arrived later do not delay it.
    pub(super) fn end_flush_all(&mut self) {
        let Some(all) = &mut self.state.flush_all else { return };
        while all.sent.pop_front_if(|at| !self.shard.heads[*at].state.is_flushing()).is_some() {}
        let is_stored = || match all.sequence {
            Some(sequence) => self.shard.late.are_stored(sequence),
            None => self.shard.late.is_idle() && self.state.in_flight == 0,
        };
        if all.order.is_empty()
            && all.sent.is_empty()
            && is_stored()
            && let Some(all) = self.state.flush_all.take()
        {
            for done in all.done {
                let _ = done.send(());
            }
        }
    }
}
