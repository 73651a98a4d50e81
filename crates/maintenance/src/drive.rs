//! The loop that all jobs share. It reads pages at a limited rate, retries failed calls and saves the
//! position.

use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{MetricRow, RowPage, Share, StoreError};
use tokio::time::Instant;

use crate::checkpoint::Checkpoint;
use crate::job::{Context, JobError};
use crate::report::Report;

/// How often a failing call is retried before the run fails.
const TRIES: u32 = 8;
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Shortest time between two saves of the position.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// A page of the items of a job.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<Vec<u8>>,
}

impl From<RowPage> for Page<MetricRow> {
    fn from(page: RowPage) -> Self {
        Self { items: page.rows, next: page.next }
    }
}

/// Whether an item of this time is due for its second check. Waits until it is due if `waits` is set.
pub(crate) async fn has_settled(since: Instant, settle: Duration, waits: bool) -> bool {
    let due = since + settle;
    if waits {
        tokio::time::sleep_until(due).await;
    }
    waits || due <= Instant::now()
}

/// The steps of a job, which differ between jobs. Every call may be repeated after an error.
#[boxed_futures]
pub(crate) trait Steps: Send {
    type Item: Clone + Send + Sync;

    /// Largest number of rows in a page.
    const PAGE: usize = 1000;

    /// The parameters of the run. A position that was saved with other parameters is not used.
    fn asked(&self) -> String {
        String::new()
    }

    async fn page(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Page<Self::Item>, StoreError>;

    /// Handles the items of a page completely, except for the second check by [`Steps::recheck`].
    async fn handle(
        &mut self,
        items: Vec<Self::Item>,
        context: &Context,
        report: &mut Report,
    ) -> Result<(), StoreError>;

    /// Makes the second checks that are due. At the end of a run, waits for all of them.
    async fn recheck(&mut self, _: &Context, _: &mut Report, _at_the_end: bool) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Runs a job over all pages, from the position where the last run ended.
pub(crate) async fn drive<S: Steps>(
    job: &'static str,
    mut steps: S,
    context: &Context,
) -> Result<Report, JobError> {
    let now = context.clock.now();
    let asked = steps.asked();
    let found = context.checkpoints.load(job, context.share, context.dry_run, now);
    let found = found.filter(|found| found.asked == asked);
    let (mut position, mut report) = match found {
        Some(found) => (Some(found.position), Report { resumed: true, ..found.report }),
        None => (None, Report { job: job.to_owned(), ..Report::default() }),
    };
    let before = report.clone();
    let mut stats = context.stats(job);
    stats.started(&report);
    let result = pages(job, &mut steps, context, &mut position, &mut report, &mut stats).await;
    // Deletions get their second check even if the run failed or was stopped.
    let settled = insist!(job, context, true, steps.recheck(context, &mut report, true));
    let result = result.and(settled);
    report.finished = result.is_ok();
    stats.ended(&report, &before, context.clock.now(), context.dry_run);
    let saved = match (&result, position) {
        (Ok(()), _) => context.checkpoints.clear(job, context.share, context.dry_run),
        (Err(_), Some(position)) => save(job, context, position, asked, &report),
        (Err(_), None) => Ok(()),
    };
    result?;
    saved.map_err(|source| JobError::Checkpoint { job, source })?;
    Ok(report)
}

async fn pages<S: Steps>(
    job: &'static str,
    steps: &mut S,
    context: &Context,
    position: &mut Option<Vec<u8>>,
    report: &mut Report,
    stats: &mut crate::stats::Stats,
) -> Result<(), JobError> {
    let mut rate = context.rate();
    let mut saved = Instant::now();
    loop {
        let page = insist!(job, context, false, steps.page(context.share, position.clone(), S::PAGE))?;
        let turn = context.stop.run_until_cancelled(rate.take(page.items.len())).await;
        if turn.is_none() || context.stop.is_cancelled() {
            return Err(JobError::Stopped { job });
        }
        let scanned = page.items.len() as u64;
        insist!(job, context, false, steps.handle(page.items.clone(), context, report))?;
        insist!(job, context, false, steps.recheck(context, report, false))?;
        report.scanned += scanned;
        stats.page(report);
        (context.progress.0)(report);
        let Some(next) = page.next else { return Ok(()) };
        *position = Some(next.clone());
        if saved.elapsed() >= SAVE_EVERY {
            saved = Instant::now();
            save(job, context, next, steps.asked(), report)
                .map_err(|source| JobError::Checkpoint { job, source })?;
        }
    }
}

fn save(
    job: &str,
    context: &Context,
    position: Vec<u8>,
    asked: String,
    report: &Report,
) -> std::io::Result<()> {
    let written_on = context.clock.now();
    let checkpoint = Checkpoint { position, written_on, asked, report: report.clone() };
    context.checkpoints.save(job, context.share, context.dry_run, &checkpoint)
}

/// Waits before the next attempt. Fails if there is no next attempt: the error is permanent, the attempts are
/// used up, or the run was stopped. At the end of a run (`at_the_end`) a stop does not interrupt it.
pub(crate) async fn pause(
    job: &'static str,
    context: &Context,
    try_number: u32,
    error: StoreError,
    at_the_end: bool,
) -> Result<(), JobError> {
    if !error.is_transient() || try_number >= TRIES {
        return Err(JobError::Store { job, source: error });
    }
    tracing::warn!(
        job,
        error = &error as &dyn std::error::Error,
        "a request of a maintenance job to the store failed; retrying"
    );
    let pause = (PAUSE_FIRST * 2_u32.pow(try_number)).min(PAUSE_MAX);
    if at_the_end {
        tokio::time::sleep(pause).await;
        return Ok(());
    }
    match context.stop.run_until_cancelled(tokio::time::sleep(pause)).await {
        Some(()) => Ok(()),
        None => Err(JobError::Stopped { job }),
    }
}

/// Retries a call that fails with a transient error. It is a macro because the future of a closure cannot
/// borrow mutably what the closure captures.
macro_rules! insist {
    ($job:expr, $context:expr, $at_the_end:expr, $call:expr) => {{
        let mut try_number = 0;
        loop {
            match $call.await {
                Ok(value) => break Ok(value),
                Err(error) => {
                    if let Err(end) =
                        $crate::drive::pause($job, $context, try_number, error, $at_the_end).await
                    {
                        break Err(end);
                    }
                    try_number += 1;
                }
            }
        }
    }};
}
pub(crate) use insist;
