//! The question `info`: the settings, dates and sizes of a metric.

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricConfig, Stage};
use plumbago_store::ShownSlots;
use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::question::{Question, Rows};
use crate::select::Which;
use crate::verb::{VerbError, Work};

/// Shows settings, dates and sizes of metrics.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Info {
    /// Selects the metrics to show.
    pub which: Which,
    /// Maximum number of metrics per second; 0 for no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate: u32,
}

/// The data of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricInfo {
    /// The name of the metric.
    pub name: String,
    /// The id under which the store keeps the points.
    pub id: String,
    /// The retention, like `1m:1w,1h:730d`.
    pub retention: String,
    /// How points are folded into the next stage.
    pub aggregation: String,
    /// The share of a window's slots that must be known, from 0 to 1.
    pub x_files_factor: f64,
    /// When the metric was created, in seconds since the epoch.
    pub created_on: u32,
    /// When a daemon last recorded that the metric is being written, in seconds since the epoch; only on a
    /// shared store.
    pub updated_on: Option<u32>,
    /// When the metric was last read, in seconds since the epoch; `None` if the store has no record of it.
    pub read_on: Option<u32>,
    /// The stages, the finest first.
    pub stages: Vec<StageInfo>,
}

/// The data of a stage of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageInfo {
    /// The stage, like `1m:1w`.
    pub stage: String,
    /// The number of slots that the stage can hold.
    pub slots: u32,
    /// Number of slots with a value, including those that are still in memory.
    pub points: u64,
    /// The time of the first of them, in seconds since the epoch.
    pub first: Option<i64>,
    /// The time of the last of them, in seconds since the epoch.
    pub last: Option<i64>,
    /// The bytes that they take in the store; `None` if the store cannot measure this.
    pub bytes: Option<u64>,
}

#[boxed_futures]
impl Question for Info {
    const NAME: &'static str = "info";
    type Row = MetricInfo;

    fn check(&self) -> Result<(), String> {
        self.which.check()
    }

    fn rate(&self) -> u32 {
        self.rate
    }

    async fn answer(&self, work: &Work, rows: &Rows<MetricInfo>) -> Result<(), VerbError> {
        let (mut found, mut is_any) = (work.names.find(&self.which), false);
        while let Some(names) = found.recv().await {
            for name in names? {
                if let Some(info) = info(work, &name).await? {
                    is_any = true;
                    rows.send(info).await?;
                }
            }
        }
        if is_any { Ok(()) } else { Err(VerbError::NotFound) }
    }
}

/// Looks up a metric; `None` if there is none.
pub(crate) async fn info(work: &Work, name: &str) -> Result<Option<MetricInfo>, VerbError> {
    let Some(meta) = work.stores.metadata.get(&[name]).await?.pop().flatten() else { return Ok(None) };
    let row = work.stores.rows.look_up_rows(&[name]).await?.pop().flatten();
    let MetricConfig { retention, aggregation, x_files_factor } = &*meta.config;
    let stages = retention.stages();
    let bytes = match &work.sizes {
        Some(sizes) => sizes.sizes(&[(meta.id(), stages.to_vec())]).await?.pop(),
        None => None,
    };
    let mut infos = Vec::new();
    for (at, stage) in stages.iter().enumerate() {
        let bytes = bytes.as_ref().and_then(|bytes| bytes.get(at).copied());
        infos.push(StageInfo { bytes, ..stage_info(work, name, *stage).await? });
    }
    Ok(Some(MetricInfo {
        name: name.to_owned(),
        id: meta.id().to_string(),
        retention: retention.spelled(),
        aggregation: aggregation.to_string(),
        x_files_factor: *x_files_factor,
        created_on: meta.created_on,
        updated_on: row.as_ref().and_then(|row| row.updated_on),
        read_on: row.and_then(|row| row.read_on),
        stages: infos,
    }))
}

async fn stage_info(work: &Work, name: &str, stage: Stage) -> Result<StageInfo, VerbError> {
    let slots = stage.points;
    let mut info =
        StageInfo { stage: stage.spelled(), slots, points: 0, first: None, last: None, bytes: None };
    let now = work.context.clock.now();
    let from = now.saturating_sub(stage.duration() as i64).max(0);
    let mut shown = ShownSlots::new(&*work.source, name, stage, (from, now));
    while let Some(part) = shown.read_part().await? {
        work.go_on()?;
        info.points += part.len() as u64;
        info.first = info.first.or(part.first().map(|(time, _)| *time));
        info.last = part.last().map(|(time, _)| *time).or(info.last);
    }
    Ok(info)
}
