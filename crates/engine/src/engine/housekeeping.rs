//! The engine's work besides points: comparing memory with its ceiling, updating gauges and conditions, and
//! dropping journal segments.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Engine, Inner};
use crate::command::ShardGauges;
use crate::memory::{Ceiling, Progress, Quiet, Sample};
use crate::quotas::QuotaWatch;
use crate::recover::StartError;
use crate::refusals::Refusals;

impl Engine {
    /// Starts a thread that compares memory with its ceiling until the shards end. It does not run on the
    /// runtime, because the pause between two measurements has to be short even when the runtime is busy.
    /// While nothing happens, most measurements are skipped.
    pub(super) fn watch_memory(&self) -> Result<(), StartError> {
        let parts = &self.0.parts;
        if self.0.config.memory_max.0 == 0 {
            return Ok(());
        }
        let mut ceiling =
            Ceiling::new(self.0.config.memory_max.0, parts.memory_reserved, parts.conditions.clone());
        let mut pause = self.0.update_memory_limit(&mut ceiling);
        let mut quiet = Quiet::default();
        let inner = Arc::downgrade(&self.0);
        self.spawn("memory", move || {
            loop {
                std::thread::sleep(pause);
                let Some(inner) = inner.upgrade() else { return };
                if inner.workers.iter().all(mpsc::Sender::is_closed) {
                    return;
                }
                if quiet.needs_measurement(&ceiling, inner.progress()) {
                    pause = inner.update_memory_limit(&mut ceiling);
                }
            }
        })
    }

    /// Updates the conditions of the journal and the store.
    fn update_conditions(&self) {
        let parts = &self.0.parts;
        match parts.journal.trouble() {
            Some(why) => parts.conditions.begin(
                "journal",
                format!(
                    "the journal accepts no points, so reading from senders pauses: {why}; make room on its \
                     disk \
                     (journal.min_free_bytes) or raise journal.max_bytes"
                ),
            ),
            None => parts.conditions.end("journal"),
        }
        match self.0.store_trouble.text() {
            Some(why) => parts.conditions.begin(
                "store",
                format!("points are not stored; the journal keeps them, and writing is retried: {why}"),
            ),
            None => parts.conditions.end("store"),
        }
        match self.0.gauges.iter().map(|s| s.late_waiting.load(Ordering::Relaxed)).sum::<u64>() {
            0 => parts.conditions.end("late_points"),
            points => parts.conditions.begin(
                "late_points",
                format!(
                    "{points} late points wait in the journal, because more of them arrived than the store has taken \
                     since; the journal keeps its files until they are stored, up to journal.max_bytes; \
                     check the store, or send old points at a lower rate"
                ),
            ),
        }
    }

    /// Updates gauges and conditions, and drops journal segments, until the engine stops.
    pub(super) async fn housekeeping(self) {
        let mut second = tokio::time::interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut seconds = 0u32;
        let conditions = &self.0.parts.conditions;
        let mut refusals = Refusals::new(&self.0.config, &self.0.stats, conditions.clone());
        let mut quotas = QuotaWatch::new(conditions.clone());
        loop {
            second.tick().await;
            if self.0.workers.iter().all(mpsc::Sender::is_closed) {
                return;
            }
            self.update_gauges();
            refusals.set_create_limit(self.0.creates.limit());
            refusals.look(self.0.parts.clock.now());
            quotas.look(self.quotas(), self.0.parts.clock.now());
            self.update_conditions();
            seconds = seconds.wrapping_add(1);
            if seconds.is_multiple_of(20) {
                self.sync_and_drop().await;
            }
        }
    }

    fn update_gauges(&self) {
        let inner = &*self.0;
        let sum = |what: fn(&ShardGauges) -> u64| inner.gauges.iter().map(|s| what(s)).sum::<u64>();
        let applied = sum(|s| s.applied.load(Ordering::Relaxed));
        let queued = inner.stats.received.get().saturating_sub(applied);
        inner.stats.held.set((sum(|s| s.held.load(Ordering::Relaxed)) + queued) as f64);
        inner.stats.late_waiting.set(sum(|s| s.late_waiting.load(Ordering::Relaxed)) as f64);
        inner.stats.flush_all_left.set(sum(|s| s.flush_all_left.load(Ordering::Relaxed)) as f64);
        inner.stats.metrics.set(sum(|s| s.metrics.load(Ordering::Relaxed)) as f64);
        inner.stats.head_bytes.set(sum(|s| s.bytes.load(Ordering::Relaxed)) as f64);
        let waits = inner.gauges.iter().any(|s| s.paused.load(Ordering::Relaxed));
        inner.stats.paused.set(f64::from(u8::from(waits || *inner.paused.borrow())));
    }

    /// Syncs names and store, then drops the journal segments that no shard needs.
    pub(super) async fn sync_and_drop(&self) {
        let inner = Arc::clone(&self.0);
        let needed = inner.gauges.iter().map(|s| s.needed_from.load(Ordering::Relaxed)).min().unwrap_or(0);
        if inner.parts.journal.segments().iter().all(|segment| segment.number >= needed) {
            return;
        }
        // Without the name of its metric, a state row would look like that of a deleted metric.
        if let Err(error) = inner.parts.metadata.sync_names().await {
            tracing::warn!(
                %error,
                "new names cannot be synced to disk, so the journal keeps its files and grows; retrying in 20 s"
            );
            return;
        }
        let done = tokio::task::spawn_blocking(move || {
            inner.parts.flush.sync().map_err(|e| e.to_string())?;
            inner.parts.journal.drop_before(needed).map(|_| ()).map_err(|e| e.to_string())
        });
        if let Ok(Err(error)) = done.await {
            tracing::warn!(
                error,
                "journal files whose points are stored cannot be removed, so the journal grows; retrying in 20 s"
            );
        }
    }
}

impl Inner {
    fn progress(&self) -> Progress {
        let applied = self.gauges.iter().map(|shard| shard.applied.load(Ordering::Relaxed)).sum();
        Progress {
            received: self.stats.received.get(),
            applied,
            begun: self.allowance.taken(),
            created: self.stats.created.get(),
        }
    }

    fn update_memory_limit(&self, ceiling: &mut Ceiling) -> Duration {
        let sum = |what: fn(&ShardGauges) -> u64| self.gauges.iter().map(|s| what(s)).sum::<u64>();
        let applied = sum(|s| s.applied.load(Ordering::Relaxed));
        let sample = Sample {
            used: (self.parts.memory_used)(),
            heads: sum(|s| s.bytes.load(Ordering::Relaxed)),
            index: self.parts.registry.value("plumbago_index_memory_bytes").unwrap_or(0.0) as u64,
            metrics: sum(|s| s.metrics.load(Ordering::Relaxed)),
            pending: self.allowance.taken().saturating_sub(self.stats.created.get()),
            queued: self.stats.received.get().saturating_sub(applied),
        };
        let pause = ceiling.evaluate(&sample, &self.allowance);
        self.paused.send_if_modified(|paused| {
            std::mem::replace(paused, ceiling.pauses_reading()) != ceiling.pauses_reading()
        });
        pause
    }
}
