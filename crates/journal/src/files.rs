//! The journal's files: their names, and the state of one log file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::JournalError;

/// Identifies a log file. Ids increase in the order in which files are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileId {
    pub(crate) segment: u32,
    /// Counts the files of the segment from 1. A new process always starts a new file.
    pub(crate) part: u32,
}

impl FileId {
    pub(crate) fn name(self) -> String {
        format!("{:010}-{:04}.log", self.segment, self.part)
    }

    /// Parses a file name. `None` if it is not the name of a log file.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (segment, part) = name.strip_suffix(".log")?.split_once('-')?;
        let id = Self { segment: segment.parse().ok()?, part: part.parse().ok()? };
        (id.name() == name).then_some(id)
    }
}

/// The log files in `dir`, oldest first.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<FileId>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(dir)? {
        ids.extend(entry?.file_name().to_str().and_then(FileId::parse));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// One log file.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub(crate) path: PathBuf,
    /// The open file. `None` once nothing more is appended to it.
    pub(crate) file: Option<Arc<File>>,
    /// Byte offset at which the next frame is written.
    pub(crate) end: u64,
    /// Everything before this offset survives power loss.
    pub(crate) synced: u64,
    /// Disk space reserved so far, in bytes, counted from the start of the file.
    pub(crate) allocated: u64,
    /// The smallest sequence number in the file.
    pub(crate) first_sequence: u64,
    /// Whether the directory entry survives power loss.
    pub(crate) is_linked: bool,
}

impl LogFile {
    /// The state of a newly created, empty file.
    pub(crate) fn new(path: PathBuf, file: File) -> Self {
        let file = Some(Arc::new(file));
        Self { path, file, end: 0, synced: 0, allocated: 0, first_sequence: u64::MAX, is_linked: false }
    }

    /// The state of a file that an earlier process closed and synced. All of it is frames.
    pub(crate) fn closed(path: PathBuf, end: u64, first_sequence: u64) -> Self {
        Self { path, file: None, end, synced: end, allocated: end, first_sequence, is_linked: true }
    }

    /// True while power loss could destroy some of its data.
    pub(crate) fn is_unsynced(&self) -> bool {
        self.synced < self.end || (self.end > 0 && !self.is_linked)
    }

    /// The open file. Opens it again if it was closed.
    pub(crate) fn open(&self) -> io::Result<Arc<File>> {
        match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => File::options().read(true).write(true).open(&self.path).map(Arc::new),
        }
    }

    /// Releases unused reserved disk space and closes the file.
    pub(crate) fn seal(&mut self) {
        if let Some(file) = self.file.take()
            && let Err(error) = file.set_len(self.end)
        {
            tracing::warn!(file = %self.path.display(), %error, "failed to release the unused disk space of a journal file");
        }
    }
}

/// Path of the note for a log file whose sync failed. The note holds the offset from which the log file must
/// be written again.
///
/// It is needed if the process restarts and the kernel keeps running: the kernel can then return bytes from
/// its cache that are not on the disk and that no later sync will write. After power loss the log file shows
/// what was stored, so the note itself is not synced.
fn note_path(log: &Path) -> PathBuf {
    log.with_extension("unsynced")
}

pub(crate) fn write_note(log: &Path, synced: u64) {
    let path = note_path(log);
    if let Err(error) = fs::write(&path, format!("{synced}\n")) {
        tracing::error!(file = %path.display(), %error, "failed to write the file that marks an unsynced part of the journal; if the process is restarted now, a later power cut may lose points");
    }
}

/// The offset in the note. 0 if the note cannot be read, `None` if there is none.
pub(crate) fn read_note(log: &Path) -> Option<u64> {
    match fs::read_to_string(note_path(log)) {
        Ok(text) => Some(text.trim().parse().unwrap_or(0)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(0),
    }
}

pub(crate) fn remove_note(log: &Path) {
    let path = note_path(log);
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(file = %path.display(), %error, "failed to remove the file that marks an unsynced part of the journal; the next start writes this part again");
    }
}

/// Copies the bytes `from..to` of a log file to a new file in the same directory and returns its path.
///
/// # Errors
///
/// `Failed` if the file cannot be read or the copy cannot be written.
pub(crate) fn copy_aside(path: &Path, from: u64, to: u64) -> Result<PathBuf, JournalError> {
    let copy = free_name(path);
    let copied = copy_range(path, from, to, &copy);
    copied.map_err(|error| JournalError::failed(format!("copy {} aside", path.display()), error))?;
    Ok(copy)
}

fn copy_range(path: &Path, from: u64, to: u64, copy: &Path) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};

    let mut source = File::open(path)?;
    source.seek(SeekFrom::Start(from))?;
    let mut file = File::create_new(copy)?;
    let copied = io::copy(&mut source.take(to - from), &mut file).and_then(|_| file.sync_all());
    if copied.is_err() {
        // Otherwise each start on a full disk would leave another incomplete copy.
        let _ = fs::remove_file(copy);
    }
    copied
}

/// An unused path in the same directory that is not the name of a log file.
fn free_name(path: &Path) -> PathBuf {
    let mut number = 1;
    loop {
        let copy = path.with_extension(format!("log.torn-{number}"));
        if !copy.exists() {
            return copy;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_and_read_back() {
        let ids = [(0, 1), (9, 1), (9, 2), (10, 1), (u32::MAX, 9999), (u32::MAX, 10_000)];
        for (segment, part) in ids {
            let id = FileId { segment, part };
            assert_eq!(FileId::parse(&id.name()), Some(id));
        }
        for other in ["1-1.log", "0000000001-0001.log.torn-1", "lock", "0000000001-0001.unsynced", "-.log"] {
            assert_eq!(FileId::parse(other), None, "{other}");
        }
    }
}
