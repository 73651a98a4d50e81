//! The question `list`: the names of metrics.

use async_trait::async_trait;
use plumbago_store::MetricRow;
use serde::{Deserialize, Serialize};

use crate::expire::have_points;
use crate::question::{Question, Rows};
use crate::select::Which;
use crate::verb::{VerbError, Work};

/// Metrics that are looked up in one request.
const LOOKED_UP: usize = 1000;
const DAY: i64 = 86_400;

/// Lists metrics.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct List {
    /// The metrics.
    pub which: Which,
    /// Only metrics without a point for this many seconds; `None` for all.
    pub silent_seconds: Option<u64>,
    /// Only metrics that nobody has read for this many seconds; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_seconds: Option<u64>,
}

/// A metric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
}

#[async_trait]
impl Question for List {
    const NAME: &'static str = "list";
    type Row = Listed;

    fn check(&self) -> Result<(), String> {
        self.which.check()
    }

    async fn answer(&self, work: &Work, rows: &Rows<Listed>) -> Result<(), VerbError> {
        let mut found = work.names.find(&self.which);
        let unread = match self.unread_seconds {
            Some(seconds) => Some(Unread::new(work, seconds).await?),
            None => None,
        };
        if self.silent_seconds.is_some() || unread.is_some() {
            work.progress.begin("metrics looked at", None);
        }
        while let Some(names) = found.recv().await {
            let names = names?;
            let count = names.len() as u64;
            let names = match self.silent_seconds {
                Some(seconds) => silent(work, names, seconds).await?,
                None => names,
            };
            let names = match &unread {
                Some(unread) => unread.of(work, names).await?,
                None => names,
            };
            for name in names {
                rows.send(Listed { name }).await?;
            }
            work.progress.add(count);
        }
        Ok(())
    }
}

/// What makes a metric unread.
struct Unread {
    /// It was not read since this time, in seconds since the epoch.
    since: i64,
}

impl Unread {
    async fn new(work: &Work, seconds: u64) -> Result<Self, VerbError> {
        let now = work.context.clock.now();
        let since = now.saturating_sub(i64::try_from(seconds).unwrap_or(i64::MAX));
        let noted_since = work.stores.rows.reads_noted_since().await?.map_or(0, i64::from);
        if noted_since > since {
            let days = (now - noted_since) / DAY;
            return Err(VerbError::Invalid(format!(
                "the store has noted which metrics are read for {days} days only, so it cannot tell what was unread \
                 for {} days; give --unread {days}d or less",
                seconds / DAY as u64
            )));
        }
        Ok(Self { since })
    }

    /// Those of the metrics that nobody has read since then. A metric without a note counts as read when it was created.
    async fn of(&self, work: &Work, names: Vec<String>) -> Result<Vec<String>, VerbError> {
        let mut unread = Vec::new();
        for names in names.chunks(LOOKED_UP) {
            let all: Vec<&str> = names.iter().map(String::as_str).collect();
            let rows = work.stores.rows.look_up_rows(&all).await?.into_iter().flatten();
            // A store may keep the day only.
            let read = |row: &MetricRow| row.read_on.map_or(0, |time| i64::from(time) + DAY - 1);
            let last = |row: &MetricRow| read(row).max(i64::from(row.created_on));
            unread.extend(rows.filter(|row| last(row) < self.since).map(|row| row.name));
        }
        Ok(unread)
    }
}

/// Those of the metrics that neither memory nor the store has points of, in this time before now.
async fn silent(work: &Work, names: Vec<String>, seconds: u64) -> Result<Vec<String>, VerbError> {
    let now = work.context.clock.now();
    let since = now.saturating_sub(i64::try_from(seconds).unwrap_or(i64::MAX));
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let written = work.context.live.are_written(&all, since).await?;
    let quiet: Vec<&str> =
        all.iter().zip(written).filter(|(_, written)| !written).map(|(name, _)| *name).collect();
    let mut silent = Vec::new();
    for names in quiet.chunks(100) {
        let known = work.stores.metadata.get(names).await?;
        let metrics = known.iter().flatten().map(|meta| (meta.id(), &*meta.config));
        let has_points = have_points(&*work.stores.points, metrics, since, now).await?;
        let silent_ones = known.into_iter().flatten().zip(has_points).filter(|(_, has_points)| !has_points);
        silent.extend(silent_ones.map(|(meta, _)| meta.name));
    }
    Ok(silent)
}
