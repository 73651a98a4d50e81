//! Directories outside the source tree: the cache for jars and Java, the data of running nodes, and their
//! logs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::NodeError;

/// Number of log files that are kept.
const KEPT_LOGS: usize = 20;

/// The cache directory of the tests: `PLUMBAGO_TEST_CACHE`, else `plumbago-tests` in the user's cache.
///
/// # Errors
///
/// [`NodeError::Missing`] if none of `PLUMBAGO_TEST_CACHE`, `XDG_CACHE_HOME` and `HOME` is set.
pub fn directory() -> Result<PathBuf, NodeError> {
    if let Some(path) = std::env::var_os("PLUMBAGO_TEST_CACHE") {
        return Ok(path.into());
    }
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .map(|base| base.join("plumbago-tests"))
        .ok_or_else(|| NodeError::Missing("a home directory to cache Cassandra in".to_owned()))
}

/// The directory for Cassandra in the cache, created if it is missing.
///
/// # Errors
///
/// As [`directory`], and [`NodeError::Io`] if the directory cannot be created.
pub fn cassandra() -> Result<PathBuf, NodeError> {
    area("cassandra")
}

/// The directory of this name in the cache, created if it is missing.
///
/// # Errors
///
/// As [`cassandra`].
pub fn area(name: &str) -> Result<PathBuf, NodeError> {
    make(directory()?.join(name))
}

/// Calls [`once_in`] with the directory for Cassandra.
pub(crate) fn once(
    name: &str,
    fetch: impl FnOnce(&Path) -> Result<(), NodeError>,
) -> Result<PathBuf, NodeError> {
    once_in(&cassandra()?, name, fetch)
}

/// A directory in an area of the cache. If it is missing, `fetch` fills a temporary directory, which is then
/// renamed. Meanwhile a lock makes other processes wait.
///
/// # Errors
///
/// The error of `fetch`, and [`NodeError::Io`] if locking or renaming fails.
pub fn once_in(
    home: &Path,
    name: &str,
    fetch: impl FnOnce(&Path) -> Result<(), NodeError>,
) -> Result<PathBuf, NodeError> {
    let path = home.join(name);
    let lock = lock_file(&home.join("lock"))?;
    lock.lock().map_err(NodeError::io("waiting for another download"))?;
    if !path.is_dir() {
        let unfinished = home.join(format!("{name}.unfinished"));
        let _ = fs::remove_dir_all(&unfinished);
        fetch(&make(unfinished.clone())?)?;
        fs::rename(&unfinished, &path).map_err(NodeError::io(format!("renaming {}", path.display())))?;
    }
    Ok(path)
}

/// Creates a directory, with those above it.
///
/// # Errors
///
/// [`NodeError::Io`] if a directory cannot be created.
pub fn make(path: PathBuf) -> Result<PathBuf, NodeError> {
    fs::create_dir_all(&path).map_err(NodeError::io(format!("creating {}", path.display())))?;
    Ok(path)
}

/// A directory for the data of nodes, removed when dropped. If the process is killed, the directory remains
/// and its lock file is no longer locked; the next process then removes it.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    _lock: File,
}

impl RunDirectory {
    pub(crate) fn make() -> Result<Self, NodeError> {
        Self::make_in(&cassandra()?)
    }

    /// A new directory in an area of the cache.
    ///
    /// # Errors
    ///
    /// [`NodeError::Io`] if the directory cannot be created or locked.
    pub fn make_in(home: &Path) -> Result<Self, NodeError> {
        let runs = make(home.join("run"))?;
        // Held while directories are created and swept, so that another process cannot remove a new directory
        // before it is locked.
        let gate = lock_file(&runs.join("gate"))?;
        gate.lock().map_err(NodeError::io("waiting for other tests"))?;
        sweep(&runs);
        let path = make(runs.join(format!("{}-{:08x}", std::process::id(), rand::random::<u32>())))?;
        let lock = lock_file(&path.join("lock"))?;
        lock.lock().map_err(NodeError::io("locking the data of a node"))?;
        Ok(Self { path, _lock: lock })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn sweep(runs: &Path) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && lock_file(&path.join("lock")).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

pub(crate) fn lock_file(path: &Path) -> Result<File, NodeError> {
    let opened = File::options().create(true).truncate(false).write(true).open(path);
    opened.map_err(NodeError::io(format!("opening {}", path.display())))
}

/// The path of a new log file for a node. Logs are not in the data directory, because that is removed.
pub(crate) fn new_log(address: &str) -> Result<PathBuf, NodeError> {
    new_log_in(&cassandra()?, address)
}

/// The path of a new log file in an area of the cache, where only the latest are kept.
///
/// # Errors
///
/// [`NodeError::Io`] if the directory of logs cannot be created.
pub fn new_log_in(home: &Path, address: &str) -> Result<PathBuf, NodeError> {
    let logs = make(home.join("logs"))?;
    let mut older: Vec<PathBuf> =
        fs::read_dir(&logs).into_iter().flatten().flatten().map(|e| e.path()).collect();
    older.sort();
    for path in older.iter().rev().skip(KEPT_LOGS - 1) {
        let _ = fs::remove_file(path);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(logs.join(format!("{:014}-{}-{address}.log", now.as_millis(), std::process::id())))
}
