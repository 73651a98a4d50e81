//! The job that deletes metrics which no longer get points.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricConfig, MetricId, Stage};
use plumbago_store::{
    FlushBatch, MetricMeta, MetricRow, PointStore, ReadRequest, Share, SlotRange, StateRow, StoreError,
};

use crate::drive::{Page, Steps, drive};
use crate::job::{Context, Job, JobError, Stores};
use crate::report::Report;

/// The number of metrics whose points are read in one request.
const READ_METRICS: usize = 100;
/// The number of newest raw slots that a writer may not have stored yet.
const ALLOWANCE: u32 = 20;

/// Deletes metrics that got no point for some time.
#[derive(Debug, Clone)]
pub struct Expire {
    /// The stores from which names and points are deleted.
    pub stores: Stores,
    /// How long a metric must be without a point.
    pub after: Duration,
}

#[boxed_futures]
impl Job for Expire {
    fn name(&self) -> &'static str {
        "expire"
    }

    async fn run(&self, context: &Context) -> Result<Report, JobError> {
        drive(self.name(), Expiring { job: self.clone() }, context).await
    }
}

struct Expiring {
    job: Expire,
}

#[boxed_futures]
impl Steps for Expiring {
    type Item = MetricRow;

    async fn page(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Page<MetricRow>, StoreError> {
        Ok(self.job.stores.rows.scan_rows(share, position, limit).await?.into())
    }

    /// Makes four checks, cheap ones first: the times in the row, whether this process writes the metric,
    /// whether the store has points, and whether a point has arrived by the time when the metric is unloaded.
    /// The last check and the unloading are one step.
    async fn handle(
        &mut self,
        rows: Vec<MetricRow>,
        context: &Context,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let now = context.clock.now();
        let after = i64::try_from(self.job.after.as_secs()).unwrap_or(i64::MAX);
        let since = now.saturating_sub(after);
        let old: Vec<&MetricRow> = rows.iter().filter(|row| looks_old(row, since)).collect();
        let names: Vec<&str> = old.iter().map(|row| row.name.as_str()).collect();
        let written = context.live.are_written(&names, since).await?;
        let silent: Vec<&MetricRow> =
            old.iter().zip(written).filter(|(_, written)| !written).map(|(row, _)| *row).collect();
        for metrics in silent.chunks(READ_METRICS) {
            let found =
                metrics.iter().filter_map(|row| Some((MetricId::of(&row.name), &**row.config.as_ref()?)));
            let has_points = have_points(&*self.job.stores.points, found, since, now).await?;
            let mut dead = Vec::new();
            for (row, has_points) in metrics.iter().zip(has_points) {
                if has_points {
                    report.note_kept("has_points");
                } else {
                    dead.push(*row);
                }
            }
            self.bury(&dead, since, context, report).await?;
        }
        Ok(())
    }
}

impl Expiring {
    async fn bury(
        &self,
        rows: &[&MetricRow],
        since: i64,
        context: &Context,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        if context.dry_run {
            rows.iter().for_each(|row| report.note_done("expired", &row.name));
            return Ok(());
        }
        // Taken before the metrics are unloaded, so that rows of a new creation are younger and survive.
        let as_of_us = context.as_of_us();
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let forgotten = context.live.forget(&names, since).await?;
        let mut dead = Vec::new();
        for (row, forgotten) in rows.iter().zip(forgotten) {
            if forgotten {
                dead.push(*row);
            } else {
                report.note_kept("written");
            }
        }
        self.delete(&dead, as_of_us).await?;
        let reborn = self.put_back(&dead, since, context).await?;
        for row in dead {
            if reborn.contains(&row.name) {
                report.note_kept("came_to_life");
            } else {
                report.note_done("expired", &row.name);
            }
        }
        Ok(())
    }

    /// Creates metrics again that got a point between their unloading and the deletion of their rows. Such a
    /// point finds the old row still in place, so the store keeps that row and the deletion removes it.
    /// Returns the names of all metrics that got such a point.
    async fn put_back(
        &self,
        rows: &[&MetricRow],
        since: i64,
        context: &Context,
    ) -> Result<HashSet<String>, StoreError> {
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        let written = context.live.are_written(&names, since).await?;
        let reborn = rows.iter().zip(written).filter(|(_, written)| *written).map(|(row, _)| *row);
        let reborn: Vec<&MetricRow> = reborn.collect();
        let names: Vec<&str> = reborn.iter().map(|row| row.name.as_str()).collect();
        let found = self.job.stores.metadata.get(&names).await?;
        let created_on = u32::try_from(context.clock.now()).unwrap_or(0);
        let missing = reborn.iter().zip(found).filter(|(_, found)| found.is_none()).map(|(row, _)| row);
        let metrics: Vec<MetricMeta> = missing
            .filter_map(|row| {
                Some(MetricMeta { name: row.name.clone(), config: row.config.clone()?, created_on })
            })
            .collect();
        if !metrics.is_empty() {
            self.job.stores.metadata.create(&metrics).await?;
        }
        Ok(reborn.into_iter().map(|row| row.name.clone()).collect())
    }

