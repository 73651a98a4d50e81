//! Counts what is below each directory, in bounded memory.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::Serialize;

use super::top::Top;

/// Largest number of directories that are counted at the same time. When there are more, the smaller half is
/// dropped.
const COUNTED_MAX: usize = 100_000;

/// The costs of metrics, and how many of them are unused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The number of metrics.
    pub metrics: u64,
    /// The estimated size of the metrics when all their stages are full, in bytes.
    pub bytes: u64,
    /// The present size of their points in the store, in bytes, as `du` measures it; `None` if there are too
    /// many metrics to measure, or the store cannot measure them.
    pub stored_bytes: Option<u64>,
    /// Number of metrics that were not written.
    pub unwritten: u64,
    /// Number of metrics that were not read; `None` if this is unknown.
    pub unread: Option<u64>,
    /// Number of metrics that were neither written nor read; `None` if this is unknown.
    pub both: Option<u64>,
}

impl Counts {
    /// Adds the costs of other metrics. If a number is unknown for one of them, it is unknown for the sum.
    pub(super) fn add(&mut self, other: &Self) {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        self.metrics += other.metrics;
        self.bytes += other.bytes;
        self.stored_bytes = sum(self.stored_bytes, other.stored_bytes);
        self.unwritten += other.unwritten;
        self.unread = sum(self.unread, other.unread);
        self.both = sum(self.both, other.both);
    }

    /// The counts without any metric.
    pub(super) fn none() -> Self {
        Self { stored_bytes: Some(0), unread: Some(0), both: Some(0), ..Self::default() }
    }
}

/// A directory, with the costs of the metrics in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Directory {
    /// The path; empty for the top.
    pub path: String,
    /// Whether only the metrics directly in it are counted, because it is less deep than requested.
    pub direct: bool,
    /// The share of all bytes, from 0 to 1.
    pub share: f64,
    /// The costs of the metrics in it.
    #[serde(flatten)]
    pub counts: Counts,
}

/// The directories with the most bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Biggest {
    /// The directories with the most bytes, largest first.
    pub rows: Vec<Directory>,
    /// The number of counted directories. If `cut`, a dropped directory that was found again counts twice.
    pub total: u64,
    /// Whether there were too many directories to count at the same time. In that case small ones were
    /// dropped, and a directory may have more than its row says.
    pub cut: bool,
}

/// Counts what is below directories.
#[derive(Debug)]
pub(super) struct Directories {
    under: String,
    depth: usize,
    counted_max: usize,
    /// Directories that count everything below them, and directories that count only the metrics directly in
    /// them.
    counted: [HashMap<String, Counts>; 2],
    dropped: u64,
}

impl Directories {
    /// Directories that are `depth` components below `under` ("" for the top).
    pub(super) fn new(under: &str, depth: usize) -> Self {
        let counted = [HashMap::new(), HashMap::new()];
        Self { under: under.to_owned(), depth, counted_max: COUNTED_MAX, counted, dropped: 0 }
    }

    /// Adds a metric below [`Self::new`]'s `under`.
    pub(super) fn add(&mut self, name: &str, counts: &Counts) {
        let (path, direct) = directory_of(name, &self.under, self.depth);
        let counted = &mut self.counted[usize::from(direct)];
        if let Some(known) = counted.get_mut(path) {
            known.add(counts);
            return;
        }
        counted.insert(path.to_owned(), *counts);
        if counted.len() > self.counted_max {
            self.dropped += keep_largest(counted, self.counted_max / 2);
        }
    }

    /// The directories with the most bytes, and their share of all bytes.
    pub(super) fn biggest(&self, limit: usize, bytes: u64) -> Biggest {
        let total = self.counted.iter().map(|counted| counted.len() as u64).sum::<u64>() + self.dropped;
        Biggest { rows: self.greatest(limit, bytes, |counts| counts.bytes), total, cut: self.dropped > 0 }
    }

    /// The directories with the largest values of a number, in descending order, without those for which it
    /// is 0.
    pub(super) fn greatest(&self, limit: usize, bytes: u64, of: impl Fn(&Counts) -> u64) -> Vec<Directory> {
        let mut top = Top::new(limit);
        for (direct, counted) in [false, true].into_iter().zip(&self.counted) {
            for (path, counts) in counted {
                let number = of(counts);
                if number > 0 {
                    // Of equal directories, the first in alphabetical order wins.
                    top.add((number, Reverse((path, direct))));
                }
            }
        }
        let directory = |(_, Reverse((path, direct))): (u64, Reverse<(&String, bool)>)| {
            let counts = self.counted[usize::from(direct)].get(path).copied().unwrap_or_default();
            let share = if bytes == 0 { 0.0 } else { counts.bytes as f64 / bytes as f64 };
            Directory { path: path.clone(), direct, share, counts }
        };
        top.into_sorted().into_iter().map(directory).collect()
    }
}

