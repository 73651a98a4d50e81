//! The size of the stages of a metric when they are full.

use plumbago_model::{Retention, Stage};
use serde::Serialize;

use crate::questions::du;
use crate::questions::info::{self, StageInfo};
use crate::verb::{VerbError, Work};

/// Size in bytes of a raw point and of a window in the embedded store, after merging (`docs/measurements.md`).
const EMBEDDED: [f64; 2] = [1.44, 5.08];
/// With fewer points, a metric is not measured: they do not predict the size of later points, because each
/// block adds bytes of its own.
const MEASURED_LEAST: u64 = 500;
/// Largest number of slots that are read to measure a metric.
const MEASURED_MOST: u64 = 2_000_000;

/// How the bytes of a point were determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// By measuring the points of the metric in the embedded store.
    Measured,
    /// By measurements of other metrics in an embedded store.
    Embedded,
    /// By BigGraphite's estimate for a point in Cassandra's tables.
    Cassandra,
}

/// A stage when all its slots have a value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FullStage {
    /// The stage, like `1m:1w`.
    pub stage: String,
    /// Seconds between two slots.
    pub resolution: u32,
    /// The number of its slots.
    pub slots: u32,
    /// The time that the stage covers, in seconds.
    pub seconds: u64,
    /// The size of the slots in bytes.
    pub bytes: u64,
    /// How this size was determined.
    pub origin: Origin,
}

/// Computes the size of a metric with this retention in the store when its stages are full. If the metric
/// exists and has enough points, they are measured.
///
/// # Errors
/// If the store cannot be read.
pub async fn full(work: &Work, name: &str, retention: &Retention) -> Result<Vec<FullStage>, VerbError> {
    let measured = measured(work, name).await?;
    let stage = |(at, stage): (usize, &Stage)| {
        let role = at.min(1);
        let (bytes, origin) = match (work.sizes.is_some(), measured[role]) {
            (false, _) => (du::POINT_BYTES as f64, Origin::Cassandra),
            (true, Some(bytes)) => (bytes, Origin::Measured),
            (true, None) => (EMBEDDED[role], Origin::Embedded),
        };
        FullStage {
            stage: stage.spelled(),
            resolution: stage.resolution,
            slots: stage.points,
            seconds: stage.duration(),
            bytes: (f64::from(stage.points) * bytes).round() as u64,
            origin,
        }
    };
    Ok(retention.stages().iter().enumerate().map(stage).collect())
}

/// Estimates the size of a metric with this retention in the embedded store, or in Cassandra, when its stages
/// are full. Reads nothing.
pub(crate) fn estimate(retention: &Retention, is_embedded: bool) -> u64 {
    let stages = retention.stages().iter().enumerate();
    let bytes = stages.map(|(at, stage)| {
        let each = if is_embedded { EMBEDDED[at.min(1)] } else { du::POINT_BYTES as f64 };
        f64::from(stage.points) * each
    });
    bytes.sum::<f64>().round() as u64
}

/// The bytes that a raw point and a window of a metric take; `None` if it has too few of them, or too many to
/// read.
async fn measured(work: &Work, name: &str) -> Result<[Option<f64>; 2], VerbError> {
    let none = [None, None];
    if work.sizes.is_none() {
        return Ok(none);
    }
    let Some(meta) = work.stores.metadata.get(&[name]).await?.pop().flatten() else { return Ok(none) };
    let slots: u64 = meta.config.retention.stages().iter().map(|stage| u64::from(stage.points)).sum();
    if slots > MEASURED_MOST {
        return Ok(none);
    }
    let Some(info) = info::info(work, name).await? else { return Ok(none) };
    let (raw, windows) = info.stages.split_at(info.stages.len().min(1));
    Ok([of_each(raw), of_each(windows)])
}

fn of_each(stages: &[StageInfo]) -> Option<f64> {
    let points: u64 = stages.iter().map(|stage| stage.points).sum();
    let bytes: u64 = stages.iter().filter_map(|stage| stage.bytes).sum();
    (points >= MEASURED_LEAST && bytes > 0).then(|| bytes as f64 / points as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_stages_are_estimated() {
        let retention: Retention = "60s:1d,1h:30d".parse().unwrap();
        assert_eq!(estimate(&retention, true), 5731, "1440 times 1.44 and 720 times 5.08");
        assert_eq!(estimate(&retention, false), 24 * (1440 + 720));
    }

    #[test]
    fn few_points_measure_nothing() {
        let stage = |points, bytes| StageInfo {
            stage: "1m:1d".to_owned(),
            slots: 1440,
            points,
            first: None,
            last: None,
            bytes,
        };
        assert_eq!(of_each(&[]), None);
        assert_eq!(of_each(&[stage(1000, None)]), None);
        assert_eq!(of_each(&[stage(499, Some(1000))]), None);
        assert_eq!(of_each(&[stage(400, Some(1000)), stage(100, Some(500))]), Some(3.0));
    }
}
