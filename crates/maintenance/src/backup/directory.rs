//! The directory of a backup: its lock, its generations, and its objects, which are the contents of files.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::manifest::{FORMAT, Generation};
use super::{BackupError, io_error};

const FORMAT_FILE: &str = "plumbago-backup";
const GENERATIONS: &str = "generations";
const OBJECTS: &str = "objects";
/// The object that is being written.
const UNFINISHED: &str = "unfinished";
/// The list of objects that an interrupted run has copied, one per line.
const COPIED: &str = "copied";

/// An open backup directory.
#[derive(Debug)]
pub struct Directory {
    dir: PathBuf,
    /// Prevents other processes from using the directory.
    _lock: File,
}

impl Directory {
    /// Opens a backup directory for reading.
    ///
    /// # Errors
    /// If `dir` is not a backup directory, or a backup into it is running.
    pub fn open(dir: &Path) -> Result<Self, BackupError> {
        check_format(dir)?;
        let lock = File::open(dir.join("lock")).map_err(io_error("open", &dir.join("lock")))?;
        match lock.try_lock_shared() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), _lock: lock }),
            Err(error) => Err(taken(dir, error)),
        }
    }

    /// Opens a backup directory for writing. A missing or empty directory becomes a backup directory.
    ///
    /// # Errors
    /// If `dir` cannot become a backup directory, or another process uses it.
    pub fn open_to_write(dir: &Path) -> Result<Self, BackupError> {
        fs::create_dir_all(dir).map_err(io_error("create", dir))?;
        if is_empty(dir)? {
            let text = format!("plumbago-backup {FORMAT}\n");
            write_durably(&dir.join(FORMAT_FILE), text.as_bytes()).map_err(io_error("write to", dir))?;
        }
        check_format(dir)?;
        for inside in [OBJECTS, GENERATIONS].map(|name| dir.join(name)) {
            fs::create_dir_all(&inside).map_err(io_error("create", &inside))?;
        }
        let lock = File::options().write(true).create(true).truncate(false).open(dir.join("lock"));
        let lock = lock.map_err(io_error("write to", dir))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), _lock: lock }),
            Err(error) => Err(taken(dir, error)),
        }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The numbers of all generations, oldest first.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn numbers(&self) -> Result<Vec<u32>, BackupError> {
        let dir = self.dir.join(GENERATIONS);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&dir).map_err(io_error("list", &dir))? {
            let name = entry.map_err(io_error("list", &dir))?.file_name();
            numbers.extend(
                name.to_str().and_then(|n| n.strip_suffix(".json")).and_then(|n| n.parse::<u32>().ok()),
            );
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Reads the manifest of a generation.
    ///
    /// # Errors
    /// [`BackupError::NotFound`] if there is none, [`BackupError::Damaged`] if the manifest cannot be used.
    pub fn generation(&self, number: u32) -> Result<Generation, BackupError> {
        let path = self.manifest(number);
        match fs::read(&path) {
            Ok(bytes) => Generation::parse(&String::from_utf8_lossy(&bytes))
                .map_err(|why| BackupError::Damaged(vec![format!("{}: {why}", path.display())])),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(BackupError::NotFound(format!(
                "{} has no generation {number}; `plumbago backup {} --list` shows those it has",
                self.dir.display(),
                self.dir.display()
            ))),
            Err(error) => Err(io_error("read", &path)(error)),
        }
    }

    /// Writes the manifest of a generation, after which the generation exists.
    ///
    /// # Errors
    ///
    /// If the generation cannot be written and synced.
    pub(crate) fn add(&self, generation: &Generation) -> Result<(), BackupError> {
        let path = self.manifest(generation.number);
        write_durably(&path, generation.to_text().as_bytes()).map_err(io_error("write", &path))?;
        let _ = fs::remove_file(self.dir.join(COPIED));
        Ok(())
    }

    fn manifest(&self, number: u32) -> PathBuf {
        self.dir.join(GENERATIONS).join(format!("{number}.json"))
    }

    /// The path of an object.
    pub fn object(&self, sha256: &str) -> PathBuf {
        let (first, rest) = sha256.split_at_checked(2).unwrap_or((sha256, ""));
        self.dir.join(OBJECTS).join(first).join(rest)
    }

    /// Whether an object exists with this length.
    pub(crate) fn has(&self, sha256: &str, bytes: u64) -> bool {
        fs::metadata(self.object(sha256)).is_ok_and(|found| found.is_file() && found.len() == bytes)
    }

    /// The path at which an object is written until its name is known.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.dir.join(UNFINISHED)
    }

    /// Gives the synced file at [`Self::unfinished`] its name.
    pub(crate) fn finish(&self, sha256: &str) -> io::Result<()> {
        let path = self.object(sha256);
        if let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) {
            fs::create_dir(parent)?;
            sync_dir(&self.dir.join(OBJECTS))?;
        }
        fs::rename(self.unfinished(), path)
    }

    /// Makes the names of objects durable.
    pub(crate) fn sync_objects(&self, sums: &BTreeSet<String>) -> io::Result<()> {
        let parents: BTreeSet<PathBuf> =
            sums.iter().filter_map(|sum| self.object(sum).parent().map(Path::to_owned)).collect();
        parents.iter().try_for_each(|parent| sync_dir(parent))
    }

    /// Notes that a file was copied, for a run that continues after an interruption.
    pub(crate) fn note_copied(&self, identity: &str, sha256: &str) -> io::Result<()> {
        let mut file = File::options().append(true).create(true).open(self.dir.join(COPIED))?;
        writeln!(file, "{sha256} {identity}")
    }

    /// The identities and objects that an interrupted run has recorded.
    pub(crate) fn copied(&self) -> Vec<(String, String)> {
        let text = fs::read(self.dir.join(COPIED)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let pairs = whole.lines().filter_map(|line| line.split_once(' '));
        pairs
            .filter(|(sum, _)| sum.len() == 64 && sum.is_ascii())
            .map(|(sum, identity)| (identity.to_owned(), sum.to_owned()))
            .collect()
    }

    /// Removes all but the newest `keep` generations, and the objects that no generation needs. Returns the
    /// number of generations removed.
    ///
    /// # Errors
    /// If a manifest is damaged, so that its objects are unknown, or if files cannot be removed.
    pub(crate) fn prune(&self, keep: usize) -> Result<u64, BackupError> {
        let mut numbers = self.numbers()?;
        let kept = numbers.split_off(numbers.len().saturating_sub(keep.max(1)));
        let mut needed = BTreeSet::new();
        for number in kept {
            needed.extend(self.generation(number)?.files.into_iter().map(|file| file.sha256));
        }
        for number in &numbers {
            let path = self.manifest(*number);
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
        let dir = self.dir.join(GENERATIONS);
        sync_dir(&dir).map_err(io_error("sync", &dir))?;
        self.remove_objects(&needed)?;
        Ok(numbers.len() as u64)
    }

    fn remove_objects(&self, needed: &BTreeSet<String>) -> Result<(), BackupError> {
        let objects = self.dir.join(OBJECTS);
        let list = |dir: &Path| -> Result<Vec<(PathBuf, String)>, BackupError> {
            let entries = fs::read_dir(dir).map_err(io_error("list", dir))?;
            let entries: io::Result<Vec<_>> = entries.collect();
            let entries = entries.map_err(io_error("list", dir))?;
            Ok(entries.iter().map(|e| (e.path(), e.file_name().to_string_lossy().into_owned())).collect())
        };
        for (parent, first) in list(&objects)?.into_iter().filter(|(path, _)| path.is_dir()) {
            for (path, rest) in list(&parent)? {
                if !needed.contains(&format!("{first}{rest}")) {
                    fs::remove_file(&path).map_err(io_error("remove", &path))?;
                }
            }
        }
        Ok(())
    }
}

fn taken(dir: &Path, error: TryLockError) -> BackupError {
    match error {
        TryLockError::WouldBlock => {
            BackupError::Taken(format!("another process is using the backup in {}", dir.display()))
        }
        TryLockError::Error(error) => io_error("lock", dir)(error),
    }
}

/// Whether a directory is empty, apart from files that file systems create.
pub(crate) fn is_empty(dir: &Path) -> Result<bool, BackupError> {
    let entries = fs::read_dir(dir).map_err(io_error("list", dir))?;
    let is_nothing = |name: &std::ffi::OsStr| name == "lost+found" || name == "plumbago-backup.new";
    Ok(entries.flatten().all(|entry| is_nothing(&entry.file_name())))
}

fn check_format(dir: &Path) -> Result<(), BackupError> {
    let path = dir.join(FORMAT_FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(BackupError::Invalid(format!(
                "{} holds no backup (it has no file {FORMAT_FILE}); for a new one name a directory that is missing or empty",
                dir.display()
            )));
        }
        Err(error) => return Err(io_error("read", &path)(error)),
    };
    if text.trim() == format!("plumbago-backup {FORMAT}") {
        return Ok(());
    }
    Err(BackupError::Invalid(format!(
        "{} says {:?}, and this version reads \"plumbago-backup {FORMAT}\"",
        path.display(),
        text.trim()
    )))
}

/// Writes a file atomically: even after a power cut, it exists with all its bytes or not at all.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), sync_dir)
}

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
