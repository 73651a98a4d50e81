//! The tree of names: insert, look up, remove. Searching it is in [`crate::walk`].

use crate::children::{At, Child, Children};
use crate::components::Components;

/// Names as a tree of components. Every directory leads to at least one metric.
#[derive(Debug)]
pub(crate) struct Trie {
    pub(crate) components: Components,
    pub(crate) children: Children,
    /// The directory that all names start in.
    root: u32,
    leaves: usize,
    directories: usize,
    changes: u64,
    removals: u64,
    /// The latest name and the directories on its way: the next name often shares most of them.
    latest: Vec<u8>,
    trail: Vec<Crumb>,
}

/// A directory on the way of a name.
#[derive(Debug, Clone, Copy)]
struct Crumb {
    /// Where its part of the name ends.
    end: usize,
    directory: u32,
    /// Its place in the directory above.
    at: At,
}

impl Trie {
    pub(crate) fn new() -> Self {
        let mut children = Children::new();
        let root = children.create();
        Self {
            components: Components::new(),
            children,
            root,
            leaves: 0,
            directories: 0,
            changes: 0,
            removals: 0,
            latest: Vec::new(),
            trail: Vec::new(),
        }
    }

    /// The directory that all names start in.
    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    /// How many metrics there are.
    pub(crate) fn leaves(&self) -> usize {
        self.leaves
    }

    /// How many directories there are, the root not counted.
    pub(crate) fn directories(&self) -> usize {
        self.directories
    }

    /// Grows with every change. While it stays, every number and place stays.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Grows with every removal. While it stays, the numbers of components stay.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let trail = self.latest.capacity() + self.trail.capacity() * size_of::<Crumb>();
        self.components.memory_bytes() + self.children.memory_bytes() + trail
    }

    /// Adds a name without empty components; false when it was there.
    pub(crate) fn insert(&mut self, name: &[u8]) -> bool {
        let shared = self.latest.iter().zip(name).take_while(|(a, b)| a == b).count();
        // A directory is shared when the dot behind it is.
        while self.trail.last().is_some_and(|crumb| crumb.end >= shared) {
            self.trail.pop();
        }
        let mut start = self.trail.last().map_or(0, |crumb| crumb.end + 1);
        while let Some(length) = name[start..].iter().position(|byte| *byte == b'.') {
            let end = start + length;
            self.enter(&name[start..end], end);
            start = end + 1;
        }
        self.latest.clear();
        self.latest.extend_from_slice(name);
        self.insert_leaf(&name[start..])
    }

    /// What is known of a name: a metric, a directory or both.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Child> {
        let mut directory = Some(self.root);
        let mut found = None;
        for text in name.split(|byte| *byte == b'.') {
            let (_, child) = self.child(directory?, text)?;
            directory = child.directory();
            found = Some(child);
        }
        found
    }

    /// Takes a metric out, and the directories that lead nowhere then; false when it was not there.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        let mut way: Vec<(u32, At, Child)> = Vec::new();
        let mut below = Some(self.root);
        for text in name.split(|byte| *byte == b'.') {
            let Some(directory) = below else { return false };
            let Some((at, child)) = self.child(directory, text) else { return false };
            below = child.directory();
            way.push((directory, at, child));
        }
        let Some((directory, at, child)) = way.pop().filter(|(_, _, child)| child.is_leaf()) else {
            return false;
        };
        self.leaves -= 1;
        self.changes += 1;
        self.removals += 1;
        self.trail.clear();
        self.latest.clear();
        self.prune(directory, at, child.with_leaf(false), way);
        true
    }

    /// Writes a child that lost something; when nothing is left of it, it goes, and its directory
    /// when that is empty then, and so on upwards.
    fn prune(&mut self, mut directory: u32, mut at: At, mut child: Child, mut way: Vec<(u32, At, Child)>) {
        while !child.is_leaf() && child.directory().is_none() {
            let left = self.children.remove(directory, at);
            self.components.release(child.component);
            let Some((above, place, own)) = way.pop() else {
                self.root = left;
                return;
            };
            let empty = self.children.is_empty(left);
            if empty {
                self.children.release(left);
                self.directories -= 1;
            }
            (directory, at, child) = (above, place, own.with_directory((!empty).then_some(left)));
        }
        self.children.set(directory, at, child);
    }

    fn child(&self, directory: u32, text: &[u8]) -> Option<(At, Child)> {
        self.children.find(directory, &self.components, self.components.find(text)?)
    }

    /// Goes down into a directory, made when it is not there. `end` is where its text ends.
    fn enter(&mut self, text: &[u8], end: usize) {
        let directory = self.here();
        let place = self.children.search(directory, &self.components, text);
        let known = place.ok().and_then(|at| self.children.get(directory, at));
        if let Some((at, child)) = known
            && let Some(directory) = child.directory()
        {
            self.trail.push(Crumb { end, directory, at });
            return;
        }
        let below = self.children.create();
        let at = match (known, place) {
            (Some((at, child)), _) => {
                self.children.set(directory, at, child.with_directory(Some(below)));
                at
            }
            (None, Ok(at) | Err(at)) => {
                let child = Child::new(self.components.acquire(text)).with_directory(Some(below));
                self.add(at, child)
            }
        };
        self.directories += 1;
        self.changes += 1;
        self.trail.push(Crumb { end, directory: below, at });
    }

    fn insert_leaf(&mut self, text: &[u8]) -> bool {
        let directory = self.here();
        match self.children.search(directory, &self.components, text) {
            Ok(at) => {
                let Some((at, child)) = self.children.get(directory, at) else { return false };
                if child.is_leaf() {
                    return false;
                }
                self.children.set(directory, at, child.with_leaf(true));
            }
            Err(at) => {
                let child = Child::new(self.components.acquire(text)).with_leaf(true);
                self.add(at, child);
            }
        }
        self.leaves += 1;
        self.changes += 1;
        true
    }

    /// The directory at the end of the trail.
    fn here(&self) -> u32 {
        self.trail.last().map_or(self.root, |crumb| crumb.directory)
    }

    /// Adds a child to the directory at the end of the trail, and tells the one above where it is
    /// now. Gives the child's place.
    fn add(&mut self, at: At, child: Child) -> At {
        let (directory, at) = self.children.insert(self.here(), at, child);
        match self.trail.split_last_mut() {
            None => self.root = directory,
            Some((last, above)) => {
                last.directory = directory;
                let above = above.last().map_or(self.root, |crumb| crumb.directory);
                if let Some((at, own)) = self.children.get(above, last.at) {
                    self.children.set(above, at, own.with_directory(Some(directory)));
                }
            }
        }
        at
    }
}
