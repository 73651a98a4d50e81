//! The job that compares closed windows with the slots that they were folded from, and corrects those that
//! differ. Windows differ if their writer is lost, or if two writers have counted the same slots
//! (`docs/decisions/repair-windows.md`).

mod compare;
mod new_writer;
mod plan;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricId, Pattern};
use plumbago_store::{MetricRow, PointStore, RowStore, Share, SharedWindows, StoreError};
use tokio::time::Instant;

use crate::drive::{Page, Steps, drive, has_settled};
use crate::job::{Context, Job, JobError};
use crate::rate::Rate;
use crate::report::Report;
pub use crate::selection::Selection;

use compare::{Batch, Metric, Work};
pub use new_writer::RepairNewWriter;
use plan::{Scope, Times};

/// How far back windows are compared unless the selection says otherwise, in seconds.
const BACK: i64 = 2 * 86_400;
/// How many slots one round reads, unless a single piece has more.
const ROUND_SLOTS: u64 = 100_000;
/// The key in the report for windows that differed again at the second check.
const AGAIN: &str = "corrected_again";
/// How many corrected metrics may wait for their second check. When there are more, the job pauses until some
/// are due.
const UNSETTLED_MAX: usize = 10_000;

/// Compares the windows of [`Context::selection`] and corrects those that differ.
#[derive(Debug, Clone)]
pub struct RepairWindows {
    /// The rows of the metrics.
    pub rows: Arc<dyn RowStore>,
    /// The points, including those that this process has not sent yet.
    pub points: Arc<dyn PointStore>,
    /// The windows of all writers.
    pub windows: Arc<dyn SharedWindows>,
    /// How long after its end a window is compared, in addition to 60 raw slots.
    pub after: Duration,
}

#[boxed_futures]
impl Job for RepairWindows {
    fn name(&self) -> &'static str {
        "repair_windows"
    }

    async fn run(&self, context: &Context) -> Result<Report, JobError> {
        let (selection, now) = (&context.selection, context.clock.now());
        let range = Scope::Range(selection.from.unwrap_or(now - BACK), selection.until.unwrap_or(now));
        let failed = |error| JobError::Selection { job: self.name(), source: error };
        let steps = Repairing {
            names: selection.pattern().map_err(failed)?,
            ..Repairing::new(self, range, now, format!("{selection:?}"), context)
        };
        drive(self.name(), steps, context).await
    }
}

/// A run over the metrics.
struct Repairing {
    job: RepairWindows,
    names: Option<Pattern>,
    scope: Scope,
    times: Times,
    asked: String,
    rate: Rate,
    /// When the next window of the scope can be compared, in seconds since the epoch.
    next: Arc<AtomicI64>,
    /// Corrected metrics, each with the time of its correction, oldest first.
    unsettled: VecDeque<(Instant, MetricRow)>,
}

impl Repairing {
    fn new(job: &RepairWindows, scope: Scope, now: i64, asked: String, context: &Context) -> Self {
        let after = i64::try_from(job.after.as_secs()).unwrap_or(i64::MAX);
        Self {
            job: job.clone(),
            names: None,
            scope,
            times: Times { now, after },
            asked,
            rate: context.rate(),
            next: Arc::new(AtomicI64::new(i64::MAX)),
            unsettled: VecDeque::new(),
        }
    }

