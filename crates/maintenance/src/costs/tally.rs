//! Counts rows while a pass reads them.

use plumbago_store::MetricRow;
use serde::Serialize;

use super::Question;
use super::directories::{Biggest, Counts, Directories, Directory};
use super::newest::Created;
use super::source::is_below;
use super::top::Top;
use crate::tester::full::estimate;

/// Number of example metrics for each group.
const EXAMPLES_MAX: usize = 5;

/// Rows, with the data of each.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) rows: Vec<MetricRow>,
    /// The bytes that the points of each metric take; empty if they are not measured.
    pub(super) stored: Vec<u64>,
    pub(super) unwritten: Vec<bool>,
    /// Whether each metric is unread; empty if this is unknown.
    pub(super) unread: Vec<bool>,
}

/// Metrics that nobody writes, or that nobody reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Unused {
    /// The number of these metrics.
    pub metrics: u64,
    /// Names of some of these metrics.
    pub examples: Vec<String>,
    /// The directories with the most of these metrics, largest first.
    pub directories: Vec<Directory>,
}

/// Counts rows.
#[derive(Debug)]
pub(super) struct Tally {
    limit: usize,
    is_embedded: bool,
    pub(super) total: Counts,
    pub(super) tagged: Counts,
    directories: Directories,
    newest: Top<Created>,
    /// Names of metrics that were not written, of those that were not read, and of those to which both apply.
    examples: [Vec<String>; 3],
}

/// The resulting counts.
#[derive(Debug)]
pub(super) struct Tallied {
    pub(super) total: Counts,
    pub(super) tagged: Counts,
    pub(super) directories: Biggest,
    pub(super) newest: Vec<Created>,
    pub(super) unwritten: Unused,
    pub(super) unread: Option<Unused>,
    pub(super) both: Option<Unused>,
}

impl Tally {
    pub(super) fn new(question: &Question, is_embedded: bool) -> Self {
        Self {
            limit: question.limit,
            is_embedded,
            total: Counts::none(),
            tagged: Counts::none(),
            directories: Directories::new(&question.under, question.depth),
            newest: Top::new(question.limit),
            examples: Default::default(),
        }
    }

    /// Counts rows.
    pub(super) fn add(&mut self, batch: Batch) {
        let Batch { rows, stored, unwritten, unread } = batch;
        for (at, row) in rows.into_iter().enumerate() {
            let (is_unwritten, is_unread) = (unwritten.get(at) == Some(&true), unread.get(at).copied());
            let is_both = is_unread.map(|is_unread| is_unread && is_unwritten);
            let bytes = row.config.as_ref().map_or(0, |config| estimate(&config.retention, self.is_embedded));
            let counts = Counts {
                metrics: 1,
                bytes,
                stored_bytes: stored.get(at).copied(),
                unwritten: u64::from(is_unwritten),
                unread: is_unread.map(u64::from),
                both: is_both.map(u64::from),
            };
            self.total.add(&counts);
            if row.name.contains(';') {
                self.tagged.add(&counts);
            } else {
                self.directories.add(&row.name, &counts);
            }
            let is_in = [is_unwritten, is_unread == Some(true), is_both == Some(true)];
            for (examples, _) in self.examples.iter_mut().zip(is_in).filter(|(_, is_in)| *is_in) {
                if examples.len() < EXAMPLES_MAX {
                    examples.push(row.name.clone());
                }
            }
            if let Some(created) = Created::of(row) {
                self.newest.add(created);
            }
        }
    }

    /// The resulting counts.
    pub(super) fn end(self) -> Tallied {
        let (limit, bytes, total) = (self.limit, self.total.bytes, self.total);
        let [unwritten, unread, both] = self.examples;
        let directories = &self.directories;
        let unused = |metrics: u64, examples: Vec<String>, of: fn(&Counts) -> u64| Unused {
            metrics,
            examples,
            directories: directories.greatest(limit, bytes, of),
        };
        Tallied {
            unwritten: unused(total.unwritten, unwritten, unwritten_of),
            unread: total.unread.map(|metrics| unused(metrics, unread, unread_of)),
            both: total.both.map(|metrics| unused(metrics, both, both_of)),
            total,
            tagged: self.tagged,
            directories: directories.biggest(limit, bytes),
            newest: self.newest.into_sorted(),
        }
    }
}

