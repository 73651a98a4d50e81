//! Rows of metrics that no reader can use: what is broken goes, what is only not listed is listed. What is
//! only not understood is left to the program that wrote it.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use plumbago_store::{MetadataStore, MetricMeta, MetricRow, RowProblem, RowStore, Share, StoreError};
use tokio::time::Instant;

use crate::drive::{Page, Steps, drive};
use crate::job::{Context, Job, JobError, Report};

/// Suspects that wait to be looked at again; the job waits for them beyond that.
const SUSPECTS_MAX: usize = 10_000;

/// Removes rows without metadata and broken ones, and lists metrics that are not listed.
#[derive(Debug, Clone)]
pub struct CleanRows {
    /// The rows.
    pub rows: Arc<dyn RowStore>,
    /// For listing: it writes what is missing of a metric that is there.
    pub metadata: Arc<dyn MetadataStore>,
}

#[async_trait]
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
    /// Since when it is known, as of when it is deleted, and its name.
    suspects: VecDeque<(Instant, i64, String)>,
}

#[async_trait]
impl Steps for Cleaning {
    type Item = MetricRow;

    async fn page(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Page<MetricRow>, StoreError> {
        let page = self.stores.rows.scan_rows(share, position, limit).await?;
        Ok(Page { items: page.rows, next: page.next })
    }

    /// A creation under way looks like an accident: its rows come one after the other. So suspects are
    /// looked at once more after a time.
    async fn handle(
        &mut self,
        rows: Vec<MetricRow>,
        context: &Context,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let (now, as_of_us) = (Instant::now(), context.as_of_us());
        for row in rows {
            match (&row.problem, &row.config) {
                (None | Some(RowProblem::NotListed), None) => report.note_spared("unknown_config"),
                (None, Some(_)) => {}
                (Some(_), _) => self.suspects.push_back((now, as_of_us, row.name)),
            }
        }
        Ok(())
    }

    async fn settle(
        &mut self,
        context: &Context,
        report: &mut Report,
        at_the_end: bool,
    ) -> Result<(), StoreError> {
        while let Some((found, as_of_us, _)) = self.suspects.front() {
            let (due, as_of_us) = (*found + context.settle, *as_of_us);
            if at_the_end || self.suspects.len() > SUSPECTS_MAX {
                tokio::time::sleep_until(due).await;
            } else if due > Instant::now() {
                return Ok(());
            }
            // Those of one page were found together.
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
        let mut notes: Vec<(&str, &str)> = Vec::new();
        for (row, written) in rows.iter().zip(written) {
            match decide(row.as_ref(), written) {
                Fate::Stays => report.note_spared("sound_by_now"),
                Fate::Spared => report.note_spared("written"),
                Fate::Goes(kind, name) => {
                    doomed.push(name);
                    notes.push((kind, name));
                }
                Fate::Listed(meta) => {
                    notes.push(("not_listed", row.as_ref().map_or("", |row| &row.name)));
                    unlisted.push(meta);
                }
            }
        }
        if !context.dry_run && !doomed.is_empty() {
            self.stores.rows.delete_rows(&doomed, as_of_us).await?;
        }
        if !context.dry_run && !unlisted.is_empty() {
            self.stores.metadata.create(&unlisted).await?;
        }
        notes.iter().for_each(|(kind, name)| report.note_done(kind, name));
        Ok(())
    }
}

/// What becomes of a suspect.
enum Fate<'a> {
    Stays,
    Spared,
    Goes(&'static str, &'a str),
    Listed(MetricMeta),
}

fn decide(row: Option<&MetricRow>, written: bool) -> Fate<'_> {
    let Some(row) = row else { return Fate::Stays };
    match (&row.problem, &row.config) {
        // Without a configuration that we understand it may be another program's metric.
        (None, _) | (Some(RowProblem::NotListed), None) => Fate::Stays,
        (Some(RowProblem::NotListed), Some(config)) => Fate::Listed(MetricMeta {
            name: row.name.clone(),
            config: config.clone(),
            created_on: row.created_on,
        }),
        (Some(_), _) if written => Fate::Spared,
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
            let row =
                MetricRow { name: "a".to_owned(), config: None, created_on: 0, updated_on: None, problem };
            matches!(decide(Some(&row), false), Fate::Stays)
        };
        assert!(stays(None) && stays(Some(RowProblem::NotListed)));
        assert!(!stays(Some(RowProblem::Broken("no id".to_owned()))) && !stays(Some(RowProblem::NoMetadata)));
    }
}
