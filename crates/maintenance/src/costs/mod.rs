//! Costs: the biggest directories and tags, the newest metrics, and the metrics that are not written or read.
//! Nothing is changed.
//!
//! One pass reads the rows of all metrics. Only sums, the largest of them and a few names are kept
//! (`docs/decisions/costs.md`).

mod directories;
mod newest;
mod source;
mod tally;
mod top;

use std::sync::Arc;

use plumbago_model::{MetricId, Stage, StorageRules};
use serde::Serialize;
use tokio::time::timeout_at;

use self::source::Source;
use self::tally::{Batch, Tally, counted};
use crate::idle::{DAY, Unread, are_silent};
use crate::select::BiggestTags;
use crate::tester::full::Origin;
use crate::tester::trial::Limits;
use crate::verb::{VerbError, Work};

pub use self::directories::{Biggest, Counts, Directory};
pub use self::newest::Newest;
pub use self::tally::Unused;

/// Largest number of metrics whose points are measured, which means reading them.
const MEASURED_MAX: usize = 2000;

/// The parameters of a question about costs.
#[derive(Debug, Clone)]
pub struct Question {
    /// A metric counts as unused if it was not written or not read for this many days.
    pub days: u32,
    /// How many components below `under` the counted directories are; at least 1.
    pub depth: usize,
    /// Only metrics below this directory; empty for all metrics.
    pub under: String,
    /// Maximum number of rows of each list.
    pub limit: usize,
    /// The tag whose biggest values are requested.
    pub tag: Option<String>,
    /// Whether this process records which metrics are read.
    pub reads_are_noted: bool,
}

impl Question {
    /// The time since which metrics are unused.
    fn since(&self, now: i64) -> i64 {
        now - i64::from(self.days) * DAY
    }
}

/// The tags with the most series, and the values of one tag.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tags {
    /// The tags with the most series.
    pub tags: BiggestTags,
    /// The tag whose values were requested; `None` if no tag was requested.
    pub tag: Option<String>,
    /// The values of that tag with the most series.
    pub values: Option<BiggestTags>,
}

/// The answer to a question about costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Costs {
    /// The counts of all metrics that were checked.
    pub total: Counts,
    /// The counts of the tagged series among them, which are in no directory.
    pub tagged: Counts,
    /// Whether all metrics were checked. If not, the search ended at a limit.
    pub complete: bool,
    /// How the bytes of full stages were determined.
    pub origin: Origin,
    /// The directories with the most bytes.
    pub directories: Biggest,
    /// The newest metrics, newest first.
    pub newest: Vec<Newest>,
    /// Metrics without a point since `since`.
    pub unwritten: Unused,
    /// Metrics that were not read since then; `None` if this is unknown.
    pub unread: Option<Unused>,
    /// Metrics that were neither written nor read since then; `None` if this is unknown.
    pub both: Option<Unused>,
    /// The time since which metrics are unused, in seconds since the epoch.
    pub since: i64,
    /// The time since which reads are recorded, in seconds since the epoch; `None` if that is not known.
    pub reads_noted_since: Option<u32>,
    /// The biggest tags; `None` if this process has no tags in memory.
    pub tags: Option<Tags>,
    /// The parts of the question that cannot be answered, and why.
    pub missing: Vec<String>,
}

/// Computes the costs. Ends early at a limit; the answer says so.
///
/// # Errors
/// If the store cannot be read.
pub async fn measure(
    work: &Work,
    rules: &Arc<StorageRules>,
    question: Question,
    limits: Limits,
) -> Result<Costs, VerbError> {
    let now = work.context.clock.now();
    let since = question.since(now);
    let mut missing = Vec::new();
    let reads_noted_since = work.stores.rows.reads_noted_since().await?;
    let unread = unread(work, &question, now).await?;
    let unread = unread.map_err(|why| missing.push(why)).ok();
    let tags = match tags(work, &question).await {
        Ok(tags) => Some(tags),
        Err(why) => {
            missing.push(why.text());
            None
        }
    };
    let walk = Walk { source: Source::new(work, &question.under), since, unread, room: Some(MEASURED_MAX) };
    let tally = Tally::new(&question, work.sizes.is_some());
    let (tally, complete) = tally_all(tally, walk, work, &question.under, limits).await?;
    let (rules, metadata) = (Arc::clone(rules), Arc::clone(&work.stores.metadata));
    let (found, newest) = aside(move || {
        let mut found = tally.end();
        let newest = newest::with_rules(std::mem::take(&mut found.newest), &rules, &*metadata);
        (found, newest)
    })
    .await?;
    Ok(Costs {
        total: found.total,
        tagged: found.tagged,
        complete,
        origin: if work.sizes.is_some() { Origin::Embedded } else { Origin::Cassandra },
        directories: found.directories,
        newest,
        unwritten: found.unwritten,
        unread: found.unread,
        both: found.both,
        since,
        reads_noted_since,
        tags,
        missing,
    })
}

