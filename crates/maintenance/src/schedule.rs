//! The schedule of jobs in a daemon: at their intervals, and one at a time.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::GlobError;
use plumbago_store::StoreError;
use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::job::{Context, Job};
use crate::report::Report;
use crate::windows::Selection;

/// Intervals vary at random by this fraction, so that daemons that start at the same time do not run their
/// jobs at the same time.
const JITTER: f64 = 0.1;
/// The first run starts at a random time within this fraction of the interval.
const FIRST_PART: f64 = 0.1;
/// The first run of a short interval, or of an interrupted job, starts within this time.
const FIRST_MIN: Duration = Duration::from_secs(60);

/// Largest number of requested runs that wait.
const REQUESTS_MAX: usize = 100;

/// Ensures that only one daemon of a cluster at a time runs a job.
#[boxed_futures]
pub trait JobLease: Send + Sync + Debug {
    /// Takes the lease of a job. Returns `false` if another daemon has it. The lease is held until it is
    /// released or lost; `lost` is cancelled then, and the job has to end.
    ///
    /// # Errors
    /// If it is not known whether another daemon has the lease.
    async fn take(&self, job: &str, lost: &CancellationToken) -> Result<bool, StoreError>;

    /// Releases the lease after the job has ended.
    async fn release(&self, job: &str);
}

/// Grants every lease. For stores that only one daemon uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLeases;

#[boxed_futures]
impl JobLease for NoLeases {
    async fn take(&self, _: &str, _: &CancellationToken) -> Result<bool, StoreError> {
        Ok(true)
    }

    async fn release(&self, _: &str) {}
}

/// The state of a job.
#[derive(Debug, Clone, Default, Serialize)]
pub struct JobStatus {
    /// The name of the job.
    pub job: String,
    /// Seconds between two runs; 0 if the job runs only on request.
    pub every_seconds: u64,
    /// Whether it is running.
    pub running: bool,
    /// Number of runs that have ended since the start of this process, including failed ones.
    pub runs: u64,
    /// The report of the current run, or of the last one.
    pub report: Option<Report>,
    /// Why the last run failed or was not started; `None` if it succeeded.
    pub error: Option<String>,
}

/// The parameters of a requested run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether to report the changes without making them.
    pub dry_run: bool,
    /// The windows to compare, for a repair of windows.
    pub selection: Selection,
}

/// Why a run was not requested.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// There is no such job.
    #[error("there is no job {job:?}; the jobs are {known}")]
    UnknownJob {
        /// The requested name.
        job: String,
        /// The names of all jobs.
        known: String,
    },
    /// The glob for the names of the metrics is not valid.
    #[error("the glob is not valid: {0}")]
    Names(#[from] GlobError),
    /// Too many requests wait.
    #[error("{REQUESTS_MAX} requested runs are waiting; try again later")]
    TooMany,
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
    lease: Arc<dyn JobLease>,
    status: Mutex<Vec<JobStatus>>,
    /// Requested runs: the index of the job, and the request.
    wanted: Mutex<Vec<(usize, Request)>>,
    asked: Notify,
}

impl Scheduler {
    /// Makes a scheduler for jobs with their intervals. A job with the interval 0 runs only on request.
    pub fn new(jobs: Vec<(Arc<dyn Job>, Duration)>, context: Context, lease: Arc<dyn JobLease>) -> Self {
        let status = jobs.iter().map(|(job, every)| JobStatus {
            job: job.name().to_owned(),
            every_seconds: every.as_secs(),
            ..JobStatus::default()
        });
        let status = Mutex::new(status.collect());
        let (wanted, asked) = (Mutex::default(), Notify::new());
        Self { inner: Arc::new(Inner { jobs, context, lease, status, wanted, asked }) }
    }

