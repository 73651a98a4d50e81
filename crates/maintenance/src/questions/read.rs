//! The questions `read`: points of metrics, as Graphite shows them or as a stage has them stored.

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricConfig, Stage};
use plumbago_store::{MetricMeta, ReadRequest, ShownSlots, SlotRange};
use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::question::{Question, Rows};
use crate::select::Which;
use crate::verb::{VerbError, Work};

/// Slots that are read at a time.
const SLOTS: u32 = 50_000;
/// Points in a row of the answer.
const POINTS_IN_ROW: usize = 500;

/// Reads metrics as Graphite does: from the finest stage that covers the range, with what is in memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Read {
    /// Selects the metrics to read.
    pub which: Which,
    /// The start of the range in seconds since the epoch, exclusive; `None` for an hour before the end.
    pub from: Option<i64>,
    /// The end of the range in seconds since the epoch, inclusive; `None` for now.
    pub until: Option<i64>,
    /// Maximum number of metrics per second; 0 for no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate: u32,
}

/// Reads the rows of one stage as the store has them. What is still in memory is not there.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReadStage {
    /// The metrics and the range.
    #[serde(flatten)]
    pub read: Read,
    /// The stage: its number, 0 for raw, or its resolution as in `1h`, in seconds.
    pub stage: StageChoice,
}

/// Names a stage of a retention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageChoice {
    /// By its number; 0 is raw.
    Number(u8),
    /// By its resolution in seconds.
    Resolution(u32),
}

impl Default for StageChoice {
    fn default() -> Self {
        Self::Number(0)
    }
}

/// Some points of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Points {
    /// The name of the metric.
    pub name: String,
    /// Seconds between two slots.
    pub step: u32,
    /// Timestamp in seconds since the epoch, value, and with rows as stored the number of raw slots in it.
    #[serde(with = "crate::infinite::points")]
    pub points: Vec<(i64, f64, Option<f64>)>,
}

#[boxed_futures]
impl Question for Read {
    const NAME: &'static str = "read";
    type Row = Points;

    fn check(&self) -> Result<(), String> {
        self.which.check()?;
        match (self.from, self.until) {
            (Some(from), Some(until)) if from >= until => Err("the range ends before it begins".to_owned()),
            _ => Ok(()),
        }
    }

    fn rate(&self) -> u32 {
        self.rate
    }

    async fn answer(&self, work: &Work, rows: &Rows<Points>) -> Result<(), VerbError> {
        let (from, until) = self.range(work);
        let (mut found, mut is_any) = (work.names.find(&self.which), false);
        while let Some(names) = found.recv().await {
            for meta in work.stores.metadata.get(&refs(&names?)).await?.into_iter().flatten() {
                is_any = true;
                let now = work.context.clock.now();
                let Some(stage) = stage_of(&meta.config, now - from) else { continue };
                let mut slots = ShownSlots::new(&*work.source, &meta.name, stage, (from, until));
                while let Some(part) = slots.read_part().await? {
                    work.go_on()?;
                    let points: Vec<_> = part.into_iter().map(|(time, value)| (time, value, None)).collect();
                    send(rows, &meta.name, stage, &points).await?;
                }
            }
        }
        if is_any { Ok(()) } else { Err(VerbError::NotFound) }
    }
}

impl Read {
    fn range(&self, work: &Work) -> (i64, i64) {
        let until = self.until.unwrap_or_else(|| work.context.clock.now());
        (self.from.unwrap_or(until - 3600), until)
    }
}

#[boxed_futures]
impl Question for ReadStage {
    const NAME: &'static str = "read_stage";
    type Row = Points;

    fn check(&self) -> Result<(), String> {
        self.read.check()
    }

    fn rate(&self) -> u32 {
        self.read.rate
    }

    async fn answer(&self, work: &Work, rows: &Rows<Points>) -> Result<(), VerbError> {
        let (from, until) = self.read.range(work);
        let (mut found, mut is_any) = (work.names.find(&self.read.which), false);
        while let Some(names) = found.recv().await {
            for meta in work.stores.metadata.get(&refs(&names?)).await?.into_iter().flatten() {
                is_any = true;
                let Some(at) = self.stage_in(&meta.config) else {
                    return Err(VerbError::Invalid(format!(
                        "{} has no such stage; its retention is {}",
                        meta.name,
                        meta.config.retention.spelled()
                    )));
                };
                stored(work, &meta, at, (from, until), rows).await?;
            }
        }
        if is_any { Ok(()) } else { Err(VerbError::NotFound) }
    }
}

impl ReadStage {
    fn stage_in(&self, config: &MetricConfig) -> Option<usize> {
        let stages = config.retention.stages();
        match self.stage {
            StageChoice::Number(number) => Some(usize::from(number)).filter(|at| *at < stages.len()),
            StageChoice::Resolution(seconds) => stages.iter().position(|stage| stage.resolution == seconds),
        }
    }
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// The stage that answers a request whose range begins `age` seconds before now.
fn stage_of(config: &MetricConfig, age: i64) -> Option<Stage> {
    let at = config.retention.stage_for_age(age.max(0))?;
    config.retention.stages().get(at).copied()
}

async fn send(
    rows: &Rows<Points>,
    name: &str,
    stage: Stage,
    points: &[(i64, f64, Option<f64>)],
) -> Result<(), VerbError> {
    for points in points.chunks(POINTS_IN_ROW) {
        rows.send(Points { name: name.to_owned(), step: stage.resolution, points: points.to_vec() }).await?;
    }
    Ok(())
}

/// Sends the rows of a stage.
async fn stored(
    work: &Work,
    meta: &MetricMeta,
    at: usize,
    (from, until): (i64, i64),
    rows: &Rows<Points>,
) -> Result<(), VerbError> {
    let stage = meta.config.retention.stages()[at];
    let slot = |time: i64| u32::try_from(time.max(0) / i64::from(stage.resolution)).unwrap_or(u32::MAX);
    let range = SlotRange {
        id: meta.id(),
        stage,
        stage_index: at as u8,
        aggregation: meta.config.aggregation,
        from: slot(from).saturating_add(1),
        until: slot(until).saturating_add(1),
    };
    for part in work.stores.points.occupied(&[range], false).await?.into_iter().flatten() {
        let mut next = part.start;
        while next < part.end {
            work.go_on()?;
            let until = part.end.min(next.saturating_add(SLOTS));
            let points = rows_in(work, SlotRange { from: next, until, ..range }).await?;
            send(rows, &meta.name, stage, &points).await?;
            next = until;
        }
    }
    Ok(())
}

/// The rows in some slots: start, value, and number of raw slots in it.
async fn rows_in(work: &Work, range: SlotRange) -> Result<Vec<(i64, f64, Option<f64>)>, VerbError> {
    let request = ReadRequest { ranges: vec![range], ..ReadRequest::default() };
    let mut points = Vec::new();
    for mut column in work.stores.points.read(&request).await? {
        column.merge_writers(range.aggregation);
        for (i, value) in column.values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
            let timestamp = i64::from(range.from + i as u32) * i64::from(range.stage.resolution);
            let count = column.counts.get(i).map_or(1.0, |count| f64::from(count.get()));
            points.push((timestamp, *value, Some(count)));
        }
    }
    Ok(points)
}
