//! The files of the data directory as they are at one moment, for backups.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plumbago_index::Index;
use plumbago_journal::Journal;
use plumbago_maintenance::backup::{BackupError, DataFiles, Held, HeldFile};
use plumbago_store_embedded::{hold, link_or_copy};

use super::Core;
use super::backend::Keeper;
use crate::config::{Config, StoreKind};

/// The directory that contains the hard links during a backup.
const LINKS: &str = "backup-links";
/// Entries of the data directory that a backup leaves out. A restored directory gets a new secret. It does
/// not need the checkpoint, which is large and contains nothing that is not in the store and the journal.
const LEFT_OUT: [&str; 4] = [LINKS, "admin-secret", "checkpoint", "lost+found"];
/// The directories of the fjall databases in the data directory.
const DATABASES: [&str; 3] = ["store", "spool", "names"];
/// Files smaller than this are copied at once, because they may be changed in place.
const SMALL_BYTES: u64 = 1 << 20;

/// Removes the links of a backup that was killed.
pub(super) fn remove_links(data_dir: &Path) {
    let links = data_dir.join(LINKS);
    if let Err(error) = fs::remove_dir_all(&links)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(dir = %links.display(), %error, "cannot remove the links of an interrupted backup; remove this directory, because it keeps deleted files on the disk");
    }
}

/// The files of a running daemon, or of a data directory at rest.
#[derive(Debug)]
pub(crate) struct Files {
    dir: PathBuf,
    journal_dir: PathBuf,
    store: StoreKind,
    min_free_bytes: u64,
    is_held: Arc<AtomicBool>,
    live: Option<Live>,
}

/// The stores and logs that a running daemon writes.
struct Live {
    keeper: Keeper,
    journal: Journal,
    index: Arc<Index>,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Live")
    }
}

impl Files {
    /// The files of a data directory that no daemon uses.
    pub(crate) fn at_rest(config: &Config) -> Self {
        let journal = config.journal.min_free_bytes;
        let store = match config.store.kind {
            StoreKind::Embedded => config.store.embedded.min_free_bytes.0,
            StoreKind::Cassandra => config.spool.min_free_bytes,
        };
        Self {
            dir: config.data_dir.clone(),
            journal_dir: config.journal_dir(),
            store: config.store.kind,
            min_free_bytes: journal.max(store),
            is_held: Arc::default(),
            live: None,
        }
    }

    /// The files of this process.
    pub(super) fn live(config: &Config, core: &Core) -> Self {
        let (keeper, journal, index) = (core.keeper.clone(), core.journal.clone(), Arc::clone(&core.index));
        Self { live: Some(Live { keeper, journal, index }), ..Self::at_rest(config) }
    }

    fn hold_all(&self, links: &Path) -> Result<Vec<HeldFile>, BackupError> {
        let failed = |error: io::Error| BackupError::Hold(error.to_string());
        // Keeps the journal's segments until the links to their files exist.
        let _segments = self.live.as_ref().map(|live| live.journal.hold());
        let _at_rest = match self.live {
            Some(_) => None,
            None => Some(lock(&self.journal_dir)?),
        };
        let mut held = self.others(links).map_err(failed)?;
        // The journal must be held last, so that it contains every record that the held state of the store
        // lacks.
        for name in DATABASES {
            let (dir, links) = (self.dir.join(name), links.join(name));
            if !dir.is_dir() {
                continue;
            }
            let files = match &self.live {
                Some(live) => live.keeper.hold(name, &links)?,
                None => Some(hold(&dir, &links, None).map_err(|error| BackupError::Hold(error.to_string()))?),
            };
            held.extend(files.into_iter().flatten().map(|file| HeldFile {
                name: Path::new(name).join(file.name),
                at: file.at,
                bytes: file.bytes,
                xxh3: file.xxh3,
            }));
        }
        held.extend(self.journal(&links.join("journal")).map_err(failed)?);
        Ok(held)
    }

    /// The log files of the journal up to their ends, and the file that states its format. The list of log files is
    /// left out, because it may state a longer file than the one that is held.
    fn journal(&self, links: &Path) -> io::Result<Vec<HeldFile>> {
        fs::create_dir_all(links)?;
        let mut files = match &self.live {
            Some(live) => live.journal.files(),
            None => at_rest_files(&self.journal_dir)?,
        };
        let format = self.journal_dir.join("plumbago-format");
        if let Ok(found) = fs::metadata(&format) {
            files.push((format, found.len()));
        }
        let mut held = Vec::new();
        for (path, bytes) in files {
            let Some(name) = path.file_name() else { continue };
            let at = links.join(name);
            link_or_copy(&path, &at)?;
            held.push(HeldFile { name: Path::new("journal").join(name), at, bytes, xxh3: None });
        }
        Ok(held)
    }

