//! The index with its locks: a tree of names, and the tagged series.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use plumbago_model::glob::{Path, Pattern, has_glob};
use plumbago_model::name::sanitize;
use plumbago_telemetry::Registry;

use crate::found::{FindError, FindLimits, Node, NodeRef};
use crate::metrics::Metrics;
use crate::tags::Tags;
use crate::trie::Trie;
use crate::walk::{Found, Walk, Want};

/// Maximum number of names that are inserted before the lock is released in between.
const NAMES_PER_TURN: usize = 256;
/// Maximum number of tagged series that are listed before the lock is released.
const SERIES_PER_TURN: usize = if cfg!(test) { 3 } else { 4096 };

/// All metrics. A glob holds the lock of the tree for at most about a millisecond at a time. A long search
/// releases it repeatedly, and may then miss or see changes made meanwhile. Tagged series have a separate
/// lock, which a search by tags holds until it ends.
pub struct Index {
    trie: RwLock<Trie>,
    tagged: RwLock<Tags>,
    /// The number of tagged series when their memory was last computed, and the sum in bytes.
    tagged_memory: Mutex<(usize, usize)>,
    readers_waiting: AtomicUsize,
    metrics: Metrics,
}

impl Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Index {
    /// Makes an empty index whose self-metrics are registered in `registry`.
    pub fn new(registry: &Registry) -> Self {
        let metrics = Metrics::new(registry);
        Self {
            trie: RwLock::new(Trie::new()),
            tagged: RwLock::new(Tags::new()),
            tagged_memory: Mutex::default(),
            readers_waiting: AtomicUsize::new(0),
            metrics,
        }
    }

    /// Inserts names, and returns how many were new. Invalid names are skipped and counted in a self-metric.
    ///
    /// Sorted names are inserted several times faster.
    pub fn insert<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> usize {
        let mut names = names.into_iter();
        let mut batch: Vec<&str> = Vec::new();
        let mut new = 0;
        loop {
            batch.clear();
            batch.extend(names.by_ref().take(NAMES_PER_TURN));
            if batch.is_empty() {
                self.report();
                return new;
            }
            new += self.insert_batch(&batch);
            // Without this, the thread would take the lock again before a waiting reader wakes up.
            if self.readers_waiting.load(Ordering::Relaxed) > 0 {
                std::thread::yield_now();
            }
        }
    }

    /// Inserts the names of a scan at the start, one page per call, and returns how many were new. Pages
    /// sorted by their bytes are inserted fastest, but any order works.
    pub fn load<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> usize {
        self.insert(names)
    }

    /// Removes a metric, and the directories that become empty. Returns `false` if there was no such metric.
    pub fn remove(&self, name: &str) -> bool {
        let Ok(name) = sanitize(name) else { return false };
        let removed = if is_tagged(&name) {
            self.tagged_mut().remove(&name)
        } else {
            self.trie_mut().remove(name.as_bytes())
        };
        if removed {
            self.report();
        }
        removed
    }

    /// Whether there is a metric with this name.
    pub fn contains(&self, name: &str) -> bool {
        let Ok(name) = sanitize(name) else { return false };
        if is_tagged(&name) {
            return self.tagged().contains(&name);
        }
        self.trie().get(name.as_bytes()).is_some_and(|child| child.is_leaf())
    }

    /// The number of metrics, including tagged series.
    pub fn len(&self) -> usize {
        let names = self.trie().leaves();
        names + self.tagged().len()
    }

    /// Whether there are no metrics.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The metrics and directories that match a glob, sorted by path, without duplicates.
    ///
    /// # Errors
    ///
    /// Returns [`FindError`] if the pattern is too large, or if the search exceeds a limit.
    pub fn find(&self, pattern: &str, limits: &FindLimits) -> Result<Vec<Node>, FindError> {
        let mut nodes = Vec::new();
        self.find_each(pattern, limits, &mut |node| {
            nodes.push(Node { path: node.path.to_owned(), leaf: node.leaf, branch: node.branch });
        })?;
        Ok(nodes)
    }

    /// The metrics that match a glob, sorted, without duplicates.
    ///
    /// # Errors
    ///
    /// Returns [`FindError`] if the pattern is too large, or if the search exceeds a limit.
    pub fn leaves(&self, pattern: &str, limits: &FindLimits) -> Result<Vec<String>, FindError> {
        let mut names = Vec::new();
        self.leaves_each(pattern, limits, &mut |name| names.push(name.to_owned()))?;
        Ok(names)
    }

