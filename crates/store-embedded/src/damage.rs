//! Damaged rows are counted and skipped. The files that hold them are named once.

use std::collections::HashSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fjall::Keyspace;
use plumbago_fjall_host::damaged_in;
use plumbago_telemetry::Counter;

use crate::locks::lock;

/// The consequence of damage that reads of points find, and what to do about it.
const SKIPPED: &str = "its damaged rows are left out of answers, and their points are lost unless a backup has them. \
                       `plumbago repair store --dry-run` counts what can still be read";

/// Counts and reports damage.
#[derive(Debug, Clone)]
pub(crate) struct DamageReporter {
    counter: Counter,
    all: plumbago_telemetry::Damage,
    /// Keyspaces for whose damaged files a search was started.
    examined: Arc<Mutex<HashSet<PathBuf>>>,
}

impl DamageReporter {
    pub(crate) fn new(counter: Counter, all: plumbago_telemetry::Damage) -> Self {
        Self { counter, all, examined: Arc::default() }
    }

    /// Counts one damaged row, or one damaged block whose rows cannot be counted. The first one of a keyspace
    /// starts a search for the damaged files, on a separate thread.
    pub(crate) fn report(&self, keyspace: &Keyspace, what: &dyn Display, why: &dyn Display) {
        self.counter.add(1);
        let path = keyspace.path().to_owned();
        let name = keyspace.name().to_string();
        tracing::debug!(path = %path.display(), keyspace = name, %what, %why, "skipped stored data that is damaged");
        if lock(&self.examined).insert(path.clone()) {
            let this = self.clone();
            std::thread::spawn(move || {
                this.name_files(&path, &format!("it holds rows of {name}; {SKIPPED}"));
            });
        }
    }

    /// Counts damage whose consequence the caller knows, and names the damaged files of the keyspace.
    pub(crate) fn found(&self, keyspace: &Keyspace, places: u64, text: &str) {
        self.counter.add(places);
        let path = keyspace.path();
        lock(&self.examined).insert(path.to_owned());
        self.name_files(path, text);
    }

    /// Reports that synced commits are missing. The missing commits were in the newest log.
    pub(crate) fn commits_missing(&self, dir: &Path, commits: u64) {
        self.counter.add(1);
        let newest = newest_log(dir);
        let text = format!(
            "the end of this log is missing: {commits} commits that were on the disk are lost, and their points unless \
             the journal still has them. Restore the directory from a backup if there is one"
        );
        self.all.found(&newest.unwrap_or_else(|| dir.to_owned()), text);
    }

    /// Replaces the text about damage that was found, and adds to the number of lost points.
    pub(crate) fn retext(&self, files: &[PathBuf], text: &str, lost: u64) {
        self.all.lose_points(lost);
        files.iter().for_each(|file| self.all.found(file, text));
    }

    fn name_files(&self, keyspace: &Path, text: &str) {
        let files = damaged_in(keyspace);
        if files.is_empty() {
            self.all.found(keyspace, text);
        }
        files.iter().for_each(|file| self.all.found(file, text));
    }
}

/// The log with the greatest number in a directory.
fn newest_log(dir: &Path) -> Option<PathBuf> {
    let number = |path: &Path| path.file_name()?.to_str()?.strip_suffix(".jnl")?.parse::<u64>().ok();
    let paths = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = paths.filter_map(|path| Some((number(&path)?, path))).max();
    newest.map(|(_, path)| path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_log_has_the_greatest_number() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(newest_log(dir.path()), None);
        for name in ["9.jnl", "10.jnl", "11.jnl.damaged-1", "version"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(newest_log(dir.path()), Some(dir.path().join("10.jnl")));
    }
}
