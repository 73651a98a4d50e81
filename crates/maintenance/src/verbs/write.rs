//! The verb `write`: one point, taken as from a sender, and read back.

use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Stage, sanitize};
use plumbago_store::FetchRequest;
use serde::{Deserialize, Serialize};

use crate::verb::{Verb, VerbError, Work};

/// Writes a point.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The name of the metric, which is created if there is none.
    pub name: String,
    /// The value of the point.
    #[serde(with = "crate::infinite")]
    pub value: f64,
    /// Seconds since the epoch; `None` for now.
    #[serde(default)]
    pub timestamp: Option<i64>,
    /// Whether to find out only where the point would be stored, and write nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Where the point can be read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Written {
    /// The canonical name of the metric.
    pub name: String,
    /// The slot that has the point, in seconds since the epoch.
    pub timestamp: i64,
    /// Seconds between two slots.
    pub step: u32,
    /// What readers see in the slot: in a coarse stage, points are folded.
    #[serde(with = "crate::infinite")]
    pub value: f64,
}

#[boxed_futures]
impl Verb for Write {
    const NAME: &'static str = "write";
    type Answer = Written;

    fn check(&self) -> Result<(), String> {
        if self.value.is_nan() {
            return Err(format!("{} is not a value that can be stored", self.value));
        }
        Ok(())
    }

    async fn run(&self, work: &Work) -> Result<Written, VerbError> {
        let now = work.context.clock.now();
        let timestamp = self.timestamp.unwrap_or(now);
        let seconds = u32::try_from(timestamp)
            .map_err(|_| VerbError::Invalid(format!("{timestamp} is not a time that can be stored")))?;
        if self.dry_run {
            return self.planned(work, timestamp, now).await;
        }
        let name = work.writer.write(&self.name, seconds, self.value).await?;
        if let Some(written) = seen(work, &name, timestamp, now).await? {
            return Ok(written);
        }
        // Says whether the time is outside the retention.
        self.planned(work, timestamp, now).await?;
        Err(VerbError::Failed(format!(
            "{name}: the point at {timestamp} was sent but cannot be read. It is too far in the future, or refused; \
             plumbago_rejected_points_total says why"
        )))
    }
}

impl Write {
    /// Where the point would be.
    async fn planned(&self, work: &Work, timestamp: i64, now: i64) -> Result<Written, VerbError> {
        let name = sanitize(&self.name)
            .map_err(|error| VerbError::Invalid(format!("{:?}: {error}", self.name)))?
            .into_owned();
        let stored = work.stores.metadata.get(&[name.as_str()]).await?.pop().flatten();
        let config = stored.map_or_else(|| work.histories.config_for(&name), |meta| meta.config);
        let reaches = |stage: &&Stage| now.saturating_sub(timestamp) < stage.duration() as i64;
        let stages = config.retention.stages();
        let stage = stages.iter().find(reaches).ok_or_else(|| {
            let retention = config.retention.spelled();
            VerbError::Invalid(format!("{timestamp} is older than the retention {retention} of {name}"))
        })?;
        let slot = timestamp - timestamp.rem_euclid(i64::from(stage.resolution.max(1)));
        Ok(Written { name, timestamp: slot, step: stage.resolution, value: self.value })
    }
}

/// Reads the slot of a point back.
async fn seen(work: &Work, name: &str, timestamp: i64, now: i64) -> Result<Option<Written>, VerbError> {
    let request =
        |from, until| FetchRequest { names: vec![Arc::from(name)], from, until, now, slots_max: usize::MAX };
    // The stage that answers says how long its slots are.
    let Some(series) = work.source.fetch(&request(timestamp - 1, timestamp)).await?.pop() else {
        return Ok(None);
    };
    let step = series.step;
    let slot = timestamp - timestamp.rem_euclid(i64::from(step.max(1)));
    let Some(series) = work.source.fetch(&request(slot - 1, slot)).await?.pop() else { return Ok(None) };
    let at = usize::try_from((slot - series.start) / i64::from(step.max(1))).unwrap_or(usize::MAX);
    let value = series.values.get(at).copied().filter(|value| !value.is_nan());
    Ok(value.map(|value| Written { name: name.to_owned(), timestamp: slot, step, value }))
}