    /// Like [`Index::find`], but passes each node to `visit`, without holding the lock.
    ///
    /// # Errors
    ///
    /// Returns [`FindError`] as [`Index::find`] does. Some nodes may already have been visited then.
    pub fn find_each(
        &self,
        pattern: &str,
        limits: &FindLimits,
        visit: &mut dyn FnMut(NodeRef<'_>),
    ) -> Result<(), FindError> {
        self.search(pattern, limits, Want::Nodes, visit)
    }

    /// Like [`Index::leaves`], but passes each name to `visit`, without holding the lock.
    ///
    /// # Errors
    ///
    /// Returns [`FindError`] as [`Index::leaves`] does. Some names may already have been visited then.
    pub fn leaves_each(
        &self,
        pattern: &str,
        limits: &FindLimits,
        visit: &mut dyn FnMut(&str),
    ) -> Result<(), FindError> {
        self.search(pattern, limits, Want::Leaves, &mut |node| visit(node.path))
    }

    /// Passes every metric without tags to `visit`, sorted by bytes, without holding the lock.
    pub fn for_each(&self, visit: &mut dyn FnMut(&str)) {
        for path in Pattern::everything().paths() {
            let mut visits = usize::MAX;
            // Without limits, the search cannot fail.
            let _ = self.walk(path, Want::Leaves, &mut visits, &mut |node| {
                visit(node.path);
                Ok(())
            });
        }
    }

    /// Passes every tagged series to `visit`, hidden ones included, in any order and without holding the
    /// lock. Series that are added or removed meanwhile may be missed.
    pub fn for_each_tagged(&self, visit: &mut dyn FnMut(&str)) {
        let mut next = Some(0);
        while let Some(from) = next {
            let names;
            (names, next) = self.tagged().names_from(from, SERIES_PER_TURN);
            names.iter().for_each(|name| visit(name));
        }
    }

    /// The number of tagged series.
    pub fn tagged_len(&self) -> usize {
        self.tagged().len()
    }

    /// The memory of the index, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let names = self.trie().memory_bytes();
        names + self.tagged().memory_bytes()
    }

    fn insert_batch(&self, names: &[&str]) -> usize {
        let mut new = 0;
        let mut refused = 0;
        {
            let mut trie = self.trie_mut();
            for name in names {
                if name.contains(';') {
                    continue;
                }
                match insert_plain(&mut trie, name) {
                    Some(inserted) => new += usize::from(inserted),
                    None => refused += 1,
                }
            }
            trie.update_shapes();
        }
        if names.iter().any(|name| name.contains(';')) {
            let mut tagged = self.tagged_mut();
            for name in names.iter().filter(|name| name.contains(';')) {
                match sanitize(name) {
                    Ok(name) => new += usize::from(tagged.insert(&name)),
                    Err(_) => refused += 1,
                }
            }
        }
        self.metrics.refused_names.add(refused);
        new
    }

