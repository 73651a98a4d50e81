//! The flusher: a thread that commits the jobs of a shard in order. A job that fails is retried until it
//! succeeds; only then do its points leave the heads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plumbago_store::{FlushBatch, FlushStore, PointStore, StoreError};
use plumbago_telemetry::Throttle;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::late::{self, close};
use crate::shard::jobs::{Done, FlushJob, Job, LateJob};
use crate::stats::Stats;
use crate::worker::ShardCommand;

/// Commits the jobs of one shard.
pub(crate) struct Flusher {
    pub(crate) jobs: mpsc::Receiver<Job>,
    pub(crate) worker: mpsc::Sender<ShardCommand>,
    pub(crate) flush: Arc<dyn FlushStore>,
    pub(crate) points: Arc<dyn PointStore>,
    pub(crate) runtime: Handle,
    pub(crate) stats: Stats,
    /// Set when a stop has timed out: a failing job is then not retried. Its points are in the journal.
    pub(crate) give_up: Arc<AtomicBool>,
    pub(crate) trouble: Arc<StoreTrouble>,
}

/// Why commits or reads of the store fail, for all flushers together.
#[derive(Debug, Default)]
pub(crate) struct StoreTrouble(Mutex<(usize, String)>);

impl StoreTrouble {
    /// The last error while a flusher retries.
    pub(crate) fn text(&self) -> Option<String> {
        let trouble = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (trouble.0 > 0).then(|| trouble.1.clone())
    }

    fn note(&self, is_first: bool, error: &StoreError) {
        let mut trouble = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.0 += usize::from(is_first);
        trouble.1 = error.to_string();
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 -= 1;
    }
}

impl Flusher {
    /// Runs until the worker has ended, or a stop has timed out.
    pub(crate) fn run(mut self) {
        let throttle = Throttle::new(10_000);
        while let Some(mut job) = self.jobs.blocking_recv() {
            let mut pause = Duration::from_millis(20);
            let mut failed = false;
            let started = Instant::now();
            let done = loop {
                let called = Instant::now();
                let result = do_job(&*self.flush, &*self.points, &self.runtime, &mut job);
                self.stats.commit_seconds.record(called.elapsed());
                match result {
                    Ok(done) => break done,
                    Err(error) => {
                        self.trouble.note(!failed, &error);
                        failed = true;
                        self.report(&throttle, &error);
                    }
                }
                if self.give_up.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_secs(2));
            };
            if failed {
                self.trouble.clear();
            }
            self.stats.flush_seconds.record(started.elapsed());
            if self.worker.blocking_send(ShardCommand::Done(done)).is_err() {
                return;
            }
        }
    }

    fn report(&self, throttle: &Throttle, error: &StoreError) {
        self.stats.retries.add(1);
        if let Some(suppressed) = throttle.pass_now() {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::error!(
                error,
                suppressed,
                "failed to commit a flush to the store; its points stay in the journal, and the flush is retried"
            );
        }
    }
}

/// Does a job, without retrying.
///
/// # Errors
/// If the store fails. The job can be retried.
pub(crate) fn do_job(
    flush: &dyn FlushStore,
    points: &dyn PointStore,
    runtime: &Handle,
    job: &mut Job,
) -> Result<Done, StoreError> {
    match job {
        Job::Flush(job) => {
            commit_flush(flush, points, runtime, job)?;
            Ok(Done::Flush(std::mem::take(&mut job.items)))
        }
        Job::Late(job) => commit_late(flush, points, runtime, job),
    }
}

fn commit_flush(
    flush: &dyn FlushStore,
    points: &dyn PointStore,
    runtime: &Handle,
    job: &mut FlushJob,
) -> Result<(), StoreError> {
    if !job.closes.is_empty() {
        runtime.block_on(close::close(points, &job.closes, &mut job.batch.rows))?;
        job.closes.clear();
    }
    flush.commit(&job.batch)
}

fn commit_late(
    flush: &dyn FlushStore,
    points: &dyn PointStore,
    runtime: &Handle,
    job: &LateJob,
) -> Result<Done, StoreError> {
    let (rows, done) = runtime.block_on(late::compute(points, job))?;
    flush.commit(&FlushBatch { rows, states: Vec::new() })?;
    Ok(Done::Late(done))
}
