//! The verb `delete`: removes whole metrics from memory, journal, spool, rows, names and directories, or
//! removes a time range of metrics (`docs/decisions/delete.md`).

mod range;

use std::collections::BTreeSet;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::has_glob;
use plumbago_store::TimeRange;
use serde::{Deserialize, Serialize};

use crate::deletion::{EXAMPLES_MAX, clean_directories, delete_each, make_durable};
use crate::rate::Rate;
use crate::select::{self, Which};
use crate::verb::{Verb, VerbError, Work};

pub use crate::deletion::Deleted;

/// A selection that matches more metrics than this is deleted only on confirmation.
const UNCONFIRMED_MAX: u64 = 1000;

/// Deletes whole metrics, or a time range of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Delete {
    /// Selects the metrics to delete.
    pub which: Which,
    /// Whether to only count the metrics and change nothing.
    pub dry_run: bool,
    /// Whether to delete the metrics whatever their number.
    pub confirmed: bool,
    /// Maximum number of metrics to delete per second; 0 for no limit.
    pub rate: u32,
    /// The start of the range in seconds since the epoch, inclusive. Without start and end, whole metrics are
    /// deleted. With only an end, the range has no start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<i64>,
    /// The end of the range in seconds since the epoch, exclusive; `None` for no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<i64>,
}

#[boxed_futures]
impl Verb for Delete {
    const NAME: &'static str = "delete";
    type Answer = Deleted;

    fn check(&self) -> Result<(), String> {
        self.which.check()?;
        match (self.from.unwrap_or(0), self.until) {
            (from, Some(until)) if from >= until => Err("the range ends before it begins".to_owned()),
            _ => Ok(()),
        }
    }

    async fn run(&self, work: &Work) -> Result<Deleted, VerbError> {
        work.progress.begin("finding metrics", None);
        let mut answer =
            Deleted { metrics: select::count(&*work.names, &self.which).await?, ..Deleted::default() };
        answer.wants_confirmation = !self.dry_run && !self.confirmed && self.is_large(answer.metrics);
        if let Some(range) = self.range()
            && !answer.wants_confirmation
        {
            return range::delete(work, self, range, answer).await;
        }
        if self.dry_run || answer.wants_confirmation {
            let mut first = work.names.find(&self.which);
            if let Some(names) = first.recv().await {
                answer.examples = names?.into_iter().take(EXAMPLES_MAX).collect();
            }
            return Ok(answer);
        }
        work.progress.begin("deleting", Some(answer.metrics));
        answer.metrics = 0;
        let mut rate = Rate::new(self.rate);
        let mut directories = BTreeSet::new();
        let mut found = work.names.find(&self.which);
        let result = loop {
            let Some(names) = found.recv().await else { break Ok(()) };
            if let Err(error) = delete_each(work, &names?, &mut rate, &mut answer, &mut directories).await {
                break Err(error);
            }
        };
        // Directories that became empty go even if the run was cancelled, because the names in them are gone.
        let cleaned = clean_directories(work, directories, &mut answer).await;
        make_durable(work).await?;
        result.and(cleaned).map(|()| answer)
    }
}

impl Delete {
    /// The time range; `None` if whole metrics are deleted.
    fn range(&self) -> Option<TimeRange> {
        let seconds = |time: i64| u32::try_from(time.max(0)).unwrap_or(u32::MAX);
        (self.from.is_some() || self.until.is_some()).then(|| TimeRange {
            from: self.from.map_or(0, seconds),
            until: self.until.map_or(u32::MAX, seconds),
        })
    }

    /// Whether the selection is so large that the command needs a confirmation.
    fn is_large(&self, metrics: u64) -> bool {
        let first = self.which.glob.as_deref().map(|glob| glob.split('.').next().unwrap_or(glob));
        let is_everything =
            first.is_some_and(|first| has_glob(first) && !first.contains(|c: char| c.is_alphanumeric()));
        let is_chosen_one_by_one = self.which.names.is_some();
        metrics > 0 && (is_everything || metrics > UNCONFIRMED_MAX && !is_chosen_one_by_one)
    }
}