    /// Compares and corrects all windows of these metrics, finer stages first, because coarser ones may be
    /// folded from them. Returns the places of corrected metrics.
    async fn repair(
        &mut self,
        rows: &[&MetricRow],
        kind: &'static str,
        context: &Context,
        report: &mut Report,
    ) -> Result<Vec<usize>, StoreError> {
        let metrics = self.metrics(rows, context).await?;
        let stages = metrics.iter().map(|metric| metric.config.retention.stages().len()).max().unwrap_or(0);
        let mut corrected = Vec::new();
        for stage in 1..stages {
            let works = self.works(&metrics, stage);
            let mut rest = works.as_slice();
            while !rest.is_empty() && !context.stop.is_cancelled() {
                let mut slots = 0;
                let fits = |work: &&Work<'_>| {
                    slots += work.slots();
                    slots <= ROUND_SLOTS
                };
                let n = rest.iter().take_while(fits).count().max(1);
                let (round, others) = rest.split_at(n);
                rest = others;
                corrected.extend(self.round(round, kind, context, report).await?);
            }
        }
        corrected.sort_unstable();
        corrected.dedup();
        Ok(corrected)
    }

    async fn metrics<'a>(
        &self,
        rows: &[&'a MetricRow],
        context: &Context,
    ) -> Result<Vec<Metric<'a>>, StoreError> {
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let closed_until = context.live.closed_until(&names).await?;
        let metric = |(place, (row, closed_until)): (usize, (&&'a MetricRow, i64))| {
            let config = row.config.as_deref()?;
            Some(Metric { place, name: &row.name, id: MetricId::of(&row.name), config, closed_until })
        };
        Ok(rows.iter().zip(closed_until).enumerate().filter_map(metric).collect())
    }

    /// The windows of one stage to compare.
    fn works<'a>(&self, metrics: &'a [Metric<'a>], stage: usize) -> Vec<Work<'a>> {
        let mut works = Vec::new();
        for metric in metrics.iter().filter(|metric| stage < metric.config.retention.stages().len()) {
            let (pieces, next) = plan::pieces(metric.config, stage, self.scope, self.times);
            self.next.fetch_min(next.unwrap_or(i64::MAX), Ordering::Relaxed);
            works.extend(pieces.into_iter().map(|piece| Work { metric, piece }));
        }
        works
    }

    async fn round(
        &mut self,
        works: &[Work<'_>],
        kind: &'static str,
        context: &Context,
        report: &mut Report,
    ) -> Result<Vec<usize>, StoreError> {
        let RepairWindows { points, windows, .. } = &self.job;
        let found = compare::read(&**points, &**windows, works).await?;
        let mut batch = Batch::new(windows.identity());
        let mut corrected = Vec::new();
        for (work, found) in works.iter().zip(found) {
            self.rate.take(found.rows()).await;
            report.windows += work.piece.windows.len() as u64;
            let outcome = compare::compare(work, found, &mut batch);
            for reason in outcome.kept {
                report.note_kept(reason);
            }
            (0..outcome.wrong).for_each(|_| report.note_done(kind, work.metric.name));
            if outcome.wrong > 0 {
                corrected.push(work.metric.place);
            }
        }
        if !context.dry_run {
            batch.write(&**points, &**windows).await?;
        }
        Ok(corrected)
    }
}

#[boxed_futures]
impl Steps for Repairing {
    type Item = MetricRow;

    const PAGE: usize = 100;

    fn asked(&self) -> String {
        self.asked.clone()
    }

    async fn page(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Page<MetricRow>, StoreError> {
        Ok(self.job.rows.scan_rows(share, position, limit).await?.into())
    }

    async fn handle(
        &mut self,
        rows: Vec<MetricRow>,
        context: &Context,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let is_wanted = |row: &&MetricRow| {
            row.problem.is_none() && self.names.as_ref().is_none_or(|names| names.matches(&row.name))
        };
        let wanted: Vec<&MetricRow> = rows.iter().filter(is_wanted).collect();
        let kind = if context.dry_run { "wrong" } else { "corrected" };
        let corrected = self.repair(&wanted, kind, context, report).await?;
        if !context.dry_run {
            let now = Instant::now();
            self.unsettled.extend(corrected.into_iter().map(|place| (now, wanted[place].clone())));
        }
        Ok(())
    }

    /// While a window was corrected, another writer may have stored its part of the window, or a late point.
    /// So each corrected metric is compared once more.
    async fn recheck(
        &mut self,
        context: &Context,
        report: &mut Report,
        at_the_end: bool,
    ) -> Result<(), StoreError> {
        while let Some((corrected, _)) = self.unsettled.front() {
            let waits = at_the_end || self.unsettled.len() > UNSETTLED_MAX;
            if !has_settled(*corrected, context.settle, waits).await {
                return Ok(());
            }
            let now = Instant::now();
            let ripe = self.unsettled.iter().take(Self::PAGE);
            let rows: Vec<MetricRow> =
                ripe.take_while(|(at, _)| *at + context.settle <= now).map(|(_, row)| row.clone()).collect();
            // Windows that the first comparison has counted are not counted again.
            let (compared, kept) = (report.windows, report.kept.clone());
            let again = self.repair(&rows.iter().collect::<Vec<_>>(), AGAIN, context, report).await;
            (report.windows, report.kept) = (compared, kept);
            again?;
            self.unsettled.drain(..rows.len());
        }
        Ok(())
    }
}
