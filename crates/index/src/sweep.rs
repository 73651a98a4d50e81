//! Goes through everything below a directory, in rounds. Between two rounds the lock of the tree is released.
//! If the tree has changed meanwhile, the sweep finds its position again by the texts of the components.

use crate::children::{At, Child};
use crate::trie::Trie;

/// Maximum number of children visited in one round, which takes about a millisecond.
const VISITS_PER_TURN: usize = if cfg!(test) { 3 } else { 65_536 };

/// A visitor that a sweep calls.
pub(crate) trait Visit {
    /// The data that the visitor needs in each directory.
    type State: Copy;

    /// Receives a child, and the directories above it. Returns the state with which to enter the child, or
    /// `None` to skip it; only directories are entered.
    fn child(&mut self, trie: &Trie, frames: &mut [Frame<Self::State>], child: Child) -> Option<Self::State>;

    /// Receives a directory whose children have all been visited, and the directory above it.
    fn leave(&mut self, _trie: &Trie, _left: &Frame<Self::State>, _above: Option<&mut Frame<Self::State>>) {}
}

impl<F: FnMut(&Trie, &[Frame<()>], Child) -> Option<()>> Visit for F {
    type State = ();

    fn child(&mut self, trie: &Trie, frames: &mut [Frame<()>], child: Child) -> Option<()> {
        self(trie, frames, child)
    }
}

/// A directory that the sweep is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<S> {
    pub(crate) directory: u32,
    /// The component of the directory. It has no meaning in the first frame.
    pub(crate) component: u32,
    /// The state that the visitor returned for the directory.
    pub(crate) state: S,
    /// Whether the tree has changed since the sweep entered the directory.
    pub(crate) is_changed: bool,
    /// The next child.
    at: At,
    /// The child visited last.
    latest: Option<u32>,
}

/// A sweep through everything below a directory.
#[derive(Debug)]
pub(crate) struct Sweep<S> {
    start: Vec<u8>,
    frames: Vec<Frame<S>>,
    /// The text of the child visited last in each frame, saved between two rounds.
    texts: Vec<Vec<u8>>,
    changes: u64,
}

impl<S: Copy> Sweep<S> {
    /// A sweep below the directory `start`, "" for the root. It is over at once if there is no such directory.
    pub(crate) fn new(trie: &Trie, start: &str, state: S) -> Self {
        let start = start.as_bytes().to_vec();
        let frames = directory(trie, &start).map(|first| frame(first, 0, state)).into_iter().collect();
        Self { start, frames, texts: Vec::new(), changes: trie.changes() }
    }

    /// Runs one round. Returns `false` at the end. `visits` is the number of children that the sweep may
    /// still visit; it is 0 afterwards if it was not enough.
    pub(crate) fn round(
        &mut self,
        trie: &Trie,
        visits: &mut usize,
        visitor: &mut impl Visit<State = S>,
    ) -> bool {
        self.resume(trie);
        let stop = visits.saturating_sub(VISITS_PER_TURN);
        while let Some(last) = self.frames.last_mut() {
            let Some((at, children)) = trie.children.rest(last.directory, last.at) else {
                if let Some(left) = self.frames.pop() {
                    visitor.leave(trie, &left, self.frames.last_mut());
                }
                continue;
            };
            let count = children.len().min(*visits - stop);
            if count == 0 {
                self.save(trie);
                return true;
            }
            // Visits some children of one directory, until one of them is entered.
            let mut entered = None;
            let mut done = 0;
            for child in &children[..count] {
                done += 1;
                let state = visitor.child(trie, &mut self.frames, *child);
                if let (Some(state), Some(directory)) = (state, child.directory()) {
                    entered = Some(frame(directory, child.component, state));
                    break;
                }
            }
            *visits -= done;
            if let Some(last) = self.frames.last_mut() {
                (last.at, last.latest) = (at.after(done), Some(children[done - 1].component));
            }
            self.frames.extend(entered);
        }
        false
    }