    fn search(
        &self,
        pattern: &str,
        limits: &FindLimits,
        want: Want,
        visit: &mut dyn FnMut(NodeRef<'_>),
    ) -> Result<(), FindError> {
        self.metrics.finds.add(1);
        let result = if pattern.contains(';') {
            // As in Graphite, a pattern with a `;` is not a glob but the name of a tagged series.
            if self.tagged().contains(pattern) {
                visit(NodeRef { path: pattern, leaf: true, branch: false });
            }
            Ok(())
        } else if has_glob(pattern) {
            self.search_glob(pattern, limits, want, visit)
        } else {
            self.search_exact(pattern, want, visit);
            Ok(())
        };
        match result {
            Err(FindError::Pattern(_)) => self.metrics.refused_pattern.add(1),
            Err(FindError::TooManyResults(_)) => self.metrics.refused_results.add(1),
            Err(FindError::TooManyVisits(_)) => self.metrics.refused_visits.add(1),
            Ok(()) => {}
        }
        result
    }

    fn search_exact(&self, name: &str, want: Want, visit: &mut dyn FnMut(NodeRef<'_>)) {
        let Ok(path) = sanitize(name) else { return };
        let Some(child) = self.trie().get(path.as_bytes()) else { return };
        if want == Want::Nodes || child.is_leaf() {
            visit(NodeRef { path: &path, leaf: child.is_leaf(), branch: child.directory().is_some() });
        }
    }

    fn search_glob(
        &self,
        pattern: &str,
        limits: &FindLimits,
        want: Want,
        visit: &mut dyn FnMut(NodeRef<'_>),
    ) -> Result<(), FindError> {
        let pattern = Pattern::parse(pattern)?;
        let mut visits = limits.visited_max;
        let mut left = limits.results_max;
        let too_many = FindError::TooManyResults(limits.results_max);
        if let [path] = pattern.paths() {
            return self.walk_limited(path, limits, want, &mut visits, &mut |node| {
                left = left.checked_sub(1).ok_or(too_many)?;
                visit(node);
                Ok(())
            });
        }
        // Paths of different lengths may find the same node, so all nodes are collected first.
        let mut nodes: BTreeMap<String, (bool, bool)> = BTreeMap::new();
        for path in pattern.paths() {
            self.walk_limited(path, limits, want, &mut visits, &mut |node| {
                nodes.insert(node.path.to_owned(), (node.leaf, node.branch));
                if nodes.len() > left { Err(too_many) } else { Ok(()) }
            })?;
        }
        for (path, (leaf, branch)) in &nodes {
            visit(NodeRef { path, leaf: *leaf, branch: *branch });
        }
        Ok(())
    }

    fn walk_limited(
        &self,
        path: &Path,
        limits: &FindLimits,
        want: Want,
        visits: &mut usize,
        visit: &mut dyn FnMut(NodeRef<'_>) -> Result<(), FindError>,
    ) -> Result<(), FindError> {
        let before = *visits;
        let result = self.walk(path, want, visits, visit);
        self.metrics.visited.add((before - *visits) as u64);
        if result? { Ok(()) } else { Err(FindError::TooManyVisits(limits.visited_max)) }
    }

    /// Searches along one path, and releases the lock between rounds. Returns `false` if `visits` was not
    /// enough.
    fn walk(
        &self,
        path: &Path,
        want: Want,
        visits: &mut usize,
        visit: &mut dyn FnMut(NodeRef<'_>) -> Result<(), FindError>,
    ) -> Result<bool, FindError> {
        let mut walk = Walk::new(path, want, &self.trie());
        let mut found = Found::default();
        loop {
            found.clear();
            let more = walk.round(&self.trie(), &mut found, visits);
            for (path, leaf, branch) in found.iter() {
                visit(NodeRef { path, leaf, branch })?;
            }
            if !more {
                return Ok(true);
            }
            if *visits == 0 {
                return Ok(false);
            }
        }
    }

    fn report(&self) {
        let trie = self.trie();
        self.metrics.names.set(trie.leaves() as f64);
        self.metrics.directories.set(trie.directories() as f64);
        self.metrics.components.set(trie.components.len() as f64);
        let names = trie.memory_bytes();
        drop(trie);
        let tagged = self.tagged();
        self.metrics.tagged.set(tagged.len() as f64);
        self.metrics.memory_bytes.set((names + self.tagged_memory(&tagged)) as f64);
    }

    pub(crate) fn trie(&self) -> RwLockReadGuard<'_, Trie> {
        if let Ok(guard) = self.trie.try_read() {
            return guard;
        }
        self.readers_waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.trie.read().unwrap_or_else(PoisonError::into_inner);
        self.readers_waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    fn trie_mut(&self) -> RwLockWriteGuard<'_, Trie> {
        self.trie.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The memory of the tagged series in bytes. Computing it reads every value, so this is repeated only
    /// after the number of series has changed by an eighth.
    fn tagged_memory(&self, tagged: &Tags) -> usize {
        let mut known = self.tagged_memory.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, bytes) = *known;
        if tagged.len().abs_diff(count) <= count / 8 {
            return bytes;
        }
        *known = (tagged.len(), tagged.memory_bytes());
        known.1
    }

    pub(crate) fn tagged(&self) -> RwLockReadGuard<'_, Tags> {
        self.tagged.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tagged_mut(&self) -> RwLockWriteGuard<'_, Tags> {
        self.tagged.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_tagged(name: &str) -> bool {
    name.contains(';')
}

/// Inserts a name without tags; `None` if it is not a valid name.
fn insert_plain(trie: &mut Trie, name: &str) -> Option<bool> {
    let name = sanitize(name).ok()?;
    Some(trie.insert(name.as_bytes()))
}