/// The directory that counts a metric: `depth` components below `under`. Also returns whether the metric is
/// directly in a directory that is less deep.
fn directory_of<'a>(name: &'a str, under: &str, depth: usize) -> (&'a str, bool) {
    let from = if under.is_empty() { 0 } else { under.len() + 1 };
    let below = name.get(from..).unwrap_or_default();
    match below.match_indices('.').nth(depth.saturating_sub(1)) {
        Some((at, _)) => (&name[..from + at], false),
        None => (name.rfind('.').map_or("", |at| &name[..at]), true),
    }
}

/// Keeps the largest directories, at most this many, and returns how many were dropped.
fn keep_largest(counted: &mut HashMap<String, Counts>, kept: usize) -> u64 {
    let before = counted.len();
    let mut sizes: Vec<u64> = counted.values().map(|counts| counts.bytes).collect();
    if kept >= sizes.len() {
        return 0;
    }
    let (greater, least, _) = sizes.select_nth_unstable_by(kept, |one, other| other.cmp(one));
    let least = *least;
    let mut room = kept - greater.iter().filter(|bytes| **bytes > least).count();
    counted.retain(|_, counts| {
        let fits = counts.bytes == least && room > 0;
        room -= usize::from(fits);
        fits || counts.bytes > least
    });
    (before - counted.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(metrics: u64, bytes: u64) -> Counts {
        Counts { metrics, bytes, unread: None, both: None, ..Counts::none() }
    }

    fn rows(found: &[Directory]) -> Vec<(&str, bool, u64)> {
        found.iter().map(|one| (one.path.as_str(), one.direct, one.counts.bytes)).collect()
    }

    #[test]
    fn a_metric_counts_for_its_directory() {
        assert_eq!(directory_of("a.b.c", "", 1), ("a", false));
        assert_eq!(directory_of("a.b.c", "", 2), ("a.b", false));
        assert_eq!(directory_of("a.b.c", "", 3), ("a.b", true));
        assert_eq!(directory_of("a.b.c", "a", 1), ("a.b", false));
        assert_eq!(directory_of("a.b", "a", 1), ("a", true));
        assert_eq!(directory_of("a", "", 1), ("", true));
    }

    #[test]
    fn the_biggest_come_first_with_their_share() {
        let mut directories = Directories::new("", 1);
        for (name, bytes) in [("a.x", 1), ("b.x.y", 50), ("a.y", 2), ("c.x", 3), ("top", 44)] {
            directories.add(name, &counts(1, bytes));
        }
        let found = directories.biggest(3, 100);
        assert_eq!(rows(&found.rows), [("b", false, 50), ("", true, 44), ("a", false, 3)]);
        assert_eq!((found.rows[0].share, found.total, found.cut), (0.5, 4, false));
        assert_eq!((found.rows[2].counts.metrics, found.rows[2].counts.unread), (2, None));
        assert!(directories.greatest(3, 100, |counts| counts.unwritten).is_empty());
    }

    #[test]
    fn small_directories_are_dropped_when_there_are_too_many() {
        let mut directories = Directories { counted_max: 10, ..Directories::new("", 1) };
        for number in 0..40_u64 {
            directories.add(&format!("d{number:02}.x"), &counts(1, 100 - number));
        }
        let found = directories.biggest(2, 1000);
        assert_eq!(rows(&found.rows), [("d00", false, 100), ("d01", false, 99)]);
        assert_eq!((found.total, found.cut), (40, true));
        assert!(directories.counted[0].len() <= 10);
    }

    #[test]
    fn equal_directories_are_dropped_in_part() {
        let mut counted: HashMap<String, Counts> =
            (0..10).map(|number| (number.to_string(), counts(1, 7))).collect();
        counted.insert("big".to_owned(), counts(1, 9));
        assert_eq!(keep_largest(&mut counted, 4), 7);
        assert!(counted.contains_key("big") && counted.len() == 4);
        assert_eq!(keep_largest(&mut counted, 4), 0);
    }
}
