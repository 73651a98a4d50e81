//! The question `list`: the names of metrics.

use plumbago_boxed_futures::boxed_futures;
use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::idle::{DAY, Unread, silent};
use crate::question::{Question, Rows};
use crate::select::Which;
use crate::verb::{VerbError, Work};

/// Lists metrics.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct List {
    /// Selects the metrics to list.
    pub which: Which,
    /// Selects only metrics without a point for this many seconds; `None` for all.
    pub silent_seconds: Option<u64>,
    /// Selects only metrics that were not read for this many seconds; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_seconds: Option<u64>,
    /// Maximum number of metrics per second; 0 for no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate: u32,
}

/// A metric of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The name of the metric.
    pub name: String,
}

#[boxed_futures]
impl Question for List {
    const NAME: &'static str = "list";
    type Row = Listed;

    fn check(&self) -> Result<(), String> {
        self.which.check()
    }

    fn rate(&self) -> u32 {
        self.rate
    }

    async fn answer(&self, work: &Work, rows: &Rows<Listed>) -> Result<(), VerbError> {
        let mut found = work.names.find(&self.which);
        let unread = match self.unread_seconds {
            Some(seconds) => Some(unread_for(work, seconds).await?),
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

/// The metrics that were not read for this many seconds, if the store has recorded reads for that long.
async fn unread_for(work: &Work, seconds: u64) -> Result<Unread, VerbError> {
    let now = work.context.clock.now();
    let since = now.saturating_sub(i64::try_from(seconds).unwrap_or(i64::MAX));
    match Unread::since(work, since).await? {
        Ok(unread) => Ok(unread),
        Err(noted_since) => {
            let days = (now - noted_since) / DAY;
            Err(VerbError::Invalid(format!(
                "the store has recorded for {days} days only which metrics are read, so it cannot tell what \
                 was unread for {} days; give --unread {days}d or less",
                seconds / DAY as u64
            )))
        }
    }
}
