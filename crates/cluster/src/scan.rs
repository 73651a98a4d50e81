//! Decides when which part of all names is read again. A round reads each part once. Its parts are spread
//! over an interval, and a round may begin with any of them.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

use plumbago_store::Share;
use tokio::time::Instant;

use crate::PAGE;

/// How often all names are reread if names change without being announced, because another program creates
/// them too.
const WITH_OTHERS: Duration = Duration::from_secs(3600);
/// How often all names are reread if all changes are announced in the change feed.
const WITH_FEED: Duration = Duration::from_secs(6 * 3600);
/// How often all names are reread if there is no change feed.
const WITHOUT_FEED: Duration = Duration::from_secs(300);
/// Parts of a round if the number of names is not known.
const FIRST_PARTS: u32 = 64;
/// Smallest and largest number of parts of a round.
const PARTS: std::ops::RangeInclusive<u32> = 4..=1024;

/// Returns how often all names are reread.
pub(crate) fn interval(has_feed: bool, has_others: bool) -> Duration {
    match (has_feed, has_others) {
        (false, _) => WITHOUT_FEED,
        (true, true) => WITH_OTHERS,
        (true, false) => WITH_FEED,
    }
}

/// Why names may be missing in the shared store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Another program deleted them.
    Deleted,
    /// A server that has returned lost them.
    Lost,
}

/// A round over all names.
#[derive(Debug)]
pub(crate) struct Round {
    /// The part that is read next, and the total number of parts.
    part: (u32, u32),
    /// The number of parts that were read.
    done: u32,
    /// When the round began, in seconds since the epoch.
    pub(crate) began: i64,
    /// Whether the parts are read one after the other, without pauses.
    pub(crate) is_urgent: bool,
    pub(crate) missing: Missing,
    /// The names that were found so far.
    pub(crate) seen: SeenNames,
    due: Instant,
}

impl Round {
    /// Begins a round whose first part is due at once. `part` is the part with which it begins, and the total
    /// number of parts.
    pub(crate) fn new(part: (u32, u32), began: i64) -> Self {
        let part = if part.1 == 0 { (0, FIRST_PARTS) } else { part };
        let (seen, due) = (SeenNames::default(), Instant::now());
        Self { part, done: 0, began, is_urgent: false, missing: Missing::Deleted, seen, due }
    }

    /// Begins a round that reads all names at once.
    pub(crate) fn urgent(&self, missing: Missing, began: i64) -> Self {
        Self { is_urgent: true, missing, ..Self::new(self.part, began) }
    }

    /// Begins the next round, whose parts have about one page each.
    pub(crate) fn next(&self, began: i64, interval: Duration) -> Self {
        let of = u32::try_from(self.seen.len() / PAGE).unwrap_or(u32::MAX);
        let of = of.clamp(*PARTS.start(), *PARTS.end());
        let (index, before) = self.part;
        let index = u64::from(index) * u64::from(of) / u64::from(before);
        let mut next = Self::new((index as u32, of), began);
        next.wait(interval);
        next
    }

    /// The part that is read next.
    pub(crate) fn share(&self) -> Share {
        Share { index: self.part.0, of: self.part.1 }
    }

    /// The position at which a newly started process continues.
    pub(crate) fn position(&self) -> (u32, u32) {
        self.part
    }

    pub(crate) fn is_due(&self) -> bool {
        !self.is_whole() && (self.is_urgent || self.due <= Instant::now())
    }

    /// Whether all parts have been read.
    pub(crate) fn is_whole(&self) -> bool {
        self.done >= self.part.1
    }

    /// Notes that the next part was read. `interval` is the time for all parts together.
    pub(crate) fn advance(&mut self, interval: Duration) {
        self.part.0 = (self.part.0 + 1) % self.part.1;
        self.done += 1;
        self.wait(interval);
    }

    /// Makes the next part wait for its share of `interval`.
    pub(crate) fn wait(&mut self, interval: Duration) {
        self.due = Instant::now() + interval / self.part.1;
    }
}

/// The names that a round found, as hashes of eight bytes to save memory. If a missing name has the same hash
/// as a found one, it goes unnoticed, which is harmless.
#[derive(Debug, Default)]
pub(crate) struct SeenNames {
    hasher: RandomState,
    hashes: Vec<u64>,
}

impl SeenNames {
    pub(crate) fn push(&mut self, name: &str) {
        self.hashes.push(self.hasher.hash_one(name));
    }

    /// Sorts the hashes. Call this before [`SeenNames::contains`].
    pub(crate) fn sort(&mut self) {
        self.hashes.sort_unstable();
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.hashes.binary_search(&self.hasher.hash_one(name)).is_ok()
    }

    fn len(&self) -> usize {
        self.hashes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_round_reads_each_part_once_over_its_interval() {
        let hour = Duration::from_secs(3600);
        let began = Instant::now();
        let mut round = Round::new((3, 5), 0);
        let mut parts = Vec::new();
        while !round.is_whole() {
            if round.is_due() {
                parts.push(round.share().index);
                round.advance(hour);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(parts, [3, 4, 0, 1, 2]);
        assert!(began.elapsed() >= hour * 4 / 5 && began.elapsed() < hour);
        // The next round begins with the same part as this one, and its first part waits too.
        (0..100 * PAGE).for_each(|n| round.seen.push(&n.to_string()));
        let next = round.next(0, hour);
        assert_eq!((next.position(), next.is_due()), ((60, 100), false));
        assert!(next.urgent(Missing::Lost, 0).is_due());
    }
}