    fn save(&mut self, trie: &Trie) {
        let text = |frame: &Frame<S>| frame.latest.map(|latest| trie.components.text(latest).to_vec());
        self.texts = self.frames.iter().map(|frame| text(frame).unwrap_or_default()).collect();
    }

    /// Finds the position again if the tree has changed since the last round.
    fn resume(&mut self, trie: &Trie) {
        if self.changes == trie.changes() {
            return;
        }
        self.changes = trie.changes();
        self.frames.iter_mut().for_each(|frame| frame.is_changed = true);
        let mut next = directory(trie, &self.start);
        for place in 0..self.frames.len() {
            let Some(here) = next else { return self.frames.truncate(place) };
            let frame = &mut self.frames[place];
            frame.directory = here;
            next = None;
            let Some(text) = self.texts.get(place).filter(|_| frame.latest.is_some()) else {
                frame.at = At::default();
                continue;
            };
            match trie.children.search(here, &trie.components, text) {
                Err(at) => frame.at = at,
                Ok(at) => {
                    frame.at = at.next();
                    if let Some((_, child)) = trie.children.get(here, at) {
                        next = child.directory();
                        frame.latest = Some(child.component);
                        if let Some(below) = self.frames.get_mut(place + 1) {
                            below.component = child.component;
                        }
                    }
                }
            }
        }
    }
}

fn frame<S>(directory: u32, component: u32, state: S) -> Frame<S> {
    Frame { directory, component, state, is_changed: false, at: At::default(), latest: None }
}

fn directory(trie: &Trie, path: &[u8]) -> Option<u32> {
    if path.is_empty() { Some(trie.root()) } else { trie.get(path)?.directory() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(trie: &Trie, frames: &[Frame<()>], child: Child) -> String {
        let above = frames.iter().skip(1).map(|frame| frame.component);
        let texts = above.chain([child.component]).map(|c| String::from_utf8_lossy(trie.components.text(c)));
        texts.collect::<Vec<_>>().join(".")
    }

    fn swept(trie: &mut Trie, mut between: impl FnMut(&mut Trie, usize)) -> Vec<String> {
        let mut sweep = Sweep::new(trie, "", ());
        let (mut visits, mut found, mut rounds) = (usize::MAX, Vec::new(), 0);
        while sweep.round(trie, &mut visits, &mut |trie: &Trie, frames: &[Frame<()>], child: Child| {
            if child.is_leaf() {
                found.push(path(trie, frames, child));
            }
            Some(())
        }) {
            rounds += 1;
            between(trie, rounds);
        }
        found
    }

    #[test]
    fn all_names_come_once_whatever_changes_between_rounds() {
        let names: Vec<String> = (0..40).map(|n| format!("a.{}.{}.x", n / 10, n % 10)).collect();
        let mut trie = Trie::new();
        for name in &names {
            assert!(trie.insert(name.as_bytes()));
        }
        assert_eq!(swept(&mut trie, |_, _| {}), names);
        // New names may move arrays, and the numbers of removed names are reused.
        let found = swept(&mut trie, |trie, round| {
            trie.insert(format!("a.{}.new{round}.y", round % 4).as_bytes());
            trie.remove(format!("a.{}.new{}.y", (round - 1) % 4, round - 1).as_bytes());
            trie.insert(format!("other{round}.z").as_bytes());
        });
        let old: Vec<&String> = found.iter().filter(|name| name.ends_with(".x")).collect();
        assert_eq!(old, names.iter().collect::<Vec<_>>());
    }

    #[test]
    fn the_end_of_a_directory_that_is_gone_is_the_end() {
        let mut trie = Trie::new();
        for n in 0..10 {
            trie.insert(format!("a.b.{n}").as_bytes());
        }
        let found = swept(&mut trie, |trie, _| {
            for n in 0..10 {
                trie.remove(format!("a.b.{n}").as_bytes());
            }
        });
        assert!(found.len() < 10, "{found:?}");
        assert!(swept(&mut trie, |_, _| {}).is_empty());
        let mut nothing = |_: &Trie, _: &[Frame<()>], _: Child| None;
        assert!(!Sweep::new(&trie, "no", ()).round(&trie, &mut 5, &mut nothing));
    }
}
