//! The end of a worker: it stores the points in memory, or hands its shard over for a checkpoint.

use std::collections::VecDeque;

use super::flush_all::FlushAll;
use super::run::ShardWorker;
use crate::command::Stopped;
use crate::shard::Shard;

impl ShardWorker {
    /// Whether a stop is in progress that stores nothing but late points.
    pub(super) fn hands_over(&self) -> bool {
        self.state.drained && self.state.stopping.as_ref().is_some_and(|order| order.for_checkpoint)
    }

    /// Continues a stop: applies every queued point, then writes state rows of all heads in the order of ids,
    /// unless the shard is needed for a checkpoint.
    pub(super) fn stop_when_drained(&mut self) {
        let is_busy = self.state.flush_all.is_some() || self.state.unapplied.is_some();
        if self.state.stopping.is_none() || is_busy {
            return;
        }
        while let Ok(batch) = self.points.try_recv() {
            self.take_next(batch);
            if self.state.unapplied.is_some() {
                return;
            }
        }
        self.points.close();
        self.state.drained = true;
        if self.hands_over() {
            return;
        }
        let order = if self.shard.limits.at_intervals {
            self.shard.held_in_id_order()
        } else {
            self.shard.unflushed_in_id_order()
        };
        let (sent, done) = (VecDeque::new(), Vec::new());
        self.state.flush_all = Some(FlushAll { slots: false, order, sent, sequence: None, done });
    }

    /// Ends the worker if a stop has nothing left to do. Returns whether the worker ends.
    pub(super) fn end_if_stopped(&mut self) -> bool {
        let is_flushing = self.state.in_flight > 0 || !self.state.ready.is_empty();
        let idle = self.state.flush_all.is_none() && !is_flushing && self.shard.late.is_idle();
        if !idle || !self.state.drained {
            return false;
        }
        if self.hands_over() {
            return self.hand_over();
        }
        if self.shard.has_unflushed() {
            return false;
        }
        self.write_out();
        self.shard.sweep.needed_from = self.journal.current_segment() + 1;
        self.update_gauges();
        self.end(false);
        true
    }

    /// Ends the worker and hands its shard over as it is, once all metrics are created. Returns whether it
    /// did. If the journal does not have all points, or a job has only partly processed a metric, the points are
    /// stored instead.
    fn hand_over(&mut self) -> bool {
        if !self.shard.are_created(&mut self.state.created_until) {
            return false;
        }
        if self.shard.has_jobs() || !self.is_journal_whole() {
            if let Some(order) = &mut self.state.stopping {
                order.for_checkpoint = false;
            }
            return false;
        }
        self.update_gauges();
        self.end(true);
        true
    }

    /// Writes the journal out and syncs it. Returns whether it has every point that the shard has accepted.
    fn is_journal_whole(&mut self) -> bool {
        self.write_out();
        let is_written = self.writer.pending_points() == 0 && !self.writer.has_records();
        if !is_written || self.journal.trouble().is_some() {
            return false;
        }
        let synced = self.journal.sync();
        if let Err(error) = &synced {
            self.report(error);
        }
        synced.is_ok()
    }

    fn end(&mut self, with_shard: bool) {
        let Some(order) = self.state.stopping.take() else { return };
        let ledger = self.shard.ledger();
        let shard = with_shard.then(|| {
            let shard = &self.shard;
            let empty = Shard::new(shard.blocks, shard.limits, shard.stats.clone());
            Box::new(std::mem::replace(&mut self.shard, empty))
        });
        // An error means that the stop has timed out.
        let _ = order.done.send(Stopped { ledger, shard });
    }
}
