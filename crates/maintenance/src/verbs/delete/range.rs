//! Deletes a time range of metrics. Names and settings stay, even for metrics that have no points left.

use plumbago_store::{RangeReport, TimeRange};

use super::Delete;
use crate::deletion::{BUSY_PAUSE, Deleted, EXAMPLES_MAX, blocking, retry};
use crate::rate::Rate;
use crate::verb::{VerbError, Work};

/// Number of metrics that are handled together. They are blocked meanwhile.
const BATCH: usize = 100;
/// How often the deletion is tried again for a metric whose points are still on their way to the store. Each
/// attempt waits some seconds.
const BUSY_TRIES: u32 = 8;

/// Deletes the range, or counts its points.
///
/// # Errors
///
/// See [`VerbError`].
pub(super) async fn delete(
    work: &Work,
    verb: &Delete,
    range: TimeRange,
    mut answer: Deleted,
) -> Result<Deleted, VerbError> {
    let phase = if verb.dry_run { "counting points" } else { "deleting points" };
    work.progress.begin(phase, Some(answer.metrics));
    answer.metrics = 0;
    let mut rate = Rate::new(verb.rate);
    let mut found = work.names.find(&verb.which);
    let mut result = Ok(());
    while let Some(names) = found.recv().await
        && result.is_ok()
    {
        result = delete_each(work, &names?, range, verb.dry_run, &mut rate, &mut answer).await;
    }
    if let Some(flush) = work.stores.states.clone().filter(|_| !verb.dry_run) {
        blocking("make the deletion durable", move || flush.sync()).await?;
    }
    result.map(|()| answer)
}

async fn delete_each(
    work: &Work,
    names: &[String],
    range: TimeRange,
    dry_run: bool,
    rate: &mut Rate,
    answer: &mut Deleted,
) -> Result<(), VerbError> {
    for names in names.chunks(rate.step(BATCH)) {
        rate.take(names.len()).await;
        let mut left: Vec<&str> = names.iter().map(String::as_str).collect();
        for _ in 0..BUSY_TRIES {
            work.go_on()?;
            let reports = retry(|| work.histories.delete_range(&left, range, dry_run)).await?;
            let mut busy = Vec::new();
            for (name, report) in left.into_iter().zip(reports) {
                if report.is_busy { busy.push(name) } else { note(work, name, &report, answer) }
            }
            left = busy;
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
        if let Some(name) = left.first() {
            let text = format!(
                "points of {} metrics, such as {name}, cannot be written to the store, so their range \
                 cannot be deleted; repair the store and run the same command again",
                left.len()
            );
            return Err(VerbError::Failed(text));
        }
    }
    Ok(())
}

fn note(work: &Work, name: &str, report: &RangeReport, answer: &mut Deleted) {
    work.progress.add(1);
    if !report.exists {
        return;
    }
    answer.metrics += 1;
    answer.points += report.points;
    answer.windows += report.windows;
    answer.folded += report.folded;
    answer.kept += report.kept;
    if answer.examples.len() < EXAMPLES_MAX {
        answer.examples.push(name.to_owned());
    }
}
