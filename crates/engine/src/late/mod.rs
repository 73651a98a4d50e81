//! Rows for late points: their own slots, and every window that they fall into, folded again.

pub(crate) mod close;
pub(crate) mod refold;

use std::collections::{BTreeMap, BTreeSet};

use plumbago_model::Window;
use plumbago_store::{Column, PointStore, ReadRequest, RowCount, StoreError, WriteBatch};

use crate::late::refold::Refold;
use crate::shard::jobs::{LateDone, LateJob, LateMetric, OpenPart};

/// Slots between two needed ones, at most, for both to be in one range of a read.
const BRIDGE: u32 = 16;

/// What the late points of one metric need from the store.
#[derive(Debug, Default)]
struct Needs {
    /// Ranges with the slots of the points: stage, first slot, end, position in the request.
    target_ranges: Vec<(usize, u32, u32, usize)>,
    /// Windows to fold again, finer stages first.
    refolds: Vec<Refold>,
}

/// Reads what is needed for a job and computes its rows.
///
/// # Errors
/// If the store cannot be read.
pub(crate) async fn compute(
    store: &dyn PointStore,
    job: &LateJob,
) -> Result<(WriteBatch, Vec<LateDone>), StoreError> {
    let mut request = ReadRequest { include_retained: true, ..ReadRequest::default() };
    let needs: Vec<Needs> = job.metrics.iter().map(|metric| needs_of(metric, &mut request)).collect();
    let mut columns = store.read(&request).await?;
    for (column, range) in columns.iter_mut().zip(&request.ranges) {
        column.merge_writers(range.aggregation);
    }
    let mut rows = WriteBatch::default();
    let mut done = Vec::with_capacity(job.metrics.len());
    for (metric, needs) in job.metrics.iter().zip(&needs) {
        done.push(apply(metric, needs, &columns, &mut rows));
    }
    store.subtract_other_writers(&mut rows).await?;
    for (at, k) in shared_windows(store, job, &done).await? {
        done[at].open[k] = Some(OpenPart::Changed(changes(&job.metrics[at], &needs[at], &columns, k)));
    }
    Ok((rows, done))
}

/// Finds the open windows that other writers have parts of: the metric's position in the job, and the index
/// of the coarse stage. These parts cannot be subtracted, since they may include slots after the head's base.
async fn shared_windows(
    store: &dyn PointStore,
    job: &LateJob,
    done: &[LateDone],
) -> Result<Vec<(usize, usize)>, StoreError> {
    let (mut batch, mut places) = (WriteBatch::default(), Vec::new());
    for (at, (metric, done)) in job.metrics.iter().zip(done).enumerate() {
        for (k, part) in done.open.iter().enumerate() {
            let Some(OpenPart::Folded(_, window)) = part else { continue };
            let slot = metric.base / metric.layout.per[k];
            batch.push(
                metric.layout.run(metric.id, k + 1, slot),
                &[window.value],
                Some(&[window.count.into()]),
            );
            places.push((at, k));
        }
    }
    if batch.runs.is_empty() {
        return Ok(places);
    }
    let before = batch.counts.clone();
    store.subtract_other_writers(&mut batch).await?;
    let mut left = before.iter().zip(&batch.counts).map(|(before, after)| before != after);
    places.retain(|_| left.next().unwrap_or(false));
    Ok(places)
}

/// The late points in the open window of coarse stage `k` + 1, each with the value that it replaces.
fn changes(metric: &LateMetric, needs: &Needs, columns: &[Column], k: usize) -> Vec<(f64, Option<f64>)> {
    let per = metric.layout.per[k];
    let mut known: BTreeMap<u32, f64> = BTreeMap::new();
    let of_window =
        metric.points.iter().filter(|(stage, slot, _)| *stage == 0 && slot / per == metric.base / per);
    let change = |(_, slot, value): &(u8, u32, f64)| {
        let old = known.insert(*slot, *value).or_else(|| stored(needs, columns, 0, *slot));
        (*value, old)
    };
    of_window.map(change).collect()
}

fn needs_of(metric: &LateMetric, request: &mut ReadRequest) -> Needs {
    let mut needs = Needs::default();
    let mut touched: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); metric.layout.coarse() + 1];
    for (stage, slot, _) in &metric.points {
        touched[usize::from(*stage)].insert(*slot);
    }
    for (stage, slots) in touched.iter().enumerate() {
        for (first, end) in bridged(slots) {
            needs.target_ranges.push((stage, first, end, request.ranges.len()));
            request.ranges.push(metric.layout.range(metric.id, stage, first, end));
        }
    }
    for stage in 1..=metric.layout.coarse() {
        let windows: BTreeSet<u32> = (0..stage)
            .flat_map(|finer| touched[finer].iter().map(move |slot| (finer, *slot)))
            .map(|(finer, slot)| slot / metric.layout.ratio(stage, finer))
            .collect();
        for window in windows {
            let ratio = metric.layout.per[stage - 1];
            let is_young = touched[0].iter().any(|slot| slot / ratio == window);
            needs.refolds.push(Refold::new(metric, stage, window, is_young, request));
        }
    }
    needs
}

