//! The flusher: a thread that commits the jobs of a shard. A call of the store that fails is retried until it
//! succeeds; only then do its points leave the heads.
//!
//! Jobs without late points are done in order. Late points are not bound to this order: the metrics of
//! several jobs take turns, and each metric is committed separately, so that a metric with long windows does
//! not delay the others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plumbago_store::{FlushStore, PointStore, StoreError};
use plumbago_telemetry::Throttle;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

use crate::command::ShardCommand;
use crate::late::LateWorks;
use crate::late::close::{self, Closing};
use crate::late::rounds::Budget;
use crate::shard::jobs::{Done, FlushJob, Job};
use crate::stats::Stats;

/// Commits the jobs of one shard.
pub(crate) struct Flusher {
    pub(crate) jobs: mpsc::Receiver<Job>,
    pub(crate) worker: mpsc::Sender<ShardCommand>,
    pub(crate) flush: Arc<dyn FlushStore>,
    pub(crate) points: Arc<dyn PointStore>,
    pub(crate) runtime: Handle,
    pub(crate) stats: Stats,
    /// Set when a stop has timed out. A failing job is then not retried, because its points are in the
    /// journal.
    pub(crate) give_up: Arc<AtomicBool>,
    pub(crate) trouble: Arc<StoreTrouble>,
}

/// Why commits or reads of the store fail, for all flushers together.
#[derive(Debug, Default)]
pub(crate) struct StoreTrouble(Mutex<(usize, String)>);

impl StoreTrouble {
    /// The last error, while a flusher is retrying.
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

/// The jobs that a flusher is working on.
#[derive(Debug, Default)]
struct Progress {
    flush: Option<Flushing>,
    late: LateWorks,
}

/// A flush, and the windows that have not been computed for it yet.
#[derive(Debug)]
struct Flushing {
    job: FlushJob,
    closing: Closing,
    started: Instant,
}

impl Flusher {
    /// Runs until the worker has ended, or a stop has timed out.
    pub(crate) fn run(mut self) {
        let mut progress = Progress::default();
        let throttle = Throttle::new(10_000);
        while self.round(&mut progress, &throttle).is_some() {}
    }

    /// Takes a job if there is room for one, and does a part of the flush and of the late points. Returns
    /// `None` when the flusher ends.
    fn round(&mut self, progress: &mut Progress, throttle: &Throttle) -> Option<()> {
        self.take_job(progress)?;
        if let Some(mut flushing) = progress.flush.take() {
            let is_committed = self.retry(throttle, |flusher| flushing.step(flusher))?;
            if is_committed {
                self.stats.flush_seconds.record(flushing.started.elapsed());
                self.report_done(Done::Flush(flushing.job.items))?;
            } else {
                progress.flush = Some(flushing);
            }
        }
        if !progress.late.is_empty() {
            let started = Instant::now();
            let late = &mut progress.late;
            let done = self.retry(throttle, |flusher| {
                late.step(&*flusher.flush, &*flusher.points, &flusher.runtime, &Budget::USUAL)
            })?;
            if !done.is_empty() {
                self.stats.flush_seconds.record(started.elapsed());
                self.report_done(Done::Late(done))?;
            }
        }
        Some(())
    }

    /// Waits for a job only when there is nothing else to do.
    fn take_job(&mut self, progress: &mut Progress) -> Option<()> {
        if progress.flush.is_some() || !progress.late.has_room() {
            return Some(());
        }
        let job = if progress.late.is_empty() {
            self.jobs.blocking_recv()?
        } else {
            match self.jobs.try_recv() {
                Ok(job) => job,
                Err(TryRecvError::Empty) => return Some(()),
                Err(TryRecvError::Disconnected) => return None,
            }
        };
        match job {
            Job::Flush(job) => progress.flush = Some(Flushing::new(job)),
            Job::Late(job) => progress.late.push(job),
        }
        Some(())
    }

    fn report_done(&self, done: Done) -> Option<()> {
        self.worker.blocking_send(ShardCommand::Done(done)).ok()
    }

    /// Calls the store until it succeeds. Returns `None` if a stop has timed out before that.
    fn retry<T>(
        &self,
        throttle: &Throttle,
        mut call: impl FnMut(&Self) -> Result<T, StoreError>,
    ) -> Option<T> {
        let mut pause = Duration::from_millis(20);
        let mut failed = false;
        loop {
            let called = Instant::now();
            let result = call(self);
            self.stats.commit_seconds.record(called.elapsed());
            match result {
                Ok(done) => {
                    if failed {
                        self.trouble.clear();
                    }
                    return Some(done);
                }
                Err(error) => {
                    self.trouble.note(!failed, &error);
                    failed = true;
                    self.report(throttle, &error);
                }
            }
            if self.give_up.load(Ordering::Relaxed) {
                return None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_secs(2));
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

impl Flushing {
    fn new(mut job: FlushJob) -> Self {
        let closing = close::closing(std::mem::take(&mut job.closes));
        Self { job, closing, started: Instant::now() }
    }

    /// Computes some windows, or commits when all are computed. Returns whether it has committed.
    fn step(&mut self, flusher: &Flusher) -> Result<bool, StoreError> {
        self.work(&*flusher.flush, &*flusher.points, &flusher.runtime, &Budget::USUAL)
    }

    fn work(
        &mut self,
        flush: &dyn FlushStore,
        points: &dyn PointStore,
        runtime: &Handle,
        budget: &Budget,
    ) -> Result<bool, StoreError> {
        if !self.closing.is_empty() {
            runtime.block_on(close::step(points, &mut self.closing, &mut self.job.batch.rows, budget))?;
        }
        if !self.closing.is_empty() {
            return Ok(false);
        }
        flush.commit(&self.job.batch)?;
        Ok(true)
    }
}

/// Does a whole job, without retrying.
///
/// # Errors
/// If the store fails.
#[cfg(test)]
pub(crate) fn do_job(
    flush: &dyn FlushStore,
    points: &dyn PointStore,
    runtime: &Handle,
    job: Job,
    budget: &Budget,
) -> Result<Done, StoreError> {
    match job {
        Job::Flush(job) => {
            let mut flushing = Flushing::new(job);
            while !flushing.work(flush, points, runtime, budget)? {}
            Ok(Done::Flush(flushing.job.items))
        }
        Job::Late(job) => {
            let (mut late, mut done) = (LateWorks::default(), Vec::new());
            late.push(job);
            while !late.is_empty() {
                done.extend(late.step(flush, points, runtime, budget)?);
            }
            Ok(Done::Late(done))
        }
    }
}
