//! Searches by words, and pages of a directory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use plumbago_model::glob::GlobError;

use crate::children::Child;
use crate::sweep::{Frame, Sweep};
use crate::tags::search::TagSearch;
use crate::tree_search::{Counter, TreeSearch};
use crate::trie::Trie;
use crate::words::Words;
use crate::{Index, Node};

/// What a search by words found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matches {
    /// The best matches, best first: metrics and directories.
    pub best: Vec<Node>,
    /// The number of all metrics and directories that match, as far as the search got.
    pub total: usize,
    /// Whether the search ended early because of its limit, so that not all names were searched.
    pub is_cut: bool,
}

/// One child of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The last component of its path.
    pub name: String,
    /// There is a metric with this path.
    pub leaf: bool,
    /// There are metrics below this path.
    pub branch: bool,
    /// The number of metrics below; `None` if the limit did not suffice to count them.
    pub below: Option<usize>,
}

/// A page of the children of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The children of the page, sorted by bytes.
    pub children: Vec<Listed>,
    /// The number of children that match the filter.
    pub matching: usize,
    /// The number of children.
    pub total: usize,
}

impl Index {
    /// The metrics and directories with every word of `text` somewhere in their name, in any order and case, at
    /// most `results_max`, best first. A word may be a glob; one with dots matches consecutive components. Words
    /// after the seventh are ignored. Tagged series are searched in the text `name`, `tag=value` of each tag.
    ///
    /// A name is better if words are whole components of it or begin one, and if it is short.
    ///
    /// `visited_max` limits the work: the children looked at, the pairs of tag and value compared, and the tagged series
    /// ranked. What is below a directory that equals one already searched is counted without being looked at, so it costs
    /// nothing. [`Matches::is_cut`] tells if the limit did not suffice.
    ///
    /// # Errors
    ///
    /// Returns [`GlobError`] if a word is a glob that is too large.
    pub fn search_words(
        &self,
        text: &str,
        results_max: usize,
        visited_max: usize,
    ) -> Result<Matches, GlobError> {
        let words = Words::new(text)?;
        if words.is_empty() {
            return Ok(Matches::default());
        }
        let mut best = Best::new(results_max);
        let mut visits = visited_max;
        let is_cut = self.search_tree(&words, &mut visits, &mut best);
        let is_cut = is_cut || self.search_tags_by_words(&words, &mut visits, &mut best);
        Ok(Matches { total: best.total, best: best.into_nodes(), is_cut })
    }

    /// Children of the directory `path` ("" for the root) whose name contains the words of `filter`: skips the first
    /// `skip` of them and returns at most `count`. `visited_max` limits how many nodes are looked at to count the names below them; equal directories are looked at once.
    ///
    /// # Errors
    ///
    /// Returns [`GlobError`] if a word of the filter is a glob that is too large.
    pub fn list_children(
        &self,
        path: &str,
        filter: &str,
        (skip, count): (usize, usize),
        visited_max: usize,
    ) -> Result<Listing, GlobError> {
        let words = Words::new(filter)?;
        let mut listing = Listing::default();
        let mut lower = Vec::new();
        let mut list = |trie: &Trie, _: &[Frame<()>], child: Child| {
            listing.total += 1;
            let component = trie.components.get(child.component);
            if words.is_empty() || words.all_match(words.of_component(component, &mut lower).qualities) {
                listing.matching += 1;
                if listing.matching > skip && listing.children.len() < count {
                    listing.children.push(Listed {
                        name: String::from_utf8_lossy(component.text).into_owned(),
                        leaf: child.is_leaf(),
                        branch: child.directory().is_some(),
                        below: None,
                    });
                }
            }
            None
        };
        let (mut sweep, mut unlimited) = (Sweep::new(&self.trie(), path, ()), usize::MAX);
        while sweep.round(&self.trie(), &mut unlimited, &mut list) {}
        let mut counter = Counter::default();
        let mut visits = visited_max;
        for child in &mut listing.children {
            let path = if path.is_empty() { child.name.clone() } else { format!("{path}.{}", child.name) };
            child.below =
                if child.branch { self.count_below(&path, &mut counter, &mut visits) } else { Some(0) };
        }
        Ok(listing)
    }

    /// The number of metrics below a directory; `None` if `visits` did not suffice.
    fn count_below(&self, path: &str, counter: &mut Counter, visits: &mut usize) -> Option<usize> {
        let mut sweep = Sweep::new(&self.trie(), path, 0);
        counter.sum = 0;
        loop {
            let trie = self.trie();
            counter.known.keep_for(trie.removals());
            if !sweep.round(&trie, visits, counter) {
                return Some(counter.sum as usize);
            }
            if *visits == 0 {
                return None;
            }
        }
    }

    /// Searches the tagged series. Returns whether `visits` did not suffice.
    fn search_tags_by_words(&self, words: &Words, visits: &mut usize, best: &mut Best) -> bool {
        let mut search = TagSearch::new(words);
        loop {
            let more = search.round(&self.tagged(), words, visits);
            if more && *visits == 0 {
                return true;
            }
            if !more {
                return search.rank(&self.tagged(), words, visits, best);
            }
        }
    }

    /// Searches the tree. Returns whether `visits` did not suffice.
    fn search_tree(&self, words: &Words, visits: &mut usize, best: &mut Best) -> bool {
        let mut search = TreeSearch::new(words, best);
        let mut sweep = Sweep::new(&self.trie(), "", search.start());
        loop {
            let trie = self.trie();
            let more = search.round(&trie, &mut sweep, visits);
            if !more || *visits == 0 {
                return more;
            }
        }
    }
}

/// The best matches so far.
#[derive(Debug)]
pub(crate) struct Best {
    results_max: usize,
    /// The worst of them is on top.
    heap: BinaryHeap<Reverse<Ranked>>,
    total: usize,
    /// Only matches with a higher rank are kept.
    floor: u32,
}

impl Best {
    pub(crate) fn new(results_max: usize) -> Self {
        let floor = if results_max == 0 { u32::MAX } else { 0 };
        Self { results_max, heap: BinaryHeap::new(), total: 0, floor }
    }

    /// The matches, best first.
    pub(crate) fn into_nodes(self) -> Vec<Node> {
        let mut found = self.heap.into_vec();
        found.sort_unstable();
        found.into_iter().map(|Reverse(ranked)| ranked.node).collect()
    }

    /// A rank from the sum of the qualities and the number of components or tags.
    pub(crate) fn rank(sum: u32, depth: usize) -> u32 {
        (sum << 16).saturating_sub(depth.min(0xFFFF) as u32)
    }

    /// Counts a match, and keeps it if it is among the best. Of matches with the same rank, the first one is better.
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

    /// Adds matches that exist but were not ranked to the total.
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
