//! Searches the tree along a pattern, in the byte order of full paths.
//!
//! A search releases the lock of the tree after each round. If the tree has changed meanwhile, it finds its
//! positions again by their texts.
//!
//! Order: `a-b.x` comes before `a.x`, since `-` is smaller than the dot. So a directory `a` is entered only
//! after those of its siblings that begin with `a` followed by a byte smaller than the dot. Until then it
//! waits.

use plumbago_model::glob::{Path, States};

use crate::children::{At, Child};
use crate::plan::{WalkPlan, Way};
use crate::trie::Trie;

/// Maximum number of nodes visited in one round. Between two rounds the lock is released.
const VISITS_PER_TURN: usize = if cfg!(test) { 3 } else { 8192 };
/// Maximum number of results of one round.
const FOUND_PER_TURN: usize = 4096;
const TEXT_BYTES_PER_TURN: usize = 1 << 20;

/// This many bytes of results count as one visited node.
const BYTES_PER_VISIT: usize = 256;
/// The number of children whose subdirectories are checked together.
const AHEAD: usize = 16;

/// The nodes that a search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    Nodes,
    Leaves,
}

/// The results of one round of a search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    text: String,
    nodes: Vec<(u32, bool, bool)>,
}

impl Found {
    /// The path of each result, and whether it is a metric and whether it is a directory.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, bool, bool)> {
        let mut start = 0;
        self.nodes.iter().map(move |(end, leaf, branch)| {
            let path = &self.text[start..*end as usize];
            start = *end as usize;
            (path, *leaf, *branch)
        })
    }

    fn is_full(&self) -> bool {
        self.nodes.len() >= FOUND_PER_TURN || self.text.len() >= TEXT_BYTES_PER_TURN
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.nodes.clear();
    }
}

/// A search along one path.
#[derive(Debug)]
pub(crate) struct Walk<'p> {
    plan: WalkPlan<'p>,
    want: Want,
    frames: Vec<Frame>,
    waiting: Vec<Waiting>,
    /// The path of the directory in frame number `written`, with its trailing dot.
    path: String,
    written: usize,
    changes: u64,
    removals: u64,
}

/// A directory that the search is in.
#[derive(Debug)]
struct Frame {
    directory: u32,
    /// The component of the directory.
    component: u32,
    /// The length of the path with its trailing dot, once it is written.
    base: usize,
    states: States,
    way: Way,
    /// The next child of a scan, or the next exact text.
    at: At,
    text: usize,
    /// The number of children from `at` on for which `leads` is filled in.
    ahead: usize,
    leads_on: u32,
    /// The number of waiting directories in the frames above.
    waiting: usize,
    /// The last thing done in this round. The next round continues after the text of that child.
    latest: Option<Latest>,
    resume: Option<Vec<u8>>,
}

/// The last thing done in a directory.
#[derive(Debug, Clone, Copy)]
enum Latest {
    /// A child was visited.
    Taken(u32),
    /// A directory was entered; everything that is sorted before its children is done.
    Entered(u32),
}

/// A directory that is entered after those siblings that are sorted before its children.
#[derive(Debug)]
struct Waiting {
    component: u32,
    directory: u32,
    states: States,
    resume: Box<[u8]>,
}

impl<'p> Walk<'p> {
    pub(crate) fn new(path: &'p Path, want: Want, trie: &Trie) -> Self {
        let mut walk = Self {
            plan: WalkPlan::new(path, &trie.components),
            want,
            frames: Vec::new(),
            waiting: Vec::new(),
            path: String::new(),
            written: 0,
            changes: trie.changes(),
            removals: trie.removals(),
        };
        if !walk.plan.is_hopeless() {
            let states = walk.plan.start();
            walk.push(trie, trie.root(), 0, states);
        }
        walk
    }

    /// Runs one round. Returns `false` at the end. `visits` is the number of nodes that the search may still
    /// visit; it is 0 afterwards if it was not enough.
    pub(crate) fn round(&mut self, trie: &Trie, found: &mut Found, visits: &mut usize) -> bool {
        self.resume(trie);
        let stop = visits.saturating_sub(VISITS_PER_TURN);
        while !self.frames.is_empty() {
            if *visits <= stop || found.is_full() {
                self.pause(trie);
                return true;
            }
            let cost = 1 + self.step(trie, found);
            *visits = visits.saturating_sub(cost);
        }
        false
    }

