//! The jobs for directories: one deletes empty directories, the other creates missing ones.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{DirectoryStore, RowProblem, RowStore, Share, StoreError, directories_above};
use tokio::time::Instant;

use crate::drive::{Page, Steps, drive, has_settled};
use crate::job::{Context, Job, JobError};
use crate::report::{Report, TOO_YOUNG};

/// How many deleted directories may wait for their second check. When there are more, the job pauses until
/// some are due.
const UNSETTLED_MAX: usize = 100_000;

/// How many existing directories `Known` remembers. When it is full, it is cleared.
const KNOWN_MAX: usize = 1_000_000;

/// Deletes directories without a metric below them.
#[derive(Debug, Clone)]
pub struct CleanDirectories(pub Arc<dyn DirectoryStore>);

#[boxed_futures]
impl Job for CleanDirectories {
    fn name(&self) -> &'static str {
        "clean_directories"
    }

    async fn run(&self, context: &Context) -> Result<Report, JobError> {
        drive(self.name(), Cleaning { store: self.0.clone(), unsettled: VecDeque::new() }, context).await
    }
}

struct Cleaning {
    store: Arc<dyn DirectoryStore>,
    /// Deleted directories that have to be checked again, each with the time of its deletion, oldest first.
    unsettled: VecDeque<(Instant, String)>,
}

#[boxed_futures]
impl Steps for Cleaning {
    type Item = String;

    async fn page(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Page<String>, StoreError> {
        let page = self.store.scan_directories(share, position, limit).await?;
        Ok(Page { items: page.names, next: page.next })
    }

    /// Deletes directories. The time of the deletion is taken before the first check, so a directory that a
    /// writer creates later is younger and survives.
    async fn handle(
        &mut self,
        names: Vec<String>,
        context: &Context,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let as_of_us = context.as_of_us();
        let suspects: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| !context.live.is_known_above(name)).collect();
        let occupied = self.store.have_metrics_below(&suspects).await?;
        let mut empty: Vec<&str> =
            suspects.iter().zip(occupied).filter(|(_, occupied)| !occupied).map(|(name, _)| *name).collect();
        if !context.dry_run && !empty.is_empty() {
            self.store.delete_directories(&empty, as_of_us).await?;
            let left = self.store.have_directories(&empty).await?;
            left.iter().filter(|left| **left).for_each(|_| report.note_kept(TOO_YOUNG));
            empty = empty.into_iter().zip(left).filter(|(_, left)| !left).map(|(name, _)| name).collect();
            let now = Instant::now();
            self.unsettled.extend(empty.iter().map(|name| (now, (*name).to_owned())));
        }
        empty.iter().for_each(|name| report.note_done("empty_directory", name));
        Ok(())
    }

    /// A writer may have found a directory just before its deletion, and created a metric in it just after
    /// the check found it empty. Such a directory is created again.
    async fn recheck(
        &mut self,
        context: &Context,
        report: &mut Report,
        at_the_end: bool,
    ) -> Result<(), StoreError> {
        while let Some((deleted, _)) = self.unsettled.front() {
            let waits = at_the_end || self.unsettled.len() > UNSETTLED_MAX;
            if !has_settled(*deleted, context.settle, waits).await {
                return Ok(());
            }
            let now = Instant::now();
            let ripe = self.unsettled.iter().take(1000).take_while(|(at, _)| *at + context.settle <= now);
            let names: Vec<&str> = ripe.map(|(_, name)| name.as_str()).collect();
            let count = names.len();
            let occupied = self.store.have_metrics_below(&names).await?;
            let missed: Vec<&str> =
                names.iter().zip(occupied).filter(|(_, occupied)| *occupied).map(|(name, _)| *name).collect();
            let with_above: BTreeSet<&str> = missed
                .iter()
                .flat_map(|name| std::iter::once(*name).chain(directories_above(name)))
                .collect();
            if !with_above.is_empty() {
                let all: Vec<&str> = with_above.into_iter().collect();
                self.store.create_directories(&all).await?;
            }
            missed.iter().for_each(|_| report.note_kept("came_to_life"));
            self.unsettled.drain(..count);
        }
        Ok(())
    }
}

/// Creates missing directories above metrics.
#[derive(Debug, Clone)]
pub struct RepairDirectories {
    /// The rows of the metrics.
    pub rows: Arc<dyn RowStore>,
    /// The rows of the directories.
    pub directories: Arc<dyn DirectoryStore>,
}

#[boxed_futures]
impl Job for RepairDirectories {
    fn name(&self) -> &'static str {
        "repair_directories"
    }

    async fn run(&self, context: &Context) -> Result<Report, JobError> {
        let known = Known::default();
        drive(self.name(), Repairing { stores: self.clone(), known }, context).await
    }
}

struct Repairing {
    stores: RepairDirectories,
    known: Known,
}

/// Existing directories, as hashes of their names. They save most requests to the store.
#[derive(Default)]
struct Known {
    hasher: foldhash::fast::RandomState,
    hashes: HashSet<u64>,
}

impl Known {
    fn contains(&self, name: &str) -> bool {
        self.hashes.contains(&self.hasher.hash_one(name))
    }

    fn insert(&mut self, name: &str) {
        if self.hashes.len() >= KNOWN_MAX {
            self.hashes.clear();
        }
        self.hashes.insert(self.hasher.hash_one(name));
    }
}

#[boxed_futures]
impl Steps for Repairing {
    type Item = String;

    async fn page(
        &self,
        share: Share,
        position: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Page<String>, StoreError> {
        let page = self.stores.rows.scan_rows(share, position, limit).await?;
        // Metrics that no glob finds need no directories.
        let listed = page
            .rows
            .into_iter()
            .filter(|row| !matches!(row.problem, Some(RowProblem::Broken(_) | RowProblem::NotListed)));
        Ok(Page { items: listed.map(|row| row.name).collect(), next: page.next })
    }

    async fn handle(
        &mut self,
        names: Vec<String>,
        context: &Context,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let wanted: BTreeSet<&str> = names
            .iter()
            .flat_map(|name| directories_above(name))
            .filter(|directory| !self.known.contains(directory))
            .collect();
        let wanted: Vec<&str> = wanted.into_iter().collect();
        let there = self.stores.directories.have_directories(&wanted).await?;
        let missing: Vec<&str> =
            wanted.iter().zip(there).filter(|(_, there)| !there).map(|(name, _)| *name).collect();
        if !context.dry_run && !missing.is_empty() {
            self.stores.directories.create_directories(&missing).await?;
        }
        missing.iter().for_each(|name| report.note_done("missing_directory", name));
        wanted.iter().for_each(|name| self.known.insert(name));
        Ok(())
    }
}
