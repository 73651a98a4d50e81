//! The verbs `clean` and `repair`: maintenance jobs, run now, with other settings than on schedule.

use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::Share;
use serde::{Deserialize, Serialize};

use crate::config::expire_problem;
use crate::job::{Context, Job, Progress};
use crate::report::Report;
use crate::verb::{Verb, VerbError, Work};
use crate::windows::Selection;
use crate::{Config, jobs};

/// The settings for maintenance jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Whether to report the changes without making them.
    pub dry_run: bool,
    /// The part of all rows to handle, as its number and the number of parts; `None` for all.
    pub shard: Option<(u32, u32)>,
    /// The largest number of rows read per second; 0 for no limit, `None` for the configured one.
    pub rate: Option<u32>,
}

impl Settings {
    fn check(&self) -> Result<(), String> {
        match self.shard {
            Some((index, of)) if index >= of => Err(format!("shard: {index} is not below {of}")),
            _ => Ok(()),
        }
    }

    fn share(&self) -> Share {
        self.shard.map_or(Share::ALL, |(index, of)| Share { index, of })
    }
}

/// Removes unusable rows, empty directories, and metrics that are no longer written.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Clean {
    /// Metrics without a point for this many seconds are deleted; `None` for the configured time.
    pub max_age_seconds: Option<u64>,
    /// Options of the jobs.
    #[serde(flatten)]
    pub settings: Settings,
}

#[boxed_futures]
impl Verb for Clean {
    const NAME: &'static str = "clean";
    type Answer = Vec<Report>;

    fn check(&self) -> Result<(), String> {
        let problem =
            self.max_age_seconds.and_then(|seconds| expire_problem(std::time::Duration::from_secs(seconds)));
        problem.map_or(Ok(()), |problem| Err(format!("--max-age: {problem}")))?;
        self.settings.check()
    }

    async fn run(&self, work: &Work) -> Result<Vec<Report>, VerbError> {
        let mut config = work.config.clone();
        if let Some(seconds) = self.max_age_seconds {
            config.expire_after = std::time::Duration::from_secs(seconds);
        }
        let wanted = ["clean_rows", "clean_directories", "expire"];
        run_jobs(work, &config, &wanted, &self.settings, &Selection::default()).await
    }
}

/// Creates missing directories and removes unusable rows, or corrects windows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Repair {
    /// The windows to correct, in place of rows and directories.
    pub windows: Option<Selection>,
    /// Options of the jobs.
    #[serde(flatten)]
    pub settings: Settings,
}

#[boxed_futures]
impl Verb for Repair {
    const NAME: &'static str = "repair";
    type Answer = Vec<Report>;

    fn check(&self) -> Result<(), String> {
        if let Some(windows) = &self.windows {
            windows.check().map_err(|error| format!("the glob is not valid: {error}"))?;
        }
        self.settings.check()
    }

    async fn run(&self, work: &Work) -> Result<Vec<Report>, VerbError> {
        let wanted: &[&str] = match &self.windows {
            Some(_) => &["repair_windows"],
            None => &["repair_directories", "clean_rows"],
        };
        let selection = self.windows.clone().unwrap_or_default();
        run_jobs(work, &work.config, wanted, &self.settings, &selection).await
    }
}

/// Runs the jobs of these names that the stores support, one after the other.
async fn run_jobs(
    work: &Work,
    config: &Config,
    wanted: &[&str],
    settings: &Settings,
    selection: &Selection,
) -> Result<Vec<Report>, VerbError> {
    let jobs: Vec<Arc<dyn Job>> =
        jobs(config, &work.stores, &work.dir).into_iter().map(|(job, _)| job).collect();
    let mut reports = Vec::new();
    for name in wanted {
        let Some(job) = jobs.iter().find(|job| job.name() == *name) else { continue };
        work.go_on()?;
        let stop = work.stop().child_token();
        let lease = lease_name(job.lease(), settings.shard);
        if !work.lease.take(&lease, &stop).await? {
            work.go_on()?;
            return Err(VerbError::Taken((*name).to_owned()));
        }
        work.progress.begin(name, None);
        let shown = work.progress.clone();
        let context = Context {
            dry_run: settings.dry_run,
            share: settings.share(),
            selection: selection.clone(),
            rows_per_second: settings.rate.unwrap_or(config.rows_per_second),
            progress: Progress(Arc::new(move |report: &Report| shown.set(report.scanned, note(report)))),
            stop,
            ..work.context.clone()
        };
        let result = job.run(&context).await;
        work.lease.release(&lease).await;
        reports.push(result?);
    }
    Ok(reports)
}

fn note(report: &Report) -> String {
    let counts: Vec<String> = report.done.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
    counts.join(", ")
}

/// Returns the name of the lease of a job. Each part of a divided job has a separate lease.
fn lease_name(job: &str, shard: Option<(u32, u32)>) -> String {
    shard.map_or_else(|| job.to_owned(), |(index, of)| format!("{job}.{index}-of-{of}"))
}
