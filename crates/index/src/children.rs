//! What each directory holds, in byte order of the component.

use std::cmp::Ordering;

use crate::components::Components;
use crate::pool::Pool;

/// Most children in one run. Longer directories are cut into several runs, so that a new child
/// moves few others.
const RUN_MAX: usize = 128;
/// Up to this many children are looked through for a number; beyond, texts are compared.
const LOOK_THROUGH_MAX: usize = 32;
/// Stands in [`Run::length`] for a directory of several runs.
const WIDE: u32 = u32::MAX;
const LEAF: u32 = 1 << 31;

/// A name's step down: the component and what is there, a metric, a directory or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Child {
    /// The number of the text.
    pub(crate) component: u32,
    /// The number of the directory plus one, and the bit [`LEAF`].
    place: u32,
}

impl Child {
    pub(crate) fn new(component: u32) -> Self {
        Self { component, place: 0 }
    }

    #[inline]
    pub(crate) fn is_leaf(self) -> bool {
        self.place & LEAF != 0
    }

    #[inline]
    pub(crate) fn directory(self) -> Option<u32> {
        (self.place & !LEAF).checked_sub(1)
    }

    pub(crate) fn with_leaf(self, leaf: bool) -> Self {
        Self { place: self.place & !LEAF | if leaf { LEAF } else { 0 }, ..self }
    }

    pub(crate) fn with_directory(self, directory: Option<u32>) -> Self {
        Self { place: self.place & LEAF | directory.map_or(0, |number| number + 1), ..self }
    }
}

/// A place among the children of a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct At {
    run: u32,
    index: u32,
}

impl At {
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self { index: self.index + 1, ..self }
    }
}

/// A sorted piece of a directory.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    start: u32,
    length: u32,
}

/// The children of all directories. A directory with one run is that run; one with several has
/// its runs in `wide`.
#[derive(Debug)]
pub(crate) struct Children {
    directories: Pool<Run>,
    children: Pool<Child>,
    wide: Vec<Vec<Run>>,
    wide_free: Vec<u32>,
}

impl Children {
    pub(crate) fn new() -> Self {
        Self { directories: Pool::new(), children: Pool::new(), wide: Vec::new(), wide_free: Vec::new() }
    }

    /// A new directory without children.
    pub(crate) fn create(&mut self) -> u32 {
        let run = Run { start: self.children.allocate(0), length: 0 };
        let directory = self.directories.allocate(1);
        self.set_run(directory, run);
        directory
    }

    /// Takes an empty directory away.
    pub(crate) fn release(&mut self, directory: u32) {
        let run = self.runs(directory)[0];
        self.children.release(run.start, run.length as usize);
        self.directories.release(directory, 1);
    }

    pub(crate) fn is_empty(&self, directory: u32) -> bool {
        matches!(self.runs(directory), [Run { length: 0, .. }])
    }

    /// True when the directory has surely more than `count` children.
    #[inline]
    pub(crate) fn is_longer(&self, directory: u32, count: usize) -> bool {
        let runs = self.runs(directory);
        runs.len() > 1 && runs.len() * RUN_MAX / 2 > count || runs[0].length as usize > count
    }

    /// The child at a place, and the place itself when it was behind the end of a run.
    #[inline]
    pub(crate) fn get(&self, directory: u32, at: At) -> Option<(At, Child)> {
        let runs = self.runs(directory);
        let run = runs.get(at.run as usize)?;
        if at.index < run.length {
            return Some((at, self.run(*run)[at.index as usize]));
        }
        let run = runs.get(at.run as usize + 1)?;
        Some((At { run: at.run + 1, index: 0 }, *self.run(*run).first()?))
    }

    /// Where a text is, or where it belongs.
    pub(crate) fn search(&self, directory: u32, components: &Components, text: &[u8]) -> Result<At, At> {
        let compare = |child: &Child| components.text(child.component).cmp(text);
        let runs = self.runs(directory);
        let starts_before = |run: &Run| self.run(*run).first().is_some_and(|c| compare(c).is_le());
        let number = match runs {
            [_] => 0,
            _ => runs.partition_point(starts_before).saturating_sub(1),
        };
        let run = self.run(runs[number]);
        let at = |index: usize| At { run: number as u32, index: index as u32 };
        // Names often come sorted.
        if run.last().is_none_or(|last| compare(last) == Ordering::Less) {
            return Err(at(run.len()));
        }
        run.binary_search_by(compare).map(at).map_err(at)
    }

