//! The tree of names: insert, look up, remove. Searching it is in [`crate::walk`].

use crate::children::{At, Child, Children};
use crate::components::Components;

/// The directory that all names start in.
pub(crate) const ROOT: u32 = 0;

/// Names as a tree of components. Every directory leads to at least one metric.
#[derive(Debug)]
pub(crate) struct Trie {
    pub(crate) components: Components,
    pub(crate) children: Children,
    leaves: usize,
    directories: usize,
    changes: u64,
    removals: u64,
    /// The latest name and the directories on its way, each with the bytes of its name: the next
    /// name often shares most of them.
    latest: Vec<u8>,
    trail: Vec<(usize, u32)>,
}

impl Trie {
    pub(crate) fn new() -> Self {
        let mut children = Children::new();
        let root = children.create();
        debug_assert_eq!(root, ROOT);
        Self {
            components: Components::new(),
            children,
            leaves: 0,
            directories: 0,
            changes: 0,
            removals: 0,
            latest: Vec::new(),
            trail: Vec::new(),
        }
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

    /// Grows with every removal. While it stays, the numbers of components and directories stay.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let trail = self.latest.capacity() + self.trail.capacity() * size_of::<(usize, u32)>();
        self.components.memory_bytes() + self.children.memory_bytes() + trail
    }

    /// Adds a name without empty components; false when it was there.
    pub(crate) fn insert(&mut self, name: &[u8]) -> bool {
        let shared = self.latest.iter().zip(name).take_while(|(a, b)| a == b).count();
        // A directory is shared when the dot behind it is.
        while self.trail.last().is_some_and(|(end, _)| *end >= shared) {
            self.trail.pop();
        }
        let (mut start, mut directory) = self.trail.last().map_or((0, ROOT), |(end, dir)| (end + 1, *dir));
        while let Some(length) = name[start..].iter().position(|byte| *byte == b'.') {
            let end = start + length;
            directory = self.enter(directory, &name[start..end]);
            self.trail.push((end, directory));
            start = end + 1;
        }
        self.latest.clear();
        self.latest.extend_from_slice(name);
        self.insert_leaf(directory, &name[start..])
    }

    /// What is known of a name: a metric, a directory or both.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Child> {
        let mut directory = Some(ROOT);
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
        let mut below = Some(ROOT);
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
            self.children.remove(directory, at);
            self.components.release(child.component);
            if directory == ROOT || !self.children.is_empty(directory) {
                return;
            }
            self.children.release(directory);
            self.directories -= 1;
            let Some((parent, place, entry)) = way.pop() else { return };
            (directory, at, child) = (parent, place, entry.with_directory(None));
        }
        self.children.set(directory, at, child);
    }

    fn child(&self, directory: u32, text: &[u8]) -> Option<(At, Child)> {
        self.children.find(directory, &self.components, self.components.find(text)?)
    }

    /// The directory below, made when it is not there.
    fn enter(&mut self, directory: u32, text: &[u8]) -> u32 {
        let place = self.children.search(directory, &self.components, text);
        let known = place.ok().and_then(|at| self.children.get(directory, at));
        if let Some(below) = known.and_then(|(_, child)| child.directory()) {
            return below;
        }
        let below = self.children.create();
        match (known, place) {
            (Some((at, child)), _) => self.children.set(directory, at, child.with_directory(Some(below))),
            (None, Ok(at) | Err(at)) => {
                let child = Child::new(self.components.acquire(text)).with_directory(Some(below));
                self.children.insert(directory, at, child);
            }
        }
        self.directories += 1;
        self.changes += 1;
        below
    }

    fn insert_leaf(&mut self, directory: u32, text: &[u8]) -> bool {
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
                self.children.insert(directory, at, child);
            }
        }
        self.leaves += 1;
        self.changes += 1;
        true
    }
}