    /// Visits a child, or enters or leaves a directory. Returns the additional cost in visits.
    #[inline]
    fn step(&mut self, trie: &Trie, found: &mut Found) -> usize {
        let mut cost = self.skip(trie);
        if cost > 0 {
            return cost;
        }
        let candidate = self.candidate(trie, &mut cost);
        let Some(frame) = self.frames.last_mut() else { return cost };
        if self.waiting.len() > frame.waiting
            && let Some(first) = self.waiting.last()
            && candidate.is_none_or(|(_, child)| !comes_before(trie, child.component, first.component))
            && let Some(next) = self.waiting.pop()
        {
            frame.latest = Some(Latest::Entered(next.component));
            self.push(trie, next.directory, next.component, next.states);
            return cost;
        }
        let Some((at, child)) = candidate else {
            self.frames.pop();
            self.written = self.written.min(self.frames.len().saturating_sub(1));
            return cost;
        };
        frame.at = at.next();
        frame.text += 1;
        frame.ahead = frame.ahead.saturating_sub(1);
        frame.leads_on >>= 1;
        frame.latest = Some(Latest::Taken(child.component));
        let states = self.plan.next(frame.states, &trie.components, child.component);
        let below = self.plan.unfinished(states);
        if self.plan.accepts(states) && (self.want == Want::Nodes || child.is_leaf()) {
            cost += self.emit(trie, child, found) / BYTES_PER_VISIT;
        }
        if let Some(directory) = child.directory()
            && !below.is_empty()
        {
            let (component, resume) = (child.component, Box::default());
            self.waiting.push(Waiting { component, directory, states: below, resume });
        }
        cost + self.plan.take_cost()
    }

    /// Skips children that cannot match. Returns the cost in visits.
    ///
    /// Several children are checked at once, so that the processor loads their memory in parallel. Such a
    /// search spends most of its time waiting for memory.
    #[inline]
    fn skip(&mut self, trie: &Trie) -> usize {
        let Some(frame) = self.frames.last_mut().filter(|frame| frame.way == Way::Scan) else { return 0 };
        if self.plan.chain(frame.states).is_none() {
            return 0;
        }
        if frame.ahead == 0 {
            look_ahead(&mut self.plan, trie, frame);
        }
        let dead = (frame.leads_on.trailing_zeros() as usize).min(frame.ahead);
        for _ in 0..dead {
            frame.at = trie.children.get(frame.directory, frame.at).map_or(frame.at, |(at, _)| at.next());
        }
        frame.ahead -= dead;
        frame.leads_on = frame.leads_on.checked_shr(dead as u32).unwrap_or(0);
        if dead > 0 { dead + self.plan.take_cost() } else { 0 }
    }

    /// The next child of the innermost directory; it is not consumed.
    #[inline]
    fn candidate(&mut self, trie: &Trie, cost: &mut usize) -> Option<(At, Child)> {
        let frame = self.frames.last_mut()?;
        match frame.way {
            Way::Scan => next_child(trie, frame.directory, frame.at, self.plan.prefix(frame.states)),
            Way::Literals(step) => {
                let texts = self.plan.literals(step);
                while let Some(text) = texts.get(frame.text) {
                    let known =
                        text.and_then(|text| trie.children.find(frame.directory, &trie.components, text));
                    if known.is_some() {
                        return known;
                    }
                    frame.text += 1;
                    *cost += 1;
                }
                None
            }
        }
    }

    fn push(&mut self, trie: &Trie, directory: u32, component: u32, states: States) {
        let way = self.plan.way(states, |count| trie.children.is_longer(directory, count));
        let mut frame = Frame {
            directory,
            component,
            base: 0,
            states,
            way,
            at: At::default(),
            text: 0,
            ahead: 0,
            leads_on: 0,
            waiting: self.waiting.len(),
            latest: None,
            resume: None,
        };
        frame.at = start(trie, &frame, self.plan.prefix(states));
        self.frames.push(frame);
    }

    /// Adds a result. Returns its length in bytes.
    fn emit(&mut self, trie: &Trie, child: Child, found: &mut Found) -> usize {
        let before = found.text.len();
        self.write_path(trie);
        found.text.push_str(&self.path);
        found.text.push_str(text(trie, child.component));
        found.nodes.push((found.text.len() as u32, child.is_leaf(), child.directory().is_some()));
        found.text.len() - before
    }

    /// Writes the path of the innermost directory. This is done late, because most directories have no result.
    #[inline]
    fn write_path(&mut self, trie: &Trie) {
        while self.written + 1 < self.frames.len() {
            self.path.truncate(self.frames[self.written].base);
            self.written += 1;
            let frame = &mut self.frames[self.written];
            self.path.push_str(text(trie, frame.component));
            self.path.push('.');
            frame.base = self.path.len();
        }
        self.path.truncate(self.frames.last().map_or(0, |frame| frame.base));
    }

    /// Saves the texts of all positions before the lock is released.
    fn pause(&mut self, trie: &Trie) {
        self.write_path(trie);
        for frame in &mut self.frames {
            match frame.latest.take() {
                Some(Latest::Taken(child)) => frame.resume = Some(trie.components.text(child).into()),
                Some(Latest::Entered(child)) => {
                    frame.resume = Some([trie.components.text(child), b"."].concat());
                }
                None => {}
            }
        }
        for waiting in &mut self.waiting {
            waiting.resume = trie.components.text(waiting.component).into();
        }
    }

