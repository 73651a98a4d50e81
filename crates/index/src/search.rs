//! Searches by words, and pages of a directory.

use plumbago_model::glob::GlobError;

use crate::best::Best;
use crate::children::Child;
use crate::sweep::{Frame, Sweep};
use crate::tags::search::TagSearch;
use crate::tree_search::{Counter, TreeSearch};
use crate::trie::Trie;
use crate::words::Words;
use crate::{Index, Node};

/// The results of a search by words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matches {
    /// The best matches, best first: metrics and directories.
    pub best: Vec<Node>,
    /// The number of all metrics and directories that match, as far as the search went.
    pub total: usize,
    /// Whether the search ended early because of its limit, so that not all names were searched.
    pub is_cut: bool,
}

/// One child of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The last component of its path.
    pub name: String,
    /// Whether there is a metric with this path.
    pub leaf: bool,
    /// Whether there are metrics below this path.
    pub branch: bool,
    /// The number of metrics below; `None` if the limit was reached before they were counted.
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
    /// `visited_max` limits the work: the children visited, the pairs of tag and value compared, and the
    /// tagged series ranked. The content of a directory that equals one already searched is counted without
    /// being visited, so it costs nothing. [`Matches::is_cut`] says whether the limit was reached.
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
        let (best, total) = best.end();
        Ok(Matches { best, total, is_cut })
    }

    /// Children of the directory `path` ("" for the root) whose name contains the words of `filter`: skips
    /// the first `skip` of them and returns at most `count`. `visited_max` limits how many nodes are visited
    /// to count the names below the children; equal directories are visited only once.
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

    /// The number of metrics below a directory; `None` if `visits` was not enough.
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

    /// Searches the tagged series. Returns whether `visits` was not enough.
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

    /// Searches the tree. Returns whether it ended early because `visits` were used up.
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
