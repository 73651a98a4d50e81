//! The children of each directory, sorted by the bytes of their components.

use std::cmp::Ordering;

use crate::components::Components;
use crate::pool::Pool;

/// Maximum number of children in one run. A longer directory has several runs, so that an insertion moves few
/// children.
const RUN_MAX: usize = 128;
/// The longest run in which a component is searched by its number. In longer runs texts are compared (binary
/// search).
const LOOK_THROUGH_MAX: usize = 32;
/// This count in a header says that the directory has several runs.
const WIDE: u32 = 0xFF;
/// The bits of a header's `component` that count the children.
const COUNT_BITS: u32 = 8;
const _: () = assert!((RUN_MAX as u32) < WIDE && WIDE < 1 << COUNT_BITS);
/// The bits of a shape.
const SHAPE: u64 = (1 << 56) - 1;
const LEAF: u32 = 1 << 31;

/// An entry of a directory: a component, and what it is: a metric, a directory or both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Child {
    /// The number of the component's text.
    pub(crate) component: u32,
    /// The number of the directory plus one, and the bit [`LEAF`]. In a header, both fields have other
    /// meanings.
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

    /// The number of children, if this is a header.
    #[inline]
    fn count(self) -> usize {
        (self.component & WIDE) as usize
    }

    /// Whether this is the header of a directory with several runs.
    #[inline]
    fn is_wide(self) -> bool {
        self.component & WIDE == WIDE
    }
}

/// A position among the children of a directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct At {
    run: u32,
    index: u32,
}

impl At {
    #[inline]
    pub(crate) fn next(self) -> Self {
        self.after(1)
    }

    /// The position that is this many children later in the same run.
    #[inline]
    pub(crate) fn after(self, children: usize) -> Self {
        Self { index: self.index + children as u32, ..self }
    }
}

/// A sorted part of a directory: an array with a header. The low bits of its `component` are the number of children. A
/// run is identified by its start in the pool, so that reaching it takes one memory access.
type Run = u32;

/// A run of a long directory, with the component of its first child, so that the right run is found without
/// reading the others.
#[derive(Debug, Clone, Copy)]
struct Listed {
    run: Run,
    first: u32,
}

/// A directory with several runs.
#[derive(Debug, Default)]
struct Wide {
    runs: Vec<Listed>,
    shape: u64,
}

/// The children of all directories. A short directory is a single run. A long one is a header that refers to
/// a list of runs in `wide`. Adding or removing a child may change the number of the directory.
///
/// A directory also has a shape, 56 bits that the caller sets. The bits of a short directory are in its
/// header: the low 32 in `place`, the others above the number of children. So they need no extra memory.
#[derive(Debug)]
pub(crate) struct Children {
    arrays: Pool<Child>,
    wide: Vec<Wide>,
    wide_free: Vec<u32>,
}

impl Children {
    pub(crate) fn new() -> Self {
        Self { arrays: Pool::new(), wide: Vec::new(), wide_free: Vec::new() }
    }

    /// Makes a directory without children.
    pub(crate) fn create(&mut self) -> u32 {
        self.create_run(0)
    }

    /// Removes an empty directory.
    pub(crate) fn release(&mut self, directory: u32) {
        self.arrays.release(directory, 1);
    }

    pub(crate) fn is_empty(&self, directory: u32) -> bool {
        self.header(directory).count() == 0
    }

    /// Whether the directory certainly has more than `count` children.
    #[inline]
    pub(crate) fn is_longer(&self, directory: u32, count: usize) -> bool {
        match self.wide(directory) {
            Some(runs) => runs.len() * RUN_MAX / 2 > count,
            None => self.header(directory).count() > count,
        }
    }

    /// The shape of a directory: 0 until it is set.
    #[inline]
    pub(crate) fn shape(&self, directory: u32) -> u64 {
        let header = self.header(directory);
        if header.is_wide() {
            return self.wide.get(header.place as usize).map_or(0, |wide| wide.shape);
        }
        u64::from(header.component >> COUNT_BITS) << 32 | u64::from(header.place)
    }

    /// Sets the low 56 bits of a shape; the others are dropped.
    pub(crate) fn set_shape(&mut self, directory: u32, shape: u64) {
        let shape = shape & SHAPE;
        let header = self.header_mut(directory);
        if !header.is_wide() {
            header.place = shape as u32;
            header.component = header.component & WIDE | ((shape >> 32) as u32) << COUNT_BITS;
            return;
        }
        let place = header.place as usize;
        if let Some(wide) = self.wide.get_mut(place) {
            wide.shape = shape;
        }
    }

