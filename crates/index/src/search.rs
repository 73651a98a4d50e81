//! Searches by words, and pages of a directory.

use plumbago_model::glob::GlobError;

use crate::best::Best;
use crate::children::Child;
use crate::memo::Memo;
use crate::sweep::{Frame, Sweep};
use crate::tags::search::TagSearch;
use crate::trie::Trie;
use crate::words::{Qualities, Words};
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
    /// A name is better if words are whole components of it or begin one, and if it is short. At most
    /// `visited_max` nodes are visited; [`Matches::is_cut`] tells if that did not suffice.
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

    /// Children of the directory `path` ("" for the root) whose name contains the words of `filter`: skips the first
    /// `skip` of them and returns at most `count`. `visited_max` limits how many names are counted below them.
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
        let mut unlimited = usize::MAX;
        self.sweep(path, &mut unlimited, &mut |trie, _, child| {
            listing.total += 1;
            let text = trie.components.text(child.component);
            if words.is_empty() || words.all_match(words.of_component(text, &mut lower)) {
                listing.matching += 1;
                if listing.matching > skip && listing.children.len() < count {
                    listing.children.push(Listed {
                        name: String::from_utf8_lossy(text).into_owned(),
                        leaf: child.is_leaf(),
                        branch: child.directory().is_some(),
                        below: None,
                    });
                }
            }
            None
        });
        let mut visits = visited_max;
        for child in &mut listing.children {
            let path = if path.is_empty() { child.name.clone() } else { format!("{path}.{}", child.name) };
            child.below = if child.branch { self.count_below(&path, &mut visits) } else { Some(0) };
        }
        Ok(listing)
    }

    /// The number of metrics below a directory; `None` if `visits` did not suffice.
    fn count_below(&self, path: &str, visits: &mut usize) -> Option<usize> {
        let mut count = 0;
        let is_cut = self.sweep(path, visits, &mut |_, _, child| {
            count += usize::from(child.is_leaf());
            Some(0)
        });
        (!is_cut).then_some(count)
    }

    /// Visits everything below a directory. Returns whether `visits` did not suffice.
    fn sweep(
        &self,
        path: &str,
        visits: &mut usize,
        visit: &mut impl FnMut(&Trie, &[Frame], Child) -> Option<u16>,
    ) -> bool {
        let mut sweep = Sweep::new(&self.trie(), path);
        loop {
            let more = sweep.round(&self.trie(), visits, visit);
            if !more || *visits == 0 {
                return more;
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

    /// Searches the tree. Returns true if it ended early, because `visits` were used up.
    fn search_tree(&self, words: &Words, visits: &mut usize, best: &mut Best) -> bool {
        let mut search = TreeSearch { words, best, memo: Memo::default(), lower: Vec::new() };
        let mut sweep = Sweep::new(&self.trie(), "");
        let mut removals = sweep.removals();
        loop {
            let trie = self.trie();
            if trie.removals() != removals {
                removals = trie.removals();
                search.memo.clear();
            }
            let more = sweep
                .round(&trie, visits, &mut |trie, frames, child| Some(search.child(trie, frames, child)));
            if !more || *visits == 0 {
                return more;
            }
        }
    }
}

struct TreeSearch<'a> {
    words: &'a Words,
    best: &'a mut Best,
    /// The qualities of components seen before.
    memo: Memo,
    lower: Vec<u8>,
}

impl TreeSearch<'_> {
    /// Ranks a child, and returns the qualities of its path.
    #[inline]
    fn child(&mut self, trie: &Trie, frames: &[Frame], child: Child) -> Qualities {
        let above = frames.last().map_or(0, |frame| frame.state);
        let (words, lower) = (self.words, &mut self.lower);
        let own = self.memo.get(child.component).unwrap_or_else(|| {
            let own = words.of_component(trie.components.text(child.component), lower);
            if trie.components.is_shared(child.component) {
                self.memo.set(child.component, own);
            }
            own
        });
        let own = if own != 0 && words.has_dots() {
            let text = |level: usize| {
                let place = frames.len().checked_sub(level).filter(|place| *place > 0)?;
                Some(trie.components.text(frames[place].component))
            };
            words.checked(own, text, lower)
        } else {
            own
        };
        let all = words.best(above, own);
        if words.all_match(all) {
            self.rank(trie, frames, child, all);
        }
        all
    }

    #[inline(never)]
    fn rank(&mut self, trie: &Trie, frames: &[Frame], child: Child, all: Qualities) {
        // The depth is used in place of the length: computing the length of each of many matches would take too long.
        let rank = Best::rank(self.words.sum(all), frames.len());
        self.best.add(rank, || {
            let mut path = Vec::new();
            for frame in frames.iter().skip(1) {
                path.extend_from_slice(trie.components.text(frame.component));
                path.push(b'.');
            }
            path.extend_from_slice(trie.components.text(child.component));
            let path = String::from_utf8_lossy(&path).into_owned();
            Node { path, leaf: child.is_leaf(), branch: child.directory().is_some() }
        });
    }
}