fn apply(metric: &LateMetric, needs: &Needs, columns: &[Column], rows: &mut WriteBatch) -> LateDone {
    let method = metric.layout.config.aggregation;
    let mut laid: Vec<BTreeMap<u32, Window>> = vec![BTreeMap::new(); metric.layout.coarse() + 1];
    let mut done = LateDone {
        at: metric.at,
        points: metric.points.len() as u32,
        stored: 0,
        open: vec![None; metric.layout.coarse()],
    };
    for (stage, slot, value) in &metric.points {
        let stage = usize::from(*stage);
        let window = if stage == 0 {
            Window { value: *value, count: 1 }
        } else {
            method.window_of(*value, metric.layout.per[stage - 1])
        };
        let again = laid[stage].insert(*slot, window).is_some();
        done.stored += u32::from(!again && !was_known(needs, columns, stage, *slot));
        let open = stage > 0 && *slot == metric.base / metric.layout.per[stage - 1];
        if open {
            done.open[stage - 1] = Some(OpenPart::Folded(0, window));
        }
    }
    for refold in needs.refolds.iter().filter(|refold| !is_replaced(metric, refold)) {
        let (source, window) = refold.fold(&metric.layout, columns, &laid);
        if refold.open {
            done.open[refold.stage - 1] = Some(OpenPart::Folded(source, window));
        } else if window.count > 0 {
            laid[refold.stage].insert(refold.window, window);
        }
    }
    for (stage, slots) in laid.iter().enumerate() {
        push_laid(metric, stage, slots, rows);
    }
    done
}

/// True when the last point of the window is one older than stage 0, which replaces the window.
fn is_replaced(metric: &LateMetric, refold: &Refold) -> bool {
    let lands =
        |(stage, slot, _): &(u8, u32, f64)| usize::from(*stage) == refold.stage && *slot == refold.window;
    let finer = |(stage, slot, _): &(u8, u32, f64)| {
        let stage = usize::from(*stage);
        stage < refold.stage && slot / metric.layout.ratio(refold.stage, stage) == refold.window
    };
    let last = metric.points.iter().rposition(lands);
    last.is_some_and(|last| !metric.points[last + 1..].iter().any(finer))
}

/// Adds the changed slots of a stage to the rows. The open window is left out: the head keeps it.
fn push_laid(metric: &LateMetric, stage: usize, slots: &BTreeMap<u32, Window>, rows: &mut WriteBatch) {
    let open = if stage == 0 { u32::MAX } else { metric.base / metric.layout.per[stage - 1] };
    let slots: Vec<(u32, Window)> = slots.iter().map(|(s, w)| (*s, *w)).filter(|(s, _)| *s != open).collect();
    for run in slots.chunk_by(|a, b| a.0 + 1 == b.0) {
        let values: Vec<f64> = run.iter().map(|(_, w)| w.value).collect();
        let counts: Vec<RowCount> = run.iter().map(|(_, w)| w.count.into()).collect();
        rows.push(metric.layout.run(metric.id, stage, run[0].0), &values, (stage > 0).then_some(&counts));
    }
}

fn was_known(needs: &Needs, columns: &[Column], stage: usize, slot: u32) -> bool {
    stored(needs, columns, stage, slot).is_some()
}

/// The stored value of a slot that a late point falls into.
fn stored(needs: &Needs, columns: &[Column], stage: usize, slot: u32) -> Option<f64> {
    let mut target_ranges = needs.target_ranges.iter();
    let (_, first, _, read) =
        target_ranges.find(|(s, first, end, _)| *s == stage && (*first..*end).contains(&slot))?;
    columns[*read].values.get((slot - first) as usize).copied().filter(|value| !value.is_nan())
}

/// Ranges that contain all these slots and no long gaps.
fn bridged(slots: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &slot in slots {
        match ranges.last_mut() {
            Some((_, end)) if slot - *end <= BRIDGE => *end = slot + 1,
            _ => ranges.push((slot, slot + 1)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plumbago_model::{Aggregation, MetricConfig, MetricId};
    use plumbago_store::memory::MemoryStore;

    use super::*;
    use crate::shard::downsample::MetricLayout;

    /// A start long after a crash may replay a late point whose raw slots have expired since.
    #[tokio::test]
    async fn a_window_outlives_the_slots_it_was_folded_from() {
        let config = MetricConfig {
            retention: "1s:100s,10s:1000s".parse().unwrap(),
            aggregation: Aggregation::Average,
            x_files_factor: 0.0,
        };
        let (layout, id) = (Arc::new(MetricLayout::new(Arc::new(config))), MetricId::of("m"));
        let store = MemoryStore::default();
        let mut stored = WriteBatch::default();
        stored.push(layout.run(id, 1, 50), &[10.0], Some(&[RowCount::new(4)]));
        store.write(&stored).await.unwrap();
        let points = vec![(0, 505, 2.0), (0, 515, 7.0)];
        let late = LateMetric {
            at: 0,
            id,
            layout,
            base: 900,
            now: 900,
            first_sequence: 1,
            segment: 1,
            aged_until: 0,
            points,
        };
        let (rows, _) = compute(&store, &LateJob { metrics: vec![late] }).await.unwrap();
        let windows = rows.runs.iter().find(|run| run.stage_index == 1).unwrap();
        assert_eq!((windows.first_slot, rows.values(windows)), (50, [12.0, 7.0].as_slice()));
        assert_eq!(rows.counts(windows), [5, 1]);
    }
}