/// Finds out which metrics are unread, or why this is unknown.
async fn unread(work: &Work, question: &Question, now: i64) -> Result<Result<Unread, String>, VerbError> {
    if !question.reads_are_noted {
        return Ok(Err("the store does not record which metrics are read".to_owned()));
    }
    let unread = Unread::since(work, question.since(now)).await?;
    Ok(unread.map_err(|noted_since| {
        let (noted, asked) = ((now - noted_since) / DAY, question.days);
        format!(
            "reads have been recorded for {noted} days only, so it is not known what was unread for {asked} \
             days"
        )
    }))
}

/// Adds all metrics below a directory. Also returns whether all metrics were seen; if not, a limit ended the
/// pass.
async fn tally_all(
    mut tally: Tally,
    mut walk: Walk,
    work: &Work,
    under: &str,
    limits: Limits,
) -> Result<(Tally, bool), VerbError> {
    loop {
        let Ok(batch) = timeout_at(limits.until, walk.next(work, under)).await else {
            return Ok((tally, false));
        };
        let Some(batch) = batch? else { return Ok((tally, true)) };
        work.go_on()?;
        if batch.rows.is_empty() {
            continue;
        }
        if tally.total.metrics >= limits.metrics_max {
            return Ok((tally, false));
        }
        tally = aside(move || {
            tally.add(batch);
            tally
        })
        .await?;
    }
}

/// Runs work that takes a while on a thread for blocking work.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, VerbError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| VerbError::Failed(error.to_string()))
}

async fn tags(work: &Work, question: &Question) -> Result<Tags, VerbError> {
    let tags = work.names.biggest_tags(None, question.limit).await?;
    let values = match &question.tag {
        Some(tag) => Some(work.names.biggest_tags(Some(tag), question.limit).await?),
        None => None,
    };
    Ok(Tags { tags, tag: question.tag.clone(), values })
}

/// A pass over all rows.
struct Walk {
    source: Source,
    since: i64,
    unread: Option<Unread>,
    /// The number of metrics whose points may still be measured; `None` after there were too many.
    room: Option<usize>,
}

impl Walk {
    /// The next rows below a directory, with their data. `None` at the end.
    async fn next(&mut self, work: &Work, under: &str) -> Result<Option<Batch>, VerbError> {
        let Some(rows) = self.source.next(work).await? else { return Ok(None) };
        let rows = counted(rows, under);
        let unwritten = are_silent(work, &rows, self.since).await?;
        let unread = match self.unread {
            Some(unread) => rows.iter().map(|row| unread.is(row)).collect(),
            None => Vec::new(),
        };
        let metrics = rows.iter().filter_map(|row| {
            let stages = row.config.as_ref()?.retention.stages().to_vec();
            Some((MetricId::of(&row.name), stages))
        });
        let stored = self.stored(work, metrics.collect()).await?;
        Ok(Some(Batch { rows, stored, unwritten, unread }))
    }

    /// The bytes that the points of each metric take; empty if there were too many metrics, or if the store
    /// cannot measure them.
    async fn stored(
        &mut self,
        work: &Work,
        metrics: Vec<(MetricId, Vec<Stage>)>,
    ) -> Result<Vec<u64>, VerbError> {
        self.room = self.room.and_then(|room| room.checked_sub(metrics.len()));
        let (Some(sizes), Some(_)) = (&work.sizes, self.room) else { return Ok(Vec::new()) };
        let sizes = sizes.sizes(&metrics).await?;
        Ok(sizes.into_iter().map(|stages| stages.into_iter().sum()).collect())
    }
}
