//! Divides the points by series.

use std::collections::HashSet;

use plumbago_kairosdb::history::Entry;
use plumbago_kairosdb::names;

use super::report::{ImportKairosdbReport, reason};
use super::scratch::{Position, Scratch};
use crate::kairosdb::ImportKairosdb;
use crate::skipped::Skipped;
use crate::verb::{VerbError, Work};

/// A killed run can continue from a position that is saved after each this many points.
const CHECKPOINT_POINTS: u64 = 16 << 20;

/// Receives points and writes them to the parts of their series.
pub(super) struct Splitter {
    scratch: Scratch,
    skipped: Skipped,
    filter: Filter,
    pub(super) work: Work,
    since_checkpoint: u64,
}

/// Which points are imported.
struct Filter {
    /// The start in milliseconds since the epoch.
    from: i64,
    until: i64,
    /// The metrics, as they appear in names; empty for all.
    metrics: HashSet<String>,
}

impl Filter {
    fn new(plan: &ImportKairosdb) -> Self {
        let ms = |time: i64| time.saturating_mul(1000);
        Self {
            from: plan.from.map_or(i64::MIN, ms),
            until: plan.until.map_or(i64::MAX, ms),
            metrics: plan.metrics.iter().map(|metric| names::metric(metric).into_owned()).collect(),
        }
    }

    /// Removes the points that are not imported. Returns their number.
    fn apply(&self, entry: &mut Entry) -> u64 {
        let before = entry.points.len();
        let metric = entry.name.split(';').next().unwrap_or_default();
        if self.metrics.is_empty() || self.metrics.contains(metric) {
            entry.points.retain(|point| (self.from..self.until).contains(&point.time_ms));
        } else {
            entry.points.clear();
            entry.not_kept.clear();
        }
        (before - entry.points.len()) as u64
    }
}

impl Splitter {
    pub(super) fn new(plan: &ImportKairosdb, scratch: Scratch, work: &Work) -> Result<Self, VerbError> {
        let goes_on = scratch.state().position != Position::default();
        let skipped = Skipped::open(plan.skipped.as_deref(), goes_on)?;
        Ok(Self { scratch, skipped, filter: Filter::new(plan), work: work.clone(), since_checkpoint: 0 })
    }

    /// Where reading continues.
    pub(super) fn position(&self) -> Position {
        self.scratch.state().position
    }

    pub(super) fn report(&mut self) -> &mut ImportKairosdbReport {
        self.scratch.report()
    }

    /// Takes the points of an entry. `is_unlisted` says that they belong to a storage row that no index
    /// lists; this row is counted.
    pub(super) fn take(&mut self, mut entry: Entry, is_unlisted: bool) -> Result<(), VerbError> {
        if entry.name.is_empty() {
            return Ok(());
        }
        let read = entry.points.len() as u64;
        let outside = self.filter.apply(&mut entry);
        let report = self.scratch.report();
        report.entries += 1;
        report.points += read;
        report.outside += outside;
        report.cut += entry.points.iter().filter(|point| point.time_ms % 1000 != 0).count() as u64;
        report.rounded += entry.rounded;
        report.with_ttl += entry.with_ttl;
        report.unlisted_rows += u64::from(is_unlisted);
        for (kind, count) in &entry.not_kept {
            *report.not_kept.entry(kind.clone()).or_default() += count;
        }
        for (why, count) in &entry.refused {
            *report.refused.entry(reason(*why).to_owned()).or_default() += count;
        }
        if entry.points.is_empty() && entry.not_kept.is_empty() && !is_unlisted {
            return Ok(());
        }
        self.scratch.write(&entry, is_unlisted)?;
        self.since_checkpoint += read;
        self.work.progress.add(read);
        Ok(())
    }

    /// Notes an entry that cannot be read.
    pub(super) fn skip(&mut self, reason: &str, what: &str, why: &str) -> Result<(), VerbError> {
        self.skipped.note(&mut self.scratch.report().skips, reason, what, why)
    }

    /// Whether enough points were taken since the last checkpoint to make another one.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        self.since_checkpoint >= CHECKPOINT_POINTS
    }

    /// Makes sure that a run that is killed from here on continues at `position`.
    pub(super) fn checkpoint(&mut self, position: Position) -> Result<(), VerbError> {
        self.since_checkpoint = 0;
        self.skipped.flush()?;
        self.scratch.checkpoint(position)
    }

    /// Ends the division.
    pub(super) fn finish(mut self) -> Result<Scratch, VerbError> {
        self.skipped.flush()?;
        self.scratch.finish_split()?;
        Ok(self.scratch)
    }
}
