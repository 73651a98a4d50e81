//! When jobs run in a daemon: at their intervals, one at a time, not all daemons at once.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use plumbago_store::StoreError;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::job::{Context, Job, Report};

/// Intervals vary by so much, so that daemons that start together do not work together.
const JITTER: f64 = 0.1;
/// The first run comes within this part of the interval, and not at once.
const FIRST_PART: f64 = 0.1;
const FIRST_MIN: Duration = Duration::from_secs(60);

/// Sees to it that a job runs in one process of a cluster at a time.
#[async_trait]
pub trait Turn: Send + Sync + Debug {
    /// True when this process may run the job now; it keeps that right until it gives it back, or until
    /// `lost` is cancelled.
    async fn take(&self, job: &str, lost: &CancellationToken) -> Result<bool, StoreError>;

    /// The job has ended.
    async fn give_back(&self, job: &str);
}

/// There are no others.
#[derive(Debug, Clone, Copy, Default)]
pub struct MyTurn;

#[async_trait]
impl Turn for MyTurn {
    async fn take(&self, _: &str, _: &CancellationToken) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn give_back(&self, _: &str) {}
}

/// How a job stands.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JobStatus {
    /// Its name.
    pub job: String,
    /// Seconds between two runs; 0 when it runs only when asked.
    pub every_seconds: u64,
    /// It is at work.
    pub running: bool,
    /// Runs that have ended in this process, also early.
    pub runs: u64,
    /// What it does now, or did the last time.
    pub report: Option<Report>,
    /// Why the last run ended early.
    pub error: Option<String>,
}

/// Runs jobs at their intervals.
#[derive(Debug, Clone)]
pub struct Scheduler {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    jobs: Vec<(Arc<dyn Job>, Duration)>,
    context: Context,
    turn: Arc<dyn Turn>,
    status: Mutex<Vec<JobStatus>>,
    /// Jobs that were asked for, with `dry_run`.
    wanted: Mutex<Vec<(usize, bool)>>,
    asked: Notify,
}

impl Scheduler {
    /// Jobs with their intervals; one with the interval 0 runs only when asked.
    pub fn new(jobs: Vec<(Arc<dyn Job>, Duration)>, context: Context, turn: Arc<dyn Turn>) -> Self {
        let status = jobs.iter().map(|(job, every)| JobStatus {
            job: job.name().to_owned(),
            every_seconds: every.as_secs(),
            ..JobStatus::default()
        });
        let status = Mutex::new(status.collect());
        let (wanted, asked) = (Mutex::default(), Notify::new());
        Self { inner: Arc::new(Inner { jobs, context, turn, status, wanted, asked }) }
    }

    /// How all jobs stand.
    pub fn status(&self) -> Vec<JobStatus> {
        self.inner.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks for a run as soon as no other job is at work; false when there is no such job.
    pub fn ask(&self, job: &str, dry_run: bool) -> bool {
        let Some(at) = self.inner.jobs.iter().position(|(known, _)| known.name() == job) else {
            return false;
        };
        let mut wanted = self.inner.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if !wanted.contains(&(at, dry_run)) {
            wanted.push((at, dry_run));
        }
        self.inner.asked.notify_one();
        true
    }

    /// Runs jobs until it is told to stop. One that was ended early by the last stop goes on soon.
    pub async fn run(self, stop: CancellationToken) {
        let inner = &*self.inner;
        let mut due: Vec<Option<Instant>> =
            inner.jobs.iter().map(|(job, every)| first_run(inner, &**job, *every)).collect();
        while !stop.is_cancelled() {
            let asked = inner.wanted.lock().unwrap_or_else(PoisonError::into_inner).pop();
            if let Some((at, dry_run)) = asked {
                self.run_job(at, dry_run, &stop).await;
                continue;
            }
            let next = due.iter().enumerate().filter_map(|(at, due)| due.map(|due| (due, at))).min();
            let Some((when, at)) = next else {
                let _ = stop.run_until_cancelled(inner.asked.notified()).await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(when) => {
                    self.run_job(at, false, &stop).await;
                    due[at] = Some(Instant::now() + spread(inner.jobs[at].1, JITTER, random()));
                }
                () = inner.asked.notified() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    async fn run_job(&self, at: usize, dry_run: bool, stop: &CancellationToken) {
        let inner = &*self.inner;
        let job = &inner.jobs[at].0;
        let stop = stop.child_token();
        match inner.turn.take(job.name(), &stop).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::info!(job = job.name(), "another process is at it");
                return self.note_refusal(at, "another process is at it".to_owned());
            }
            Err(error) => {
                let cause: &(dyn std::error::Error + 'static) = &error;
                tracing::warn!(job = job.name(), error = cause, "not run");
                return self.note_refusal(at, error.to_string());
            }
        }
        self.note(at, |status| {
            status.running = true;
            status.error = None;
        });
        let shown = self.clone();
        let progress = move |report: &Report| shown.note(at, |status| status.report = Some(report.clone()));
        let context = Context {
            dry_run,
            stop,
            progress: crate::job::Progress(Arc::new(progress)),
            ..inner.context.clone()
        };
        let result = job.run(&context).await;
        inner.turn.give_back(job.name()).await;
        match &result {
            Ok(report) => tracing::info!(
                job = job.name(), scanned = report.scanned, done = ?report.done, spared = ?report.spared, dry_run,
                "maintenance done"
            ),
            Err(error) => {
                let error: &(dyn std::error::Error + 'static) = error;
                tracing::warn!(job = job.name(), error, "maintenance ended early, it goes on the next time");
            }
        }
        self.note(at, |status| {
            status.running = false;
            status.runs += 1;
            match result {
                Ok(report) => status.report = Some(report),
                Err(error) => status.error = Some(error.to_string()),
            }
        });
    }

    fn note_refusal(&self, at: usize, why: String) {
        self.note(at, |status| {
            status.runs += 1;
            status.error = Some(why);
        });
    }

    fn note(&self, at: usize, change: impl FnOnce(&mut JobStatus)) {
        let mut all = self.inner.status.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = all.get_mut(at) {
            change(status);
        }
    }
}

fn first_run(inner: &Inner, job: &dyn Job, every: Duration) -> Option<Instant> {
    if every.is_zero() {
        return None;
    }
    let unfinished = inner.context.checkpoints.is_unfinished(job.name(), inner.context.share);
    let within = if unfinished { FIRST_MIN } else { every.mul_f64(FIRST_PART).max(FIRST_MIN) };
    Some(Instant::now() + within.mul_f64(0.5 + random() / 2.0))
}

/// An interval, longer or shorter by a part of itself; `random` is 0 to 1.
fn spread(every: Duration, part: f64, random: f64) -> Duration {
    every.mul_f64(1.0 + part * (2.0 * random - 1.0))
}

/// A number from 0 to 1 that differs between processes; nothing depends on how good it is.
fn random() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    (RandomState::new().hash_one(0) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_spread() {
        let day = Duration::from_secs(86_400);
        assert_eq!(spread(day, 0.1, 0.5), day);
        assert_eq!(spread(day, 0.1, 0.0), day.mul_f64(0.9));
        assert_eq!(spread(day, 0.1, 1.0), day.mul_f64(1.1));
        assert!((0..100).map(|_| random()).all(|random| (0.0..1.0).contains(&random)));
    }
}