    /// The child with a component, given by number and text.
    #[inline]
    pub(crate) fn find(
        &self,
        directory: u32,
        components: &Components,
        component: u32,
    ) -> Option<(At, Child)> {
        let runs = self.runs(directory);
        if let [run] = runs
            && run.length as usize <= LOOK_THROUGH_MAX
        {
            let run = self.run(*run);
            let index = run.iter().position(|child| child.component == component)?;
            return Some((At { run: 0, index: index as u32 }, run[index]));
        }
        let at = self.search(directory, components, components.text(component)).ok()?;
        self.get(directory, at)
    }

    /// Replaces the child at a place by one with the same component.
    pub(crate) fn set(&mut self, directory: u32, at: At, child: Child) {
        let run = self.runs(directory)[at.run as usize];
        self.children.get_mut(run.start, run.length as usize)[at.index as usize] = child;
    }

    /// Puts a child where [`Children::search`] said it belongs.
    pub(crate) fn insert(&mut self, directory: u32, at: At, child: Child) {
        let (number, index) = (at.run as usize, at.index as usize);
        let run = self.runs(directory)[number];
        let length = run.length as usize;
        if length < RUN_MAX {
            let start = self.children.insert(run.start, length, index, child);
            self.replace(directory, number, Run { start, length: run.length + 1 });
            return;
        }
        // A full run that grows at its end, as with sorted names, stays full.
        let keep = if index == length { length } else { length / 2 };
        let moved = length - keep;
        let upper = Run { start: self.children.allocate(moved), length: moved as u32 };
        for offset in 0..moved {
            let child = self.children.get(run.start, length)[keep + offset];
            self.children.get_mut(upper.start, moved)[offset] = child;
        }
        let lower = Run { start: self.children.resize(run.start, length, keep), length: keep as u32 };
        self.replace(directory, number, lower);
        self.add_run(directory, number + 1, upper);
        let at = if index > keep || moved == 0 {
            At { run: at.run + 1, index: (index - keep) as u32 }
        } else {
            at
        };
        self.insert(directory, at, child);
    }

    /// Takes a child out.
    pub(crate) fn remove(&mut self, directory: u32, at: At) {
        let number = at.run as usize;
        let run = self.runs(directory)[number];
        let start = self.children.remove(run.start, run.length as usize, at.index as usize);
        let left = Run { start, length: run.length - 1 };
        self.replace(directory, number, left);
        if left.length == 0 && self.runs(directory).len() > 1 {
            self.children.release(start, 0);
            self.drop_run(directory, number);
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let wide: usize = self.wide.iter().map(|runs| runs.capacity() * size_of::<Run>()).sum();
        let lists = self.wide.capacity() * size_of::<Vec<Run>>();
        self.directories.memory_bytes() + self.children.memory_bytes() + wide + lists
    }

    #[inline]
    fn runs(&self, directory: u32) -> &[Run] {
        let run = self.directories.get(directory, 1);
        if run[0].length == WIDE { &self.wide[run[0].start as usize] } else { run }
    }

    #[inline]
    fn run(&self, run: Run) -> &[Child] {
        self.children.get(run.start, run.length as usize)
    }

    fn set_run(&mut self, directory: u32, run: Run) {
        self.directories.get_mut(directory, 1)[0] = run;
    }

    fn wide_mut(&mut self, directory: u32) -> Option<&mut Vec<Run>> {
        let run = self.directories.get(directory, 1)[0];
        if run.length == WIDE { self.wide.get_mut(run.start as usize) } else { None }
    }

    fn replace(&mut self, directory: u32, number: usize, run: Run) {
        match self.wide_mut(directory) {
            Some(runs) => runs[number] = run,
            None => self.set_run(directory, run),
        }
    }

    fn add_run(&mut self, directory: u32, number: usize, run: Run) {
        if let Some(runs) = self.wide_mut(directory) {
            runs.insert(number, run);
            return;
        }
        let runs = vec![self.runs(directory)[0], run];
        let wide = match self.wide_free.pop() {
            Some(free) => {
                self.wide[free as usize] = runs;
                free
            }
            None => {
                self.wide.push(runs);
                self.wide.len() as u32 - 1
            }
        };
        self.set_run(directory, Run { start: wide, length: WIDE });
    }

    fn drop_run(&mut self, directory: u32, number: usize) {
        let wide = self.directories.get(directory, 1)[0].start;
        let runs = &mut self.wide[wide as usize];
        runs.remove(number);
        if let [only] = runs.as_slice() {
            let only = *only;
            *runs = Vec::new();
            self.wide_free.push(wide);
            self.set_run(directory, only);
        }
    }
}