fn unwritten_of(counts: &Counts) -> u64 {
    counts.unwritten
}

fn unread_of(counts: &Counts) -> u64 {
    counts.unread.unwrap_or(0)
}

fn both_of(counts: &Counts) -> u64 {
    counts.both.unwrap_or(0)
}

/// The rows that count: metrics that readers see, below a directory.
pub(super) fn counted(mut rows: Vec<MetricRow>, under: &str) -> Vec<MetricRow> {
    rows.retain(|row| row.problem.is_none() && row.config.is_some() && is_below(&row.name, under));
    rows
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plumbago_model::MetricConfig;
    use plumbago_store::RowProblem;

    use super::*;

    fn row(name: &str, created_on: u32) -> MetricRow {
        MetricRow {
            name: name.to_owned(),
            config: MetricConfig::from_text("60s:86400s average 0.5").map(Arc::new),
            created_on,
            updated_on: None,
            read_on: None,
            problem: None,
        }
    }

    fn question() -> Question {
        Question { days: 90, depth: 1, under: String::new(), limit: 2, tag: None, reads_are_noted: true }
    }

    fn batch(unread: Vec<bool>) -> Batch {
        let rows = vec![row("a.x", 1), row("a.y", 9), row("b.x", 5), row("t;h=1", 7)];
        Batch { rows, stored: vec![10, 20, 30, 40], unwritten: vec![true, true, false, false], unread }
    }

    #[test]
    fn everything_is_counted_once() {
        let mut tally = Tally::new(&question(), true);
        tally.add(batch(vec![true, false, true, false]));
        let found = tally.end();
        let each = 2074;
        assert_eq!(
            found.total,
            Counts {
                metrics: 4,
                bytes: 4 * each,
                stored_bytes: Some(100),
                unwritten: 2,
                unread: Some(2),
                both: Some(1)
            }
        );
        assert_eq!((found.tagged.metrics, found.tagged.stored_bytes), (1, Some(40)));
        let first = &found.directories.rows[0];
        assert_eq!((first.path.as_str(), first.share, first.counts.stored_bytes), ("a", 0.5, Some(30)));
        let newest: Vec<&str> = found.newest.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(newest, ["a.y", "t;h=1"]);
        assert_eq!(found.unwritten.examples, ["a.x", "a.y"]);
        assert_eq!(found.both.unwrap().examples, ["a.x"]);
        let unread = found.unread.unwrap();
        let rows: Vec<&str> = unread.directories.iter().map(|one| one.path.as_str()).collect();
        assert_eq!((unread.metrics, rows), (2, vec!["a", "b"]));
    }

    #[test]
    fn what_nobody_can_tell_is_none() {
        let mut tally = Tally::new(&question(), false);
        tally.add(Batch { stored: Vec::new(), ..batch(Vec::new()) });
        let found = tally.end();
        assert_eq!((found.total.stored_bytes, found.total.unread, found.total.both), (None, None, None));
        assert_eq!(found.total.bytes, 4 * 1440 * 24);
        assert!(found.unread.is_none() && found.both.is_none());
        assert_eq!(found.unwritten.metrics, 2);
    }

    #[test]
    fn rows_that_nobody_sees_do_not_count() {
        let broken = MetricRow { problem: Some(RowProblem::NotListed), ..row("a.z", 1) };
        let foreign = MetricRow { config: None, ..row("a.f", 1) };
        let kept = counted(vec![row("a.x", 1), broken, foreign, row("b.x", 1)], "a");
        assert_eq!(kept.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["a.x"]);
    }
}
