//! Reads all stages of metrics as they are stored.

use std::sync::Arc;

use plumbago_model::{MetricId, Window};
use plumbago_store::{PointStore, ReadRequest, SlotRange, StoreError};

use crate::read::read_merged;
use crate::shard::ALLOWANCE;
use crate::shard::downsample::MetricLayout;
use crate::slots::Stored;

/// About how many slots are read at a time.
const READ_SLOTS: u64 = 1 << 20;

/// A metric all of whose stages are read.
pub(super) struct Whole {
    pub(super) id: MetricId,
    pub(super) layout: Arc<MetricLayout>,
    /// The store has the slots before this one; 0 if that is not known.
    pub(super) base: u32,
}

/// Reads the known slots of each stage of metrics, in pieces. The windows of all writers are merged.
pub(super) async fn read_stages(
    points: &dyn PointStore,
    metrics: &[Whole],
    now: i64,
) -> Result<Vec<Vec<Vec<(u32, Window)>>>, StoreError> {
    let stages = |metric: &Whole| vec![Vec::new(); metric.layout.coarse() + 1];
    let mut found: Vec<Vec<Vec<(u32, Window)>>> = metrics.iter().map(stages).collect();
    let mut pieces: Vec<(usize, usize, SlotRange)> = Vec::new();
    for (at, metric) in metrics.iter().enumerate() {
        for stage in 0..=metric.layout.coarse() {
            pieces.extend(ranges_of(metric, stage, now).into_iter().map(|range| (at, stage, range)));
        }
    }
    let mut rest = pieces.as_slice();
    while !rest.is_empty() {
        let (some, others) = rest.split_at(pieces_at_once(rest));
        let ranges = some.iter().map(|(_, _, range)| *range).collect();
        let request = ReadRequest { ranges, include_retained: true, ..ReadRequest::default() };
        let columns = read_merged(points, &request).await?;
        for ((at, stage, range), column) in some.iter().zip(columns) {
            let stored = Stored { from: range.from, column };
            let slots = (range.from..range.until).map(|slot| (slot, stored.get(slot)));
            found[*at][*stage].extend(slots.filter(|(_, window)| window.count > 0));
        }
        rest = others;
    }
    Ok(found)
}

/// The ranges in which a stage of a metric may have slots.
fn ranges_of(metric: &Whole, stage: usize, now: i64) -> Vec<SlotRange> {
    let layout = &metric.layout;
    let of = layout.stage(stage);
    let seconds = |time: i64| u32::try_from(time.max(0)).unwrap_or(u32::MAX);
    let oldest = of.slot(seconds(now - of.duration() as i64));
    let ahead = of.slot(seconds(now)).saturating_add(ALLOWANCE);
    let base = stage.checked_sub(1).map_or(metric.base, |coarse| metric.base / layout.per[coarse]);
    let until = ahead.max(base.saturating_add(1));
    let mut ranges = Vec::new();
    let mut from = oldest;
    while from < until {
        let end = until.min(from.saturating_add(READ_SLOTS as u32));
        ranges.push(layout.range(metric.id, stage, from, end));
        from = end;
    }
    ranges
}

/// How many of the ranges are read at once.
fn pieces_at_once(pieces: &[(usize, usize, SlotRange)]) -> usize {
    let mut slots = 0;
    let fits = |(_, _, range): &&(usize, usize, SlotRange)| {
        slots += u64::from(range.until - range.from);
        slots <= READ_SLOTS
    };
    pieces.iter().take_while(fits).count().max(1)
}
