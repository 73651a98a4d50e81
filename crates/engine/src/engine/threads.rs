//! Starts the threads of the shards.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::{Engine, QueueEnds};
use crate::recover::StartError;
use crate::recover::numbers::FreeNumbers;
use crate::shard::creation::NewMetric;
use crate::shard::{LATE_POINTS, Limits, Shard};
use crate::worker::create::{self, Gate};
use crate::worker::flusher::Flusher;
use crate::worker::{Progress, ShardWorker};

/// Largest number of jobs in the queue of one flusher.
const JOB_QUEUE: usize = 4;
/// Largest number of batches in the queue of one shard. When it is full, senders wait.
const POINT_QUEUE: usize = 64;
/// Largest size of a queued batch, in bytes.
const BATCH_BYTES: u64 = 512 << 10;

impl Engine {
    pub(super) fn limits(&self) -> Limits {
        let config = &self.0.config;
        let segment = self.0.parts.journal_segment.as_secs().max(1);
        Limits {
            at_intervals: self.0.parts.flush.capabilities().interval_flushes,
            emit_open: config.emit_open_windows,
            future_max: config.future_max.as_secs() as i64,
            checkpoint_segments: (config.checkpoint_after.as_secs() / segment).max(1) as u32,
            idle_after: config.idle_after.as_secs() as i64,
            late_points: LATE_POINTS,
        }
    }

    pub(super) fn run(
        &self,
        ends: Vec<QueueEnds>,
        shards: Vec<Shard>,
        creations: Vec<Vec<NewMetric>>,
        numbers: FreeNumbers,
    ) -> Result<(), StartError> {
        let inner = &*self.0;
        let (queue, new_metrics) = mpsc::channel(create::queue_len(inner.config.memory_max.0));
        let shared = Arc::new(create::Shared {
            config_for: Arc::clone(&inner.parts.config_for),
            name_check: Arc::clone(&inner.parts.name_check),
            numbers: Mutex::new(numbers),
            allowance: Arc::clone(&inner.allowance),
            creates: Arc::clone(&inner.creates),
            quotas: Arc::clone(&inner.parts.quotas),
        });
        let _ = inner.gates.set(Arc::clone(&shared));
        self.watch_memory()?;
        let runtime = Handle::current();
        for (number, ((ends, shard), creations)) in ends.into_iter().zip(shards).zip(creations).enumerate() {
            let flusher = |jobs| Flusher {
                jobs,
                worker: inner.workers[number].clone(),
                flush: Arc::clone(&inner.parts.flush),
                points: Arc::clone(&inner.parts.points),
                runtime: runtime.clone(),
                stats: inner.stats.clone(),
                give_up: Arc::clone(&inner.give_up),
                trouble: Arc::clone(&inner.store_trouble),
            };
            let (jobs, jobs_end) = mpsc::channel(JOB_QUEUE);
            let (reading, reading_end) = mpsc::channel(JOB_QUEUE);
            let (flusher, reader) = (flusher(jobs_end), flusher(reading_end));
            let worker = ShardWorker {
                shard,
                writer: inner.parts.journal.writer(),
                journal: inner.parts.journal.clone(),
                gate: Gate::new(Arc::clone(&shared), queue.clone(), number, creations),
                clock: Arc::clone(&inner.parts.clock),
                gauges: Arc::clone(&inner.gauges[number]),
                commands: ends.commands,
                points: ends.points,
                jobs,
                reading,
                sweep_every: if self.limits().at_intervals {
                    inner.config.flush_interval.0
                } else {
                    Duration::ZERO
                },
                state: Progress::default(),
            };
            self.spawn(&format!("flusher-{number}"), move || flusher.run())?;
            self.spawn(&format!("late-{number}"), move || reader.run())?;
            self.spawn(
                &format!("shard-{number}"),
                move || match tokio::runtime::Builder::new_current_thread().enable_time().build() {
                    Ok(runtime) => runtime.block_on(worker.run()),
                    Err(error) => {
                        tracing::error!(%error, "failed to create the runtime of a shard's thread");
                    }
                },
            )?;
        }
        let metadata = Arc::clone(&inner.parts.metadata);
        let index = Arc::clone(&inner.parts.index);
        let report = (inner.stats.clone(), inner.parts.conditions.clone());
        tokio::spawn(create::run(new_metrics, metadata, index, inner.workers.clone(), report));
        Ok(())
    }

    pub(super) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StartError> {
        let thread =
            std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(StartError::Thread)?;
        self.0.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }
}

/// The length of a shard's queue of batches, chosen so that all these queues together take a small part of
/// the memory ceiling.
pub(super) fn point_queue(memory_max: u64) -> usize {
    if memory_max == 0 {
        return POINT_QUEUE;
    }
    ((memory_max / 32 / BATCH_BYTES) as usize).clamp(4, POINT_QUEUE)
}
