//! The tree of names: inserting, looking up and removing. [`crate::walk`] searches it.

use crate::children::{At, Child, Children};
use crate::components::Components;
use crate::shape::Mixer;

/// Names as a tree of components. Every directory contains at least one metric.
#[derive(Debug)]
pub(crate) struct Trie {
    pub(crate) components: Components,
    pub(crate) children: Children,
    /// The root directory.
    root: u32,
    leaves: usize,
    directories: usize,
    changes: u64,
    removals: u64,
    mixer: Mixer,
    /// The last name that was inserted, and the directories on its path, because the next name often shares
    /// most of them.
    latest: Vec<u8>,
    trail: Vec<Crumb>,
}

/// A directory on the path of a name.
#[derive(Debug, Clone, Copy)]
struct Crumb {
    /// The end of its component in the name.
    end: usize,
    directory: u32,
    /// The position in its parent directory.
    at: At,
    /// The shape that was used to compute the shape of its parent.
    counted: u64,
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
            mixer: Mixer::new(),
            latest: Vec::new(),
            trail: Vec::new(),
        }
    }

    /// The root directory.
    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    /// The number of metrics.
    pub(crate) fn leaves(&self) -> usize {
        self.leaves
    }

    /// The number of directories, without the root.
    pub(crate) fn directories(&self) -> usize {
        self.directories
    }

    /// A counter of changes. While it stays the same, all numbers and positions stay valid.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// A counter of removals. While it stays the same, the numbers of components stay valid.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let trail = self.latest.capacity() + self.trail.capacity() * size_of::<Crumb>();
        self.components.memory_bytes() + self.children.memory_bytes() + trail
    }

    /// Inserts a name without empty components. Returns `false` if it existed.
    pub(crate) fn insert(&mut self, name: &[u8]) -> bool {
        let shared = self.latest.iter().zip(name).take_while(|(a, b)| a == b).count();
        // The new name is in a directory of the latest name if both names are equal up to and including the
        // dot after that directory.
        while self.trail.last().is_some_and(|crumb| crumb.end >= shared) {
            self.count_in(self.trail.len() - 1);
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

    /// Updates the shapes of all directories after insertions. A search must not begin before this.
    ///
    /// Insertions leave this work to the next name, because consecutive names often share most of their
    /// directories.
    pub(crate) fn update_shapes(&mut self) {
        for place in (0..self.trail.len()).rev() {
            self.count_in(place);
        }
    }

    /// The shape of a directory: a hash of everything below it. Directories with the same names below, and
    /// the same metrics and directories among them, have the same shape. It has 56 bits, so two different
    /// directories have the same shape only with a chance of one in 2^56.
    #[inline]
    pub(crate) fn shape(&self, directory: u32) -> u64 {
        debug_assert!(
            self.trail.iter().all(|crumb| crumb.counted == self.children.shape(crumb.directory)),
            "the tree is settled"
        );
        self.children.shape(directory)
    }

    /// The entry of a name: a metric, a directory or both.
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

    /// Removes a metric, and the directories that become empty. Returns `false` if there was no such metric.
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
        self.update_shapes();
        self.leaves -= 1;
        self.changes += 1;
        self.removals += 1;
        self.trail.clear();
        self.latest.clear();
        let part = self.part(child);
        self.prune((directory, at, child.with_leaf(false)), part, way);
        true
    }

    /// Writes a changed child, whose part in its directory's shape was `part`. If it is no longer a metric or a
    /// directory, it is removed, and so are the parent directories that become empty.
    fn prune(&mut self, changed: (u32, At, Child), mut part: u64, mut way: Vec<(u32, At, Child)>) {
        let (mut directory, mut at, mut child) = changed;
        loop {
            let before = self.children.shape(directory);
            let is_gone = !child.is_leaf() && child.directory().is_none();
            let left = if is_gone {
                self.components.release(child.component);
                self.children.remove(directory, at)
            } else {
                self.children.set(directory, at, child);
                directory
            };
            let new = if is_gone { 0 } else { self.part(child) };
            self.children.set_shape(left, before.wrapping_sub(part).wrapping_add(new));
            let Some((above, place, own)) = way.pop() else {
                self.root = left;
                return;
            };
            part = self.mixer.part(own, before);
            let is_empty = self.children.is_empty(left);
            if is_empty {
                self.children.release(left);
                self.directories -= 1;
            }
            (directory, at, child) = (above, place, own.with_directory((!is_empty).then_some(left)));
        }
    }

    /// The part of a child in the shape of its directory.
    fn part(&self, child: Child) -> u64 {
        self.mixer.part(child, child.directory().map_or(0, |below| self.children.shape(below)))
    }

    /// Updates the shape of the parent of a directory on the trail.
    #[inline]
    fn count_in(&mut self, place: usize) {
        let Crumb { directory, at, counted, .. } = self.trail[place];
        let shape = self.children.shape(directory);
        if shape == counted {
            return;
        }
        self.trail[place].counted = shape;
        let above = place.checked_sub(1).map_or(self.root, |place| self.trail[place].directory);
        if let Some((_, own)) = self.children.get(above, at) {
            self.replace_part(above, self.mixer.part(own, counted), self.mixer.part(own, shape));
        }
    }

    /// Replaces a child's part in the shape of a directory; 0 for a child that does not exist.
    #[inline]
    fn replace_part(&mut self, directory: u32, old: u64, new: u64) {
        let shape = self.children.shape(directory).wrapping_sub(old).wrapping_add(new);
        self.children.set_shape(directory, shape);
    }

    fn child(&self, directory: u32, text: &[u8]) -> Option<(At, Child)> {
        self.children.find(directory, &self.components, self.components.find(text)?)
    }

    /// Enters a directory, and creates it if necessary. `end` is the end of its component in the name.
    fn enter(&mut self, text: &[u8], end: usize) {
        let directory = self.here();
        let place = self.children.search(directory, &self.components, text);
        let known = place.ok().and_then(|at| self.children.get(directory, at));
        if let Some((at, child)) = known
            && let Some(directory) = child.directory()
        {
            self.trail.push(Crumb { end, directory, at, counted: self.children.shape(directory) });
            return;
        }
        let below = self.children.create();
        let old = known.map_or(0, |(_, child)| self.part(child));
        let at = match (known, place) {
            (Some((at, child)), _) => {
                self.set(at, child.with_directory(Some(below)), old);
                at
            }
            (None, Ok(at) | Err(at)) => {
                let child = Child::new(self.components.acquire(text)).with_directory(Some(below));
                self.add(at, child)
            }
        };
        self.directories += 1;
        self.changes += 1;
        self.trail.push(Crumb { end, directory: below, at, counted: 0 });
    }

    fn insert_leaf(&mut self, text: &[u8]) -> bool {
        let directory = self.here();
        match self.children.search(directory, &self.components, text) {
            Ok(at) => {
                let Some((at, child)) = self.children.get(directory, at) else { return false };
                if child.is_leaf() {
                    return false;
                }
                self.set(at, child.with_leaf(true), self.part(child));
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

    /// The directory at the end of the path.
    fn here(&self) -> u32 {
        self.trail.last().map_or(self.root, |crumb| crumb.directory)
    }

    /// Replaces a child of the directory at the end of the path. `old` was its part in the shape.
    fn set(&mut self, at: At, child: Child, old: u64) {
        let directory = self.here();
        self.children.set(directory, at, child);
        self.replace_part(directory, old, self.part(child));
    }

    /// Adds a child to the directory at the end of the path, and updates the number of this directory in its
    /// parent. Returns the child's position.
    fn add(&mut self, at: At, child: Child) -> At {
        let (directory, at) = self.children.insert(self.here(), at, child);
        self.replace_part(directory, 0, self.part(child));
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
