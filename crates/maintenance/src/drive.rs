//! The loop that all jobs have in common: pages, rate, retries, position, end.

use std::time::Duration;

use async_trait::async_trait;
use plumbago_store::{Share, StoreError};

use crate::checkpoint::Checkpoint;
use crate::job::{Context, JobError, Report};

/// Rows in a page.
const PAGE: usize = 1000;
/// How often a failing call is repeated before the run ends.
const TRIES: u32 = 8;
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A position is noted not more often.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// A page of whatever a job goes over.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<Vec<u8>>,
}

/// What differs between jobs. Both calls may be repeated after an error.
#[async_trait]
pub(crate) trait Steps: Send {
    type Item: Clone + Send + Sync;

    async fn page(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Page<Self::Item>, StoreError>;

    /// Deals with the items of a page. Everything up to the last page is then done, but for what
    /// [`Steps::is_settled`] says no to.
    async fn handle(
        &mut self,
        items: Vec<Self::Item>,
        context: &Context,
        report: &mut Report,
    ) -> Result<(), StoreError>;

    /// Looks again at what was done a while ago, or at all of it at the end.
    async fn settle(&mut self, _: &Context, _: &mut Report, _at_the_end: bool) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Runs a job from where it was ended the last time.
pub(crate) async fn drive<S: Steps>(
    job: &'static str,
    mut steps: S,
    context: &Context,
) -> Result<Report, JobError> {
    let now = context.clock.now();
    let found = context.checkpoints.load(job, context.share, context.dry_run, now);
    let (mut position, mut report) = match found {
        Some(found) => (Some(found.position), Report { resumed: true, ..found.report }),
        None => (None, Report { job: job.to_owned(), ..Report::default() }),
    };
    let before = report.clone();
    let mut stats = context.stats(job);
    stats.started(&report);
    let result = pages(job, &mut steps, context, &mut position, &mut report, &mut stats).await;
    // What was deleted is looked at again, whatever has ended the run.
    let settled = insist!(job, context, true, steps.settle(context, &mut report, true));
    let result = result.and(settled);
    report.finished = result.is_ok();
    stats.ended(&report, &before, context.clock.now(), context.dry_run);
    let saved = match (&result, position) {
        (Ok(()), _) => context.checkpoints.clear(job, context.share, context.dry_run),
        (Err(_), Some(position)) => save(job, context, position, &report),
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
    let mut saved = tokio::time::Instant::now();
    loop {
        let page = insist!(job, context, false, steps.page(context.share, position.clone(), PAGE))?;
        rate.take(page.items.len()).await;
        if context.stop.is_cancelled() {
            return Err(JobError::Stopped { job });
        }
        let scanned = page.items.len() as u64;
        insist!(job, context, false, steps.handle(page.items.clone(), context, report))?;
        insist!(job, context, false, steps.settle(context, report, false))?;
        report.scanned += scanned;
        stats.page(report);
        (context.progress.0)(report);
        let Some(next) = page.next else { return Ok(()) };
        *position = Some(next.clone());
        if saved.elapsed() >= SAVE_EVERY {
            saved = tokio::time::Instant::now();
            save(job, context, next, report).map_err(|source| JobError::Checkpoint { job, source })?;
        }
    }
}

fn save(job: &str, context: &Context, position: Vec<u8>, report: &Report) -> std::io::Result<()> {
    let written_on = context.clock.now();
    let checkpoint = Checkpoint { position, written_on, report: report.clone() };
    context.checkpoints.save(job, context.share, context.dry_run, &checkpoint)
}

/// A pause before the next try; `Err` when there is none, because of the error's kind, because there
/// were enough, or because the run is to stop.
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
    tracing::warn!(job, error = &error as &dyn std::error::Error, "maintenance waits for the store");
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

/// Repeats a call that fails transiently. A macro, since a closure cannot lend what it borrows to the
/// future that it returns.
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
use insist;
