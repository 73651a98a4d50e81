//! The search by words in the tree. A directory that equals one already searched is counted, but not searched
//! again, so the time depends on the number of different directories.

use crate::best::Best;
use crate::children::Child;
use crate::known::{Below, Known, State};
use crate::memo::Memo;
use crate::sweep::{Frame, Sweep, Visit};
use crate::trie::Trie;
use crate::words::{Match, Words};
use crate::{Node, words::Qualities};

/// A search by words in the tree.
pub(crate) struct TreeSearch<'a> {
    words: &'a Words,
    best: &'a mut Best,
    /// How components match the words.
    memo: Memo,
    known: Known,
    lower: Vec<u8>,
}

/// A directory that is being searched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entered {
    state: State,
    /// The number of matches that were found before the directory was entered.
    before: usize,
    /// The highest rank found below the directory so far, as if it were the root; 0 if there is none.
    best: u32,
}

impl<'a> TreeSearch<'a> {
    pub(crate) fn new(words: &'a Words, best: &'a mut Best) -> Self {
        Self { words, best, memo: Memo::default(), known: Known::default(), lower: Vec::new() }
    }

    /// The state with which the search enters the root.
    pub(crate) fn start(&self) -> Entered {
        Entered { state: State::default(), before: self.best.total(), best: 0 }
    }

    /// Runs one round of the sweep, with the result of [`Sweep::round`].
    pub(crate) fn round(&mut self, trie: &Trie, sweep: &mut Sweep<Entered>, visits: &mut usize) -> bool {
        self.memo.keep_for(trie.removals());
        self.known.keep_for(trie.removals());
        sweep.round(trie, visits, self)
    }

    #[inline]
    fn component(&mut self, trie: &Trie, number: u32) -> Match {
        if let Some(known) = self.memo.get(number) {
            return known;
        }
        let component = trie.components.get(number);
        let found = self.words.of_component(component, &mut self.lower);
        if component.is_shared {
            self.memo.set(number, found);
        }
        found
    }

    /// Ranks a child. Returns its rank as if its directory were the root.
    #[inline]
    fn rank(&mut self, trie: &Trie, frames: &[Frame<Entered>], child: Child, all: Qualities) -> u32 {
        // The depth is used in place of the length: computing the length of each of many matches would take too long.
        let sum = Words::sum(all);
        self.best.add(Best::rank(sum, frames.len()), || node(trie, frames, child));
        Best::rank(sum, 1)
    }
}

#[inline(never)]
fn node(trie: &Trie, frames: &[Frame<Entered>], child: Child) -> Node {
    let mut path = Vec::new();
    for frame in frames.iter().skip(1) {
        path.extend_from_slice(trie.components.text(frame.component));
        path.push(b'.');
    }
    path.extend_from_slice(trie.components.text(child.component));
    let path = String::from_utf8_lossy(&path).into_owned();
    Node { path, leaf: child.is_leaf(), branch: child.directory().is_some() }
}

impl Visit for TreeSearch<'_> {
    type State = Entered;

    #[inline]
    fn child(&mut self, trie: &Trie, frames: &mut [Frame<Entered>], child: Child) -> Option<Entered> {
        let above = frames.last()?.state.state;
        let found = self.component(trie, child.component);
        let (own, begun) =
            if self.words.has_dots() { self.words.step(above.begun, found) } else { (found.qualities, 0) };
        let state = State { qualities: Words::best(above.qualities, own), begun };
        let mut best = 0;
        if self.words.all_match(state.qualities) {
            best = self.rank(trie, frames, child, state.qualities);
        }
        let mut entered = None;
        if let Some(directory) = child.directory() {
            match self.known.get(trie.shape(directory), state) {
                Some(below) if !self.best.would_keep(below.best.saturating_sub(frames.len() as u32)) => {
                    self.best.add_unranked(below.count as usize);
                    best = best.max(below.best.saturating_sub(1));
                }
                Some(Below { count: 0, .. }) => {}
                _ => entered = Some(Entered { state, before: self.best.total(), best: 0 }),
            }
        }
        if let Some(last) = frames.last_mut() {
            last.state.best = last.state.best.max(best);
        }
        entered
    }

    fn leave(&mut self, trie: &Trie, left: &Frame<Entered>, above: Option<&mut Frame<Entered>>) {
        let Entered { state, before, best } = left.state;
        if !left.is_changed {
            let below = Below { count: (self.best.total() - before) as u32, best };
            self.known.set(trie.shape(left.directory), state, below);
        }
        if let Some(above) = above {
            above.state.best = above.state.best.max(best.saturating_sub(1));
        }
    }
}

/// Counts the metrics below a directory.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) known: Known,
    /// The number of metrics so far.
    pub(crate) sum: u32,
}

impl Visit for Counter {
    /// The sum at the time when the directory was entered.
    type State = u32;

    fn child(&mut self, trie: &Trie, _: &mut [Frame<u32>], child: Child) -> Option<u32> {
        self.sum += u32::from(child.is_leaf());
        let directory = child.directory()?;
        match self.known.get(trie.shape(directory), State::default()) {
            Some(below) => {
                self.sum += below.count;
                None
            }
            None => Some(self.sum),
        }
    }

    fn leave(&mut self, trie: &Trie, left: &Frame<u32>, _: Option<&mut Frame<u32>>) {
        if !left.is_changed {
            let below = Below { count: self.sum - left.state, best: 0 };
            self.known.set(trie.shape(left.directory), State::default(), below);
        }
    }
}

#[cfg(test)]
mod tests;
