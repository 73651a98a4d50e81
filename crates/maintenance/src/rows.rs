//! The job for rows of metrics that no reader can use. It deletes incomplete and broken rows and lists
//! metrics that are not listed. Rows with settings that it does not understand are left alone, because
//! another program may have written them.

use std::collections::VecDeque;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{MetadataStore, MetricMeta, MetricRow, RowProblem, RowStore, Share, StoreError};
use tokio::time::Instant;

use crate::drive::{Page, Steps, drive, has_settled};
use crate::job::{Context, Job, JobError};
use crate::report::{Report, TOO_YOUNG};

/// How many suspects may wait for their second check. When there are more, the job pauses until some are due.
const SUSPECTS_MAX: usize = 10_000;

/// Deletes the rows of metrics without metadata and broken rows, and lists metrics that are not listed.
#[derive(Debug, Clone)]
pub struct CleanRows {
    /// The rows of the metrics.
    pub rows: Arc<dyn RowStore>,
    /// The store that lists metrics. A creation writes the missing rows of a metric that exists.
    pub metadata: Arc<dyn MetadataStore>,
}

#[boxed_futures]
impl Job for CleanRows {
    fn name(&self) -> &'static str {
        "clean_rows"
    }

    async fn run(&self, context: &Context) -> Result<Report, JobError> {
        drive(self.name(), Cleaning { stores: self.clone(), suspects: VecDeque::new() }, context).await
    }
}

struct Cleaning {
    stores: CleanRows,
    /// Rows to be checked again: when they were found, the *as of* time of their deletion (microseconds since
    /// the epoch), and the name. Oldest first.
    suspects: VecDeque<(Instant, i64, String)>,
}

#[boxed_futures]
impl Steps for Cleaning {
    type Item = MetricRow;

    async fn page(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Page<MetricRow>, StoreError> {
        Ok(self.stores.rows.scan_rows(share, position, limit).await?.into())
    }

    /// The rows of a new metric are written one after the other, so a creation in progress looks like an
    /// interrupted one. Suspects are therefore checked a second time later.
    async fn handle(
        &mut self,
        rows: Vec<MetricRow>,
        context: &Context,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let (now, as_of_us) = (Instant::now(), context.as_of_us());
        for row in rows {
            match (&row.problem, &row.config) {
                (None | Some(RowProblem::NotListed), None) => report.note_kept("unknown_config"),
                (None, Some(_)) => {}
                (Some(_), _) => self.suspects.push_back((now, as_of_us, row.name)),
            }
        }
        Ok(())
    }

    async fn recheck(
        &mut self,
        context: &Context,
        report: &mut Report,
        at_the_end: bool,
    ) -> Result<(), StoreError> {
        while let Some((found, as_of_us, _)) = self.suspects.front() {
            let as_of_us = *as_of_us;
            let waits = at_the_end || self.suspects.len() > SUSPECTS_MAX;
            if !has_settled(*found, context.settle, waits).await {
                return Ok(());
            }
            // All suspects that were found on one page have the same time.
            let together = self.suspects.iter().take_while(|(_, as_of, _)| *as_of == as_of_us).take(1000);
            let names: Vec<String> = together.map(|(.., name)| name.clone()).collect();
            self.judge(&names, as_of_us, context, report).await?;
            self.suspects.drain(..names.len());
        }
        Ok(())
    }
}

impl Cleaning {
    async fn judge(
        &self,
        names: &[String],
        as_of_us: i64,
        context: &Context,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let rows = self.stores.rows.look_up_rows(&names).await?;
        let written = context.live.are_written(&names, as_of_us / 1_000_000).await?;
        let (mut doomed, mut unlisted) = (Vec::new(), Vec::new());
        for (row, written) in rows.iter().zip(written) {
            match decide(row.as_ref(), written) {
                Fate::Stays => report.note_kept("sound_by_now"),
                Fate::Kept => report.note_kept("written"),
                Fate::Goes(kind, name) => doomed.push((kind, name)),
                Fate::Listed(meta) => unlisted.push(meta),
            }
        }
        let left = self.delete(&doomed, as_of_us, context).await?;
        for ((kind, name), left) in doomed.iter().zip(left) {
            if left {
                report.note_kept(TOO_YOUNG);
            } else {
                report.note_done(kind, name);
            }
        }
        if !context.dry_run && !unlisted.is_empty() {
            self.stores.metadata.create(&unlisted).await?;
        }
        unlisted.iter().for_each(|meta| report.note_done("not_listed", &meta.name));
        Ok(())
    }

    /// Deletes rows. Returns for each whether it is still there, because it was written within `grace`.
    async fn delete(
        &self,
        doomed: &[(&str, &str)],
        as_of_us: i64,
        context: &Context,
    ) -> Result<Vec<bool>, StoreError> {
        if context.dry_run || doomed.is_empty() {
            return Ok(vec![false; doomed.len()]);
        }
        let names: Vec<&str> = doomed.iter().map(|(_, name)| *name).collect();
        self.stores.rows.delete_rows(&names, as_of_us).await?;
        let left = self.stores.rows.look_up_rows(&names).await?;
        Ok(left.iter().map(Option::is_some).collect())
    }
}

/// What is done with a suspect at its second check.
enum Fate<'a> {
    /// Nothing: it is sound now, gone, or may be another program's.
    Stays,
    /// Nothing, because it is being written.
    Kept,
    /// It is deleted. Holds the reason and the name.
    Goes(&'static str, &'a str),
    /// It is added to the directory above it.
    Listed(MetricMeta),
}

fn decide(row: Option<&MetricRow>, written: bool) -> Fate<'_> {
    let Some(row) = row else { return Fate::Stays };
    match (&row.problem, &row.config) {
        // Without settings that can be read, it may be another program's metric.
        (None, _) | (Some(RowProblem::NotListed), None) => Fate::Stays,
        (Some(RowProblem::NotListed), Some(config)) => Fate::Listed(MetricMeta {
            name: row.name.clone(),
            config: config.clone(),
            created_on: row.created_on,
        }),
        (Some(_), _) if written => Fate::Kept,
        (Some(RowProblem::NoMetadata), _) => Fate::Goes("no_metadata", &row.name),
        (Some(RowProblem::Broken(_)), _) => Fate::Goes("broken_row", &row.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_stays() {
        let stays = |problem| {
            let row = MetricRow {
                name: "a".to_owned(),
                config: None,
                created_on: 0,
                updated_on: None,
                read_on: None,
                problem,
            };
            matches!(decide(Some(&row), false), Fate::Stays)
        };
        assert!(stays(None) && stays(Some(RowProblem::NotListed)));
        assert!(!stays(Some(RowProblem::Broken("no id".to_owned()))) && !stays(Some(RowProblem::NoMetadata)));
    }
}
