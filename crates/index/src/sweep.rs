//! Goes through everything below a directory, in rounds. Between two rounds the lock of the tree is released;
//! if the tree has changed meanwhile, the sweep finds its place again by the texts of the components.

use crate::children::{At, Child};
use crate::trie::Trie;

/// Maximum number of children visited in one round, which takes well below a millisecond.
const VISITS_PER_TURN: usize = if cfg!(test) { 3 } else { 65_536 };

/// A directory that the sweep is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    directory: u32,
    /// The component of the directory; meaningless for the first frame.
    pub(crate) component: u32,
    /// What the visitor returned when it entered the directory.
    pub(crate) state: u16,
    /// The next child.
    at: At,
    /// The child visited last.
    latest: Option<u32>,
}

/// A sweep through everything below a directory.
#[derive(Debug)]
pub(crate) struct Sweep {
    start: Vec<u8>,
    frames: Vec<Frame>,
    /// The text of the child visited last in each frame, saved between two rounds.
    texts: Vec<Vec<u8>>,
    changes: u64,
    removals: u64,
}

impl Sweep {
    /// A sweep below the directory `start`, "" for the root. It is over at once if there is no such directory.
    pub(crate) fn new(trie: &Trie, start: &str) -> Self {
        let start = start.as_bytes().to_vec();
        let frames = directory(trie, &start).map(first_frame).into_iter().collect();
        Self { start, frames, texts: Vec::new(), changes: trie.changes(), removals: trie.removals() }
    }

    /// A counter that changes when numbers of components become invalid.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    /// Runs one round. `visit` gets the directories above a child, and the child. It returns the state to enter the
    /// child with, or `None` to skip it; only directories are entered. Returns `false` at the end. `visits` is what the
    /// sweep may still visit; it is 0 if that did not suffice.
    pub(crate) fn round(
        &mut self,
        trie: &Trie,
        visits: &mut usize,
        visit: &mut impl FnMut(&Trie, &[Frame], Child) -> Option<u16>,
    ) -> bool {
        self.resume(trie);
        let stop = visits.saturating_sub(VISITS_PER_TURN);
        while let Some(frame) = self.frames.last_mut() {
            let Some((at, child)) = trie.children.get(frame.directory, frame.at) else {
                self.frames.pop();
                continue;
            };
            if *visits == stop {
                self.save(trie);
                return true;
            }
            *visits -= 1;
            (frame.at, frame.latest) = (at.next(), Some(child.component));
            if let Some(state) = visit(trie, &self.frames, child)
                && let Some(directory) = child.directory()
            {
                let component = child.component;
                self.frames.push(Frame { component, state, ..first_frame(directory) });
            }
        }
        false
    }

    fn save(&mut self, trie: &Trie) {
        let text = |frame: &Frame| frame.latest.map(|latest| trie.components.text(latest).to_vec());
        self.texts = self.frames.iter().map(|frame| text(frame).unwrap_or_default()).collect();
    }

    /// Finds the position again if the tree has changed since the last round.
    fn resume(&mut self, trie: &Trie) {
        if self.changes == trie.changes() {
            return;
        }
        (self.changes, self.removals) = (trie.changes(), trie.removals());
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

fn first_frame(directory: u32) -> Frame {
    Frame { directory, component: 0, state: 0, at: At::default(), latest: None }
}

fn directory(trie: &Trie, path: &[u8]) -> Option<u32> {
    if path.is_empty() { Some(trie.root()) } else { trie.get(path)?.directory() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(trie: &Trie, frames: &[Frame], child: Child) -> String {
        let above = frames.iter().skip(1).map(|frame| frame.component);
        let texts = above.chain([child.component]).map(|c| String::from_utf8_lossy(trie.components.text(c)));
        texts.collect::<Vec<_>>().join(".")
    }

    fn swept(trie: &mut Trie, mut between: impl FnMut(&mut Trie, usize)) -> Vec<String> {
        let mut sweep = Sweep::new(trie, "");
        let (mut visits, mut found, mut rounds) = (usize::MAX, Vec::new(), 0);
        while sweep.round(trie, &mut visits, &mut |trie, frames, child| {
            if child.is_leaf() {
                found.push(path(trie, frames, child));
            }
            Some(0)
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
        assert!(!Sweep::new(&trie, "no").round(&trie, &mut 5, &mut |_, _, _| None));
    }
}