    /// The child at a position. The position is returned too, because the end of a run becomes the start of
    /// the next run.
    #[inline]
    pub(crate) fn get(&self, directory: u32, at: At) -> Option<(At, Child)> {
        if let Some(run) = self.narrow(directory) {
            return run.get(at.index as usize).map(|child| (at, *child));
        }
        let runs = self.wide(directory)?;
        let run = self.run(runs.get(at.run as usize)?.run);
        if let Some(child) = run.get(at.index as usize) {
            return Some((at, *child));
        }
        let next = self.run(runs.get(at.run as usize + 1)?.run);
        Some((At { run: at.run + 1, index: 0 }, *next.first()?))
    }

    /// The children from a position to the end of its run; there is at least one. The position is returned
    /// too, as by [`Children::get`].
    #[inline]
    pub(crate) fn rest(&self, directory: u32, at: At) -> Option<(At, &[Child])> {
        if let Some(run) = self.narrow(directory) {
            return run.get(at.index as usize..).filter(|rest| !rest.is_empty()).map(|rest| (at, rest));
        }
        let runs = self.wide(directory)?;
        let run = self.run(runs.get(at.run as usize)?.run);
        if let Some(rest) = run.get(at.index as usize..).filter(|rest| !rest.is_empty()) {
            return Some((at, rest));
        }
        let next = self.run(runs.get(at.run as usize + 1)?.run);
        Some((At { run: at.run + 1, index: 0 }, next)).filter(|(_, next)| !next.is_empty())
    }

    /// The position of a text (`Ok`), or the position at which to insert it (`Err`).
    pub(crate) fn search(&self, directory: u32, components: &Components, text: &[u8]) -> Result<At, At> {
        let compare = |component: u32| components.text(component).cmp(text);
        let (number, run) = match self.wide(directory) {
            None => (0, self.run(directory)),
            Some(runs) => {
                let behind = runs.partition_point(|listed| compare(listed.first).is_le());
                let number = behind.saturating_sub(1);
                (number, self.run(runs[number].run))
            }
        };
        let at = |index: usize| At { run: number as u32, index: index as u32 };
        // Fast path: names often arrive sorted.
        if run.last().is_none_or(|last| compare(last.component) == Ordering::Less) {
            return Err(at(run.len()));
        }
        run.binary_search_by(|child| compare(child.component)).map(at).map_err(at)
    }

    /// The child with this component, and its position.
    #[inline]
    pub(crate) fn find(
        &self,
        directory: u32,
        components: &Components,
        component: u32,
    ) -> Option<(At, Child)> {
        if let Some(run) = self.narrow(directory)
            && run.len() <= LOOK_THROUGH_MAX
        {
            let index = run.iter().position(|child| child.component == component)?;
            return Some((At { run: 0, index: index as u32 }, run[index]));
        }
        let at = self.search(directory, components, components.text(component)).ok()?;
        self.get(directory, at)
    }

    /// Loads directories into the processor's cache, all at once. Without this, searches would load them one
    /// after the other, because the processor cannot predict where a search ends.
    #[inline]
    pub(crate) fn touch(&self, directories: &[Option<u32>]) {
        let touched = directories.iter().flatten().fold(0, |sum, place| sum ^ self.header(*place).component);
        std::hint::black_box(touched);
    }

    /// Replaces the child at a position by one with the same component.
    pub(crate) fn set(&mut self, directory: u32, at: At, child: Child) {
        let run = self.run_of(directory, at.run as usize);
        self.run_mut(run)[at.index as usize] = child;
    }

    /// Inserts a child at the position that [`Children::search`] returned. Returns the directory's new number
    /// and the child's position.
    pub(crate) fn insert(&mut self, directory: u32, at: At, child: Child) -> (u32, At) {
        let (number, index) = (at.run as usize, at.index as usize);
        let run = self.run_of(directory, number);
        let length = self.run(run).len();
        if length < RUN_MAX {
            let moved = self.arrays.insert(run, length + 1, index + 1, child);
            self.header_mut(moved).component += 1;
            return (self.replace(directory, number, run, moved), at);
        }
        // A full run that grows at its end stays full, so that sorted names fill their runs.
        let keep = if index == length { length } else { length / 2 };
        let (lower, upper) = self.split(run, keep);
        let directory = self.replace(directory, number, run, lower);
        let directory = self.add_run(directory, number + 1, upper);
        let into_upper = index > keep || keep == length;
        let at = if into_upper { At { run: at.run + 1, index: (index - keep) as u32 } } else { at };
        self.insert(directory, at, child)
    }

