//! Reads all stages of metrics as they are stored.

use std::sync::Arc;

use plumbago_model::{MetricId, Window};
use plumbago_store::{PointStore, SlotRange, StoreError};

use crate::shard::ALLOWANCE;
use crate::shard::downsample::MetricLayout;
use crate::slots::{Stored, read_pieces};

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
    let (mut places, mut ranges) = (Vec::new(), Vec::new());
    for (at, metric) in metrics.iter().enumerate() {
        for stage in 0..=metric.layout.coarse() {
            places.push((at, stage));
            ranges.push(range_of(metric, stage, now));
        }
    }
    let mut add = |place: usize, piece: Stored| {
        let (at, stage) = places[place];
        found[at][stage].extend(piece.iter());
    };
    read_pieces(points, &ranges, &mut add).await?;
    Ok(found)
}

/// The range in which a stage of a metric may have slots.
fn range_of(metric: &Whole, stage: usize, now: i64) -> SlotRange {
    let layout = &metric.layout;
    let of = layout.stage(stage);
    let seconds = |time: i64| u32::try_from(time.max(0)).unwrap_or(u32::MAX);
    let oldest = of.slot(seconds(now - of.duration() as i64));
    let ahead = of.slot(seconds(now)).saturating_add(ALLOWANCE);
    let base = stage.checked_sub(1).map_or(metric.base, |coarse| metric.base / layout.per[coarse]);
    layout.range(metric.id, stage, oldest, ahead.max(base.saturating_add(1)).max(oldest))
}