    /// All files except those of the store, the spool and the journal. The position of a queue is held before
    /// the queue itself, and the note of the events before the events, because a position or a note may be
    /// behind its file.
    fn others(&self, links: &Path) -> io::Result<Vec<HeldFile>> {
        let mut names = Vec::new();
        list(&self.dir, Path::new(""), &mut names)?;
        names.sort_by_key(|name| !(name.ends_with("positions") || name.ends_with("events.note")));
        let mut held = Vec::new();
        for name in names {
            let (from, at) = (self.dir.join(&name), links.join(&name));
            if let Some(parent) = at.parent() {
                fs::create_dir_all(parent)?;
            }
            let bytes = fs::metadata(&from).map_or(0, |found| found.len());
            let done =
                if bytes < SMALL_BYTES { fs::copy(&from, &at).map(drop) } else { link_or_copy(&from, &at) };
            match done {
                // The file was removed after it was listed, for example a segment of a queue that was sent.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                done => done?,
            }
            let bytes = if bytes < SMALL_BYTES { fs::metadata(&at)?.len() } else { bytes };
            held.push(HeldFile { name, at, bytes, xxh3: None });
        }
        Ok(held)
    }
}

impl DataFiles for Files {
    fn dir(&self) -> &Path {
        &self.dir
    }

    fn min_free_bytes(&self) -> u64 {
        self.min_free_bytes
    }

    fn hold(&self) -> Result<Held, BackupError> {
        if self.is_held.swap(true, Ordering::AcqRel) {
            return Err(BackupError::Taken("another backup of this data directory is running".to_owned()));
        }
        let guard = Links { dir: self.dir.clone(), is_held: Arc::clone(&self.is_held) };
        remove_links(&self.dir);
        let files = self.hold_all(&self.dir.join(LINKS))?;
        Ok(Held {
            files,
            dir: std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone()),
            metrics: self.live.as_ref().map(|live| live.index.len() as u64),
            store: match self.store {
                StoreKind::Embedded => "embedded".to_owned(),
                StoreKind::Cassandra => "cassandra".to_owned(),
            },
            min_free_bytes: self.min_free_bytes,
            guard: Box::new(guard),
        })
    }
}

impl Keeper {
    /// Holds the files of the database `name` of this store.
    fn hold(
        &self,
        name: &str,
        links: &Path,
    ) -> Result<Option<Vec<plumbago_store_embedded::HeldFile>>, BackupError> {
        let failed = |error: &dyn std::fmt::Display| BackupError::Hold(error.to_string());
        match (self, name) {
            (Self::Embedded(store), "store") => store.hold(links).map(Some).map_err(|error| failed(&error)),
            (Self::Cassandra(cassandra), "spool" | "names") => cassandra.hold(name, links).map(Some),
            // The directory belongs to another setting of `store.kind`.
            _ => Ok(None),
        }
    }
}

/// Removes the links when it is dropped.
struct Links {
    dir: PathBuf,
    is_held: Arc<AtomicBool>,
}

impl Drop for Links {
    fn drop(&mut self) {
        remove_links(&self.dir);
        self.is_held.store(false, Ordering::Release);
    }
}

/// Keeps a daemon from starting while the files are linked.
fn lock(journal_dir: &Path) -> Result<Option<File>, BackupError> {
    let path = journal_dir.join("lock");
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| BackupError::Hold(format!("{}: {error}", path.display())))?,
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            Err(BackupError::Taken("a daemon has just started; run the command again".to_owned()))
        }
        Err(TryLockError::Error(error)) => Err(BackupError::Hold(format!("{}: {error}", path.display()))),
    }
}

/// The files of a journal at rest: those that contain records, and those that describe them.
fn at_rest_files(dir: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "log" || end == "unsynced") {
            files.push((path, entry.metadata()?.len()));
        }
    }
    Ok(files)
}

/// Lists files below the data directory that are not held by another part of this module.
fn list(dir: &Path, inside: &Path, names: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(dir.join(inside)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let is_top = inside.as_os_str().is_empty();
        let text = name.to_string_lossy();
        let is_held_apart = is_top && (text == "journal" || DATABASES.contains(&&*text));
        let is_temporary = text.ends_with(".new") || text == "lock";
        if is_held_apart || is_temporary || is_top && LEFT_OUT.contains(&&*text) {
            continue;
        }
        let path = inside.join(&name);
        match entry.file_type()? {
            kind if kind.is_dir() => list(dir, &path, names)?,
            kind if kind.is_file() => names.push(path),
            _ => {}
        }
    }
    Ok(())
}
