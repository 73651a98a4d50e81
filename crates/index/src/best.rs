//! Keeps the best of many matches, and counts all matches.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Node;

/// The best matches so far.
#[derive(Debug)]
pub(crate) struct Best {
    results_max: usize,
    /// A heap with the worst of these matches on top.
    heap: BinaryHeap<Reverse<Ranked>>,
    total: usize,
    /// Only matches with a higher rank are kept.
    floor: u32,
}

impl Best {
    /// Keeps at most `results_max` matches.
    pub(crate) fn new(results_max: usize) -> Self {
        let floor = if results_max == 0 { u32::MAX } else { 0 };
        Self { results_max, heap: BinaryHeap::new(), total: 0, floor }
    }

    /// The matches, best first, and the number of all matches that were found.
    pub(crate) fn end(self) -> (Vec<Node>, usize) {
        let mut found = self.heap.into_vec();
        found.sort_unstable();
        (found.into_iter().map(|Reverse(ranked)| ranked.node).collect(), self.total)
    }

    /// Computes a rank from the sum of the qualities and the number of components or tags.
    pub(crate) fn rank(sum: u32, depth: usize) -> u32 {
        (sum << 16).saturating_sub(depth.min(0xFFFF) as u32)
    }

    /// Counts a match, and keeps it if it is among the best. Among matches of the same rank, earlier ones are
    /// better.
    #[inline]
    pub(crate) fn add(&mut self, rank: u32, node: impl FnOnce() -> Node) {
        self.total += 1;
        if rank > self.floor {
            self.keep(rank, node());
        }
    }

    #[inline(never)]
    fn keep(&mut self, rank: u32, node: Node) {
        if self.heap.len() >= self.results_max {
            self.heap.pop();
        }
        self.heap.push(Reverse(Ranked { rank, order: Reverse(self.total), node }));
        if self.heap.len() >= self.results_max {
            self.floor = self.heap.peek().map_or(0, |Reverse(worst)| worst.rank);
        }
    }

    /// The number of matches so far.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Adds matches that were not ranked to the total.
    pub(crate) fn add_unranked(&mut self, count: usize) {
        self.total += count;
    }

    /// Whether another match of this rank would be kept.
    #[inline]
    pub(crate) fn would_keep(&self, rank: u32) -> bool {
        rank > self.floor
    }
}

#[derive(Debug)]
struct Ranked {
    rank: u32,
    order: Reverse<usize>,
    node: Node,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.rank, self.order).cmp(&(other.rank, other.order))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}