    /// Removes a child. Returns the directory's new number.
    #[must_use]
    pub(crate) fn remove(&mut self, directory: u32, at: At) -> u32 {
        let number = at.run as usize;
        let run = self.run_of(directory, number);
        let length = self.run(run).len();
        let moved = self.arrays.remove(run, length + 1, at.index as usize + 1);
        self.header_mut(moved).component -= 1;
        let directory = self.replace(directory, number, run, moved);
        if length == 1 && self.wide(directory).is_some() {
            self.arrays.release(moved, 1);
            return self.drop_run(directory, number);
        }
        directory
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let wide: usize = self.wide.iter().map(|wide| wide.runs.capacity() * size_of::<Listed>()).sum();
        self.arrays.memory_bytes() + wide + self.wide.capacity() * size_of::<Wide>()
    }

    #[inline]
    fn header(&self, run: Run) -> Child {
        self.arrays.get(run, 1)[0]
    }

    fn header_mut(&mut self, run: Run) -> &mut Child {
        &mut self.arrays.get_mut(run, 1)[0]
    }

    /// The children of a directory with a single run.
    #[inline]
    fn narrow(&self, directory: u32) -> Option<&[Child]> {
        let header = self.header(directory);
        if header.is_wide() { None } else { Some(&self.arrays.get(directory, header.count() + 1)[1..]) }
    }

    /// The runs of a directory with several runs.
    #[inline]
    fn wide(&self, directory: u32) -> Option<&Vec<Listed>> {
        let header = self.header(directory);
        if header.is_wide() { Some(&self.wide.get(header.place as usize)?.runs) } else { None }
    }

    fn run_of(&self, directory: u32, number: usize) -> Run {
        self.wide(directory).map_or(directory, |runs| runs[number].run)
    }

    #[inline]
    fn run(&self, run: Run) -> &[Child] {
        &self.arrays.get(run, self.header(run).count() + 1)[1..]
    }

    fn run_mut(&mut self, run: Run) -> &mut [Child] {
        let length = self.header(run).count();
        &mut self.arrays.get_mut(run, length + 1)[1..]
    }

    fn create_run(&mut self, length: usize) -> Run {
        let run = self.arrays.allocate(length + 1);
        *self.header_mut(run) = Child { component: length as u32, place: 0 };
        run
    }

    /// Splits a run after its first `keep` children.
    fn split(&mut self, run: Run, keep: usize) -> (Run, Run) {
        let length = self.run(run).len();
        let upper = self.create_run(length - keep);
        let moved = self.run(run)[keep..].to_vec();
        self.run_mut(upper).copy_from_slice(&moved);
        let lower = self.arrays.resize(run, length + 1, keep + 1);
        self.header_mut(lower).component -= (length - keep) as u32;
        (lower, upper)
    }

    /// Updates the start and the first component of a run. Returns the directory's new number.
    fn replace(&mut self, directory: u32, number: usize, old: Run, new: Run) -> u32 {
        if old == directory {
            return new;
        }
        let listed = self.list(new);
        if let Some(wide) = self.wide_mut(directory) {
            wide.runs[number] = listed;
        }
        directory
    }

    fn list(&self, run: Run) -> Listed {
        Listed { run, first: self.run(run).first().map_or(0, |child| child.component) }
    }

    fn wide_mut(&mut self, directory: u32) -> Option<&mut Wide> {
        let header = self.header(directory);
        if header.is_wide() { self.wide.get_mut(header.place as usize) } else { None }
    }

    /// Adds a run, and a list of runs if the directory had only one. Returns the directory's new number.
    fn add_run(&mut self, directory: u32, number: usize, run: Run) -> u32 {
        let listed = self.list(run);
        if let Some(wide) = self.wide_mut(directory) {
            wide.runs.insert(number, listed);
            return directory;
        }
        let wide = Wide { runs: vec![self.list(directory), listed], shape: self.shape(directory) };
        let place = match self.wide_free.pop() {
            Some(free) => {
                self.wide[free as usize] = wide;
                free
            }
            None => {
                self.wide.push(wide);
                self.wide.len() as u32 - 1
            }
        };
        let directory = self.create_run(0);
        *self.header_mut(directory) = Child { component: WIDE, place };
        directory
    }

    /// Removes a run. If one run is left, it becomes the directory itself.
    fn drop_run(&mut self, directory: u32, number: usize) -> u32 {
        let place = self.header(directory).place;
        let wide = &mut self.wide[place as usize];
        wide.runs.remove(number);
        if let [only] = wide.runs.as_slice() {
            let (only, shape) = (only.run, wide.shape);
            *wide = Wide::default();
            self.wide_free.push(place);
            self.arrays.release(directory, 1);
            self.set_shape(only, shape);
            return only;
        }
        directory
    }
}