    async fn delete(&self, rows: &[&MetricRow], as_of_us: i64) -> Result<(), StoreError> {
        let stores = &self.job.stores;
        let ids = rows.iter().map(|row| MetricId::of(&row.name));
        if stores.delete_points && !rows.is_empty() {
            let stages = rows
                .iter()
                .map(|row| row.config.as_ref().map_or(Vec::new(), |c| c.retention.stages().to_vec()));
            let points: Vec<(MetricId, Vec<Stage>)> = ids.clone().zip(stages).collect();
            stores.points.delete(&points).await?;
        }
        if let Some(states) = stores.states.clone()
            && !rows.is_empty()
        {
            let states_gone = ids.map(|id| StateRow { id, bytes: Vec::new() }).collect();
            let batch = FlushBatch { states: states_gone, ..FlushBatch::default() };
            commit(states, batch).await?;
        }
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        stores.rows.delete_rows(&names, as_of_us).await
    }
}

async fn commit(states: Arc<dyn plumbago_store::FlushStore>, batch: FlushBatch) -> Result<(), StoreError> {
    let done = tokio::task::spawn_blocking(move || states.commit(&batch)).await;
    done.unwrap_or_else(|error| {
        Err(StoreError::with(plumbago_store::ErrorKind::Internal, "delete state rows", error))
    })
}

/// Whether each of the metrics has a point in the store at or after `since`.
pub(crate) async fn have_points<'a>(
    points: &dyn PointStore,
    metrics: impl Iterator<Item = (MetricId, &'a MetricConfig)> + Send,
    since: i64,
    now: i64,
) -> Result<Vec<bool>, StoreError> {
    // Rows that the remote store has lost must count too, or their metric would look unused.
    let mut request = ReadRequest { include_retained: true, ..ReadRequest::default() };
    let (mut owners, mut count) = (Vec::new(), 0);
    for (at, (id, config)) in metrics.enumerate() {
        let ranges = ranges(id, config, since, now);
        owners.extend(ranges.iter().map(|_| at));
        request.ranges.extend(ranges);
        count = at + 1;
    }
    let columns = points.read(&request).await?;
    let mut found = vec![false; count];
    for ((at, range), mut column) in owners.into_iter().zip(&request.ranges).zip(columns) {
        // A window also counts if only other writers have stored it.
        column.merge_writers(range.aggregation);
        found[at] |= column.values.iter().any(|value| !value.is_nan());
    }
    Ok(found)
}

/// True for a metric without problems that was neither created nor updated since `since`. Metrics with
/// problems are left to the clean-up of rows.
fn looks_old(row: &MetricRow, since: i64) -> bool {
    row.problem.is_none()
        && row.config.is_some()
        && i64::from(row.created_on) < since
        && row.updated_on.is_none_or(|updated| i64::from(updated) < since)
}

/// The ranges in which a metric that is still written has points. The first is in the coarsest stage with at
/// least four slots in the time since `since`, because it has the fewest slots to read. Its newest windows
/// may not be stored yet, so the second covers them in the raw stage.
fn ranges(id: MetricId, config: &MetricConfig, since: i64, now: i64) -> Vec<SlotRange> {
    let stages = config.retention.stages();
    let age = now - since;
    let fits = |stage: &Stage| i64::from(stage.resolution) <= age / 4;
    let coarse = stages.iter().rposition(fits).unwrap_or(0);
    let resolution = i64::from(stages[coarse].resolution);
    let range = |index: usize, from: i64| {
        let stage = stages[index];
        let oldest = now.saturating_sub(stage.duration() as i64);
        let slot = |at: i64| u32::try_from(at.max(oldest).max(0)).unwrap_or(u32::MAX) / stage.resolution;
        SlotRange {
            id,
            stage,
            stage_index: index as u8,
            aggregation: config.aggregation,
            from: slot(from),
            until: slot(now) + 1,
        }
    };
    let raw_from = now - 2 * resolution - i64::from(ALLOWANCE * stages[0].resolution);
    match coarse {
        0 => vec![range(0, since)],
        _ => vec![range(coarse, since), range(0, raw_from)],
    }
}

#[cfg(test)]
mod tests {
    use plumbago_model::Aggregation;

    use super::*;

    fn config(retention: &str) -> MetricConfig {
        MetricConfig {
            retention: retention.parse().unwrap(),
            aggregation: Aggregation::Average,
            x_files_factor: 0.5,
        }
    }

    #[test]
    fn few_slots_show_whether_a_metric_is_written() {
        let (now, day) = (1_700_000_000, 86_400);
        let id = MetricId::of("a");
        let slots = |retention: &str, days: i64| -> Vec<(u8, u32)> {
            let ranges = ranges(id, &config(retention), now - days * day, now);
            ranges.iter().map(|range| (range.stage_index, range.until - range.from)).collect()
        };
        assert_eq!(slots("60s:7d", 30), [(0, 10_081)]);
        assert_eq!(slots("60s:7d,3600s:2y", 30), [(1, 721), (0, 141)]);
        assert_eq!(slots("1s:1d,60s:7d,86400s:5y", 8), [(2, 9), (0, 86_401)]);
        assert_eq!(slots("60s:30d,900s:2y,604800s:10y", 10), [(1, 961), (0, 51)]);
    }
}
