//! The note of a clean close, in the file `closed`: the log files with their lengths and smallest sequence numbers, as
//! [`crate::Journal::close`] left them, all synced. With it an open compares names and lengths, and reads no log file.
//!
//! It is removed, and the removal synced, before a log file is created or removed. So a kill or a power cut at any
//! moment leaves a note that fits, or none. A note that does not fit is removed, and the log files are read.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::disk::Disk;
use crate::files::{self, FileId, LogFile};
use crate::log::{Log, State};

const FILE: &str = "closed";
/// The name of the note while it is being written.
const UNFINISHED: &str = "closed.new";
/// The first line: the name and the version of the format.
const TITLE: &str = "plumbago-journal-closed 1";
/// A longer note is not read.
const BYTES_MAX: u64 = 16 << 20;

/// The content of the note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    /// The largest sequence number that was assigned or reserved.
    pub(crate) last_sequence: u64,
    pub(crate) files: BTreeMap<FileId, ClosedFile>,
}

/// A log file, which holds nothing but sound frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClosedFile {
    /// Its length in bytes.
    pub(crate) end: u64,
    /// The smallest sequence number in it.
    pub(crate) first_sequence: u64,
}

/// Why the note is not used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("it cannot be compared: {0}")]
    Failed(#[from] io::Error),
    #[error("it is damaged")]
    Damaged,
    #[error("it has a different version")]
    Version,
    #[error("it does not list {0}")]
    Unlisted(String),
    #[error("{0} is missing")]
    Missing(String),
    #[error("{0} has a different length")]
    Length(String),
    #[error("a sync of {0} failed")]
    Unsynced(String),
}

/// The note in `dir`; `None` if there is none.
///
/// # Errors
///
/// If the note cannot be read, or does not fit the names and lengths of the log files.
pub(crate) fn read(dir: &Path) -> Result<Option<Closed>, Unfit> {
    let file = match File::open(dir.join(FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    let closed = Closed::parse(&text)?;
    closed.compare(dir)?;
    Ok(Some(closed))
}

/// Removes the note for good. It is no error if there is none.
///
/// # Errors
///
/// If the file cannot be removed, or the directory not be synced.
pub(crate) fn remove(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    remove_file(&dir.join(FILE))?;
    disk.sync_dir(dir)
}

fn write(disk: &dyn Disk, dir: &Path, text: &str) -> io::Result<()> {
    let new = dir.join(UNFINISHED);
    let named = write_file(disk, &new, text.as_bytes()).and_then(|()| disk.rename(&new, &dir.join(FILE)));
    if named.is_err() {
        let _ = fs::remove_file(&new);
    }
    named.and_then(|()| disk.sync_dir(dir))
}

fn write_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A kill may have left an unfinished note.
    remove_file(path)?;
    let file = disk.create(path)?;
    disk.write(&file, bytes, 0)?;
    disk.sync(&file)
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Closed {
    fn of(last_sequence: u64, files: &BTreeMap<FileId, LogFile>) -> Self {
        let noted = |file: &LogFile| ClosedFile { end: file.end, first_sequence: file.first_sequence };
        Self { last_sequence, files: files.iter().map(|(id, file)| (*id, noted(file))).collect() }
    }

    fn text(&self) -> String {
        let mut text = format!("{TITLE}\nlast {}", self.last_sequence);
        for (id, file) in &self.files {
            text += &format!("\n{} {} {}", id.name(), file.end, file.first_sequence);
        }
        let crc = crc32fast::hash(text.as_bytes());
        text + &format!("\n{crc:08x}\n")
    }

    fn parse(text: &str) -> Result<Self, Unfit> {
        let parts = text.strip_suffix('\n').and_then(|text| text.rsplit_once('\n'));
        let (content, crc) = parts.ok_or(Unfit::Damaged)?;
        if crc != format!("{:08x}", crc32fast::hash(content.as_bytes())) {
            return Err(Unfit::Damaged);
        }
        let mut lines = content.lines();
        if lines.next() != Some(TITLE) {
            return Err(Unfit::Version);
        }
        let last = lines.next().and_then(|line| line.strip_prefix("last ")?.parse().ok());
        let last_sequence = last.ok_or(Unfit::Damaged)?;
        let files = lines.map(parse_file).collect::<Option<_>>().ok_or(Unfit::Damaged)?;
        Ok(Self { last_sequence, files })
    }

    /// Compares the note with the names and lengths of the log files.
    fn compare(&self, dir: &Path) -> Result<(), Unfit> {
        if let Some(id) = files::list(dir)?.into_iter().find(|id| !self.files.contains_key(id)) {
            return Err(Unfit::Unlisted(id.name()));
        }
        for (id, file) in &self.files {
            let path = dir.join(id.name());
            let found = match fs::metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(Unfit::Missing(id.name()));
                }
                found => found?,
            };
            if !found.is_file() || found.len() != file.end {
                return Err(Unfit::Length(id.name()));
            }
            if files::read_note(&path).is_some() {
                return Err(Unfit::Unsynced(id.name()));
            }
        }
        Ok(())
    }
}

fn parse_file(line: &str) -> Option<(FileId, ClosedFile)> {
    let mut words = line.split(' ');
    let id = FileId::parse(words.next()?)?;
    let file = ClosedFile { end: words.next()?.parse().ok()?, first_sequence: words.next()?.parse().ok()? };
    words.next().is_none().then_some((id, file))
}

impl Log {
    /// Closes the log files and leaves the note. Leaves none if the log is in trouble or not everything is synced, or if
    /// the note cannot be written: then the next open reads the log files.
    pub(crate) fn note_close(&mut self, last_sequence: u64) {
        if !matches!(self.state, State::Open) || self.files.values().any(LogFile::is_unsynced) {
            return;
        }
        let empty: Vec<FileId> =
            self.files.iter().filter(|(_, file)| file.end == 0).map(|(id, _)| *id).collect();
        empty.into_iter().for_each(|id| self.remove(id));
        self.files.values_mut().for_each(LogFile::seal);
        let text = Closed::of(last_sequence, &self.files).text();
        if let Err(error) = write(&*self.disk, &self.dir, &text) {
            tracing::warn!(
                dir = %self.dir.display(), %error,
                "cannot record that the journal was closed cleanly; nothing is lost, but the next start has \
                 to read the whole journal"
            );
        }
    }

    /// Removes the note of the last close, if it is still there.
    ///
    /// # Errors
    ///
    /// If the removal cannot be made to survive power loss. The caller must change nothing then; a later
    /// call tries again.
    pub(crate) fn forget_close(&mut self) -> io::Result<()> {
        if self.is_noted {
            remove(&*self.disk, &self.dir)?;
            self.is_noted = false;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "closed_tests.rs"]
mod tests;
