//! Keeps the best of many matches, and counts all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Node;

/// The best matches so far.
#[derive(Debug)]
pub(crate) struct Best {
    results_max: usize,
    /// A heap with the worst of them on top.
    heap: BinaryHeap<Reverse<Ranked>>,
    total: usize,
}

impl Best {
    /// Keeps at most `results_max` matches.
    pub(crate) fn new(results_max: usize) -> Self {
        Self { results_max, heap: BinaryHeap::new(), total: 0 }
    }

    /// The matches, best first, and the number of all that were found.
    pub(crate) fn end(self) -> (Vec<Node>, usize) {
        let mut found = self.heap.into_vec();
        found.sort_unstable();
        (found.into_iter().map(|Reverse(ranked)| ranked.node).collect(), self.total)
    }

    /// A rank from the sum of the qualities and the number of components or tags.
    pub(crate) fn rank(sum: u32, depth: usize) -> u32 {
        (sum << 16).saturating_sub(depth.min(0xFFFF) as u32)
    }

    /// Counts a match, and keeps it if it is among the best. Of matches with the same rank, the first one is better.
    #[inline]
    pub(crate) fn add(&mut self, rank: u32, node: impl FnOnce() -> Node) {
        self.total += 1;
        let is_full = self.heap.len() >= self.results_max;
        if is_full && self.heap.peek().is_none_or(|Reverse(worst)| worst.rank >= rank) {
            return;
        }
        if is_full {
            self.heap.pop();
        }
        self.heap.push(Reverse(Ranked { rank, order: Reverse(self.total), node: node() }));
    }

    /// Adds to the total matches that were not ranked.
    pub(crate) fn add_unranked(&mut self, count: usize) {
        self.total += count;
    }

    /// Whether a further match of this rank would be kept.
    pub(crate) fn would_keep(&self, rank: u32) -> bool {
        self.heap.len() < self.results_max || self.heap.peek().is_some_and(|Reverse(worst)| worst.rank < rank)
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