    /// The state of all jobs.
    pub fn status(&self) -> Vec<JobStatus> {
        self.inner.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests a run, which starts when no other job is running. A request that is already waiting is not
    /// added again.
    ///
    /// # Errors
    /// If there is no such job, its selection has an error, or too many requests wait.
    pub fn ask(&self, job: &str, request: &Request) -> Result<(), RequestError> {
        let Some(at) = self.inner.jobs.iter().position(|(known, _)| known.name() == job) else {
            let known: Vec<&str> = self.inner.jobs.iter().map(|(job, _)| job.name()).collect();
            return Err(RequestError::UnknownJob { job: job.to_owned(), known: known.join(", ") });
        };
        request.selection.check()?;
        let mut wanted = self.inner.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if !wanted.iter().any(|known| (known.0, &known.1) == (at, request)) {
            if wanted.len() >= REQUESTS_MAX {
                return Err(RequestError::TooMany);
            }
            wanted.push((at, request.clone()));
        }
        self.inner.asked.notify_one();
        Ok(())
    }

    /// Runs jobs until `stop` is cancelled. A job that was interrupted continues soon after the next start.
    pub async fn run(self, stop: CancellationToken) {
        let inner = &*self.inner;
        let mut due: Vec<Option<Instant>> =
            inner.jobs.iter().map(|(job, every)| first_run(inner, &**job, *every)).collect();
        while !stop.is_cancelled() {
            let asked = inner.wanted.lock().unwrap_or_else(PoisonError::into_inner).pop();
            if let Some((at, request)) = asked {
                self.run_job(at, request, &stop).await;
                continue;
            }
            let next = due.iter().enumerate().filter_map(|(at, due)| due.map(|due| (due, at))).min();
            let Some((when, at)) = next else {
                let _ = stop.run_until_cancelled(inner.asked.notified()).await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(when) => {
                    if inner.jobs[at].0.is_due(inner.context.clock.now()) {
                        self.run_job(at, Request::default(), &stop).await;
                    }
                    due[at] = Some(Instant::now() + spread(inner.jobs[at].1, JITTER, rand::random()));
                }
                () = inner.asked.notified() => {}
                () = stop.cancelled() => {}
            }
        }
    }

    async fn run_job(&self, at: usize, request: Request, stop: &CancellationToken) {
        let inner = &*self.inner;
        let job = &inner.jobs[at].0;
        let stop = stop.child_token();
        match inner.lease.take(job.lease(), &stop).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::info!(job = job.name(), "another daemon runs this job");
                return self.note_refusal(at, "another daemon runs this job".to_owned());
            }
            Err(error) => {
                let cause: &(dyn std::error::Error + 'static) = &error;
                tracing::warn!(
                    job = job.name(),
                    error = cause,
                    "the maintenance job was not started; the next interval tries again"
                );
                return self.note_refusal(at, error.to_string());
            }
        }
        self.note(at, |status| {
            status.running = true;
            status.error = None;
        });
        let shown = self.clone();
        let progress = move |report: &Report| shown.note(at, |status| status.report = Some(report.clone()));
        let Request { dry_run, selection } = request;
        let context = Context {
            dry_run,
            selection,
            stop,
            progress: crate::job::Progress(Arc::new(progress)),
            ..inner.context.clone()
        };
        let result = job.run(&context).await;
        inner.lease.release(job.lease()).await;
        match &result {
            Ok(report) => tracing::info!(
                job = job.name(),
                scanned = report.scanned,
                done = counts(&report.done),
                kept = counts(&report.kept),
                dry_run,
                "the maintenance job finished"
            ),
            Err(error) => {
                let error: &(dyn std::error::Error + 'static) = error;
                tracing::warn!(
                    job = job.name(),
                    error,
                    "the maintenance job failed; the next interval continues where it stopped"
                );
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
    Some(Instant::now() + within.mul_f64(rand::random_range(0.5..1.0)))
}

/// An interval made longer or shorter by up to the fraction `part`; `random` is between 0 and 1.
fn spread(every: Duration, part: f64, random: f64) -> Duration {
    every.mul_f64(1.0 + part * (2.0 * random - 1.0))
}

/// Numbers by kind, as `rows 3, directories 1`.
fn counts(numbers: &BTreeMap<String, u64>) -> String {
    numbers.iter().map(|(kind, n)| format!("{kind} {n}")).collect::<Vec<_>>().join(", ")
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
    }
}
