//! The thread that commits what an owner hands over, in order, and tries again until the store
//! takes it: points leave the heads only after that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plumbago_store::{FlushBatch, FlushStore, PointStore, StoreError};
use plumbago_telemetry::Throttle;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::jobs::{Done, FlushJob, Job, LateJob};
use crate::stats::Stats;
use crate::task::Control;
use crate::{close, late_work};

/// Commits the jobs of one shard.
pub(crate) struct Flusher {
    pub(crate) jobs: mpsc::Receiver<Job>,
    pub(crate) owner: mpsc::Sender<Control>,
    pub(crate) flush: Arc<dyn FlushStore>,
    pub(crate) points: Arc<dyn PointStore>,
    pub(crate) runtime: Handle,
    pub(crate) stats: Stats,
    /// Set when the process must stop although the store fails: what is held stays in the journal.
    pub(crate) give_up: Arc<AtomicBool>,
}

impl Flusher {
    /// Runs until the owner is gone, or a stop gives up on a failing store.
    pub(crate) fn run(mut self) {
        let throttle = Throttle::new(10_000);
        while let Some(mut job) = self.jobs.blocking_recv() {
            let mut pause = Duration::from_millis(20);
            let done = loop {
                match do_job(&*self.flush, &*self.points, &self.runtime, &mut job) {
                    Ok(done) => break done,
                    Err(error) => self.report(&throttle, &error),
                }
                if self.give_up.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_secs(2));
            };
            if self.owner.blocking_send(Control::Done(done)).is_err() {
                return;
            }
        }
    }

    fn report(&self, throttle: &Throttle, error: &StoreError) {
        self.stats.retries.add(1);
        if let Some(held_back) = throttle.pass_now() {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::error!(error, held_back, "points not stored, kept in the journal and tried again");
        }
    }
}

/// Does one job once.
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
    let (rows, done) = runtime.block_on(late_work::compute(points, job))?;
    flush.commit(&FlushBatch { rows, states: Vec::new() })?;
    Ok(Done::Late(done))
}