    /// Finds all positions again if the tree has changed. Entries that were removed are skipped.
    fn resume(&mut self, trie: &Trie) {
        if self.changes == trie.changes() {
            return;
        }
        self.plan.resolve(&trie.components, self.removals != trie.removals());
        (self.changes, self.removals) = (trie.changes(), trie.removals());
        self.find_directories(trie);
        for number in 0..self.frames.len() {
            let prefix = self.plan.prefix(self.frames[number].states);
            let frame = &mut self.frames[number];
            frame.at = start(trie, frame, prefix);
            frame.ahead = 0;
        }
        let mut kept = Vec::with_capacity(self.waiting.len());
        let mut waiting = std::mem::take(&mut self.waiting).into_iter().enumerate().peekable();
        for number in 0..self.frames.len() {
            let end = self.frames.get(number + 1).map_or(usize::MAX, |next| next.waiting);
            self.frames[number].waiting = kept.len();
            while let Some((_, mut place)) = waiting.next_if(|(index, _)| *index < end) {
                if let Some((component, below)) = below(trie, self.frames[number].directory, &place.resume) {
                    (place.component, place.directory) = (component, below);
                    kept.push(place);
                }
            }
        }
        self.waiting = kept;
    }

    /// Finds the directories of the path again. If one was removed, the frames below it are dropped.
    fn find_directories(&mut self, trie: &Trie) {
        if let Some(root) = self.frames.first_mut() {
            root.directory = trie.root();
        }
        for number in 1..self.frames.len() {
            let (above, base) = (&self.frames[number - 1], self.frames[number].base);
            let text = self.path.get(above.base..base.saturating_sub(1)).unwrap_or_default();
            match below(trie, above.directory, text.as_bytes()) {
                Some((component, directory)) => {
                    self.frames[number].component = component;
                    self.frames[number].directory = directory;
                }
                None => {
                    self.waiting.truncate(self.frames[number].waiting);
                    self.frames.truncate(number);
                    break;
                }
            }
        }
        self.written = self.frames.len().saturating_sub(1);
        self.path.truncate(self.frames.last().map_or(0, |frame| frame.base));
    }
}

/// Checks for the next children of a frame whether they match, and whether the components that must follow
/// exist.
fn look_ahead(plan: &mut WalkPlan<'_>, trie: &Trie, frame: &mut Frame) {
    let prefix = plan.prefix(frame.states);
    let mut at = frame.at;
    let mut below = [None; AHEAD];
    frame.ahead = 0;
    for place in &mut below {
        let Some((found, child)) = next_child(trie, frame.directory, at, prefix) else { break };
        if !plan.next(frame.states, &trie.components, child.component).is_empty() {
            *place = child.directory();
        }
        at = found.next();
        frame.ahead += 1;
    }
    let Some(chain) = plan.chain(frame.states) else { return };
    for (number, component) in chain.components.iter().enumerate() {
        let is_last = chain.is_end && number + 1 == chain.components.len();
        frame.leads_on = 0;
        trie.children.touch(&below);
        for (bit, place) in below.iter_mut().enumerate() {
            let found = place.and_then(|place| trie.children.find(place, &trie.components, *component));
            *place = found.and_then(|(_, child)| child.directory());
            frame.leads_on |= u32::from(place.is_some() || is_last && found.is_some()) << bit;
        }
    }
}

/// The child at a position, if its text begins with a prefix.
#[inline]
fn next_child(trie: &Trie, directory: u32, at: At, prefix: &[u8]) -> Option<(At, Child)> {
    let (at, child) = trie.children.get(directory, at)?;
    let fits = prefix.is_empty() || trie.components.text(child.component).starts_with(prefix);
    fits.then_some((at, child))
}

/// The position where a frame continues: after the last child that it has visited, or at its first one.
fn start(trie: &Trie, frame: &Frame, prefix: &[u8]) -> At {
    let search = |text: &[u8]| trie.children.search(frame.directory, &trie.components, text);
    match &frame.resume {
        Some(behind) => search(behind).map_or_else(|at| at, At::next),
        None if prefix.is_empty() => At::default(),
        None => search(prefix).unwrap_or_else(|at| at),
    }
}

/// The number of a component and of its directory.
fn below(trie: &Trie, directory: u32, text: &[u8]) -> Option<(u32, u32)> {
    let component = trie.components.find(text)?;
    let (_, child) = trie.children.find(directory, &trie.components, component)?;
    Some((component, child.directory()?))
}

/// Whether a component is sorted before everything below a directory that precedes it.
#[inline]
fn comes_before(trie: &Trie, component: u32, directory: u32) -> bool {
    let rest = trie.components.text(component).strip_prefix(trie.components.text(directory));
    rest.and_then(|rest| rest.first()).is_some_and(|byte| *byte < b'.')
}

#[inline]
fn text(trie: &Trie, component: u32) -> &str {
    // Components are made from text, so this never fails.
    std::str::from_utf8(trie.components.text(component)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
