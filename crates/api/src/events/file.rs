//! The file of events: one line of JSON per event, written by appending.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{EVENT_BYTES_MAX, Event, ids};

/// The result of opening a file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: EventFile,
    /// The events, each with the length of its line in bytes.
    pub(super) events: Vec<(Event, usize)>,
    /// The damage of the file; `None` if there is none.
    pub(super) damage: Option<String>,
}

/// The open file, to which complete lines are appended.
#[derive(Debug)]
pub(super) struct EventFile {
    path: PathBuf,
    file: File,
    /// Length of the file up to the end of the last complete line.
    bytes: u64,
    /// The checksum of the first `bytes` bytes.
    sum: u32,
}

impl EventFile {
    /// Opens or creates the file, and reads its events. Cuts off a last line that a crash left incomplete. Logs and
    /// skips lines that cannot be parsed.
    pub(super) fn open(path: &Path) -> io::Result<Opened> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let damage = Note::read(path).and_then(|note| note.compare(&text));
        file.set_len(whole as u64)?;
        let mut events = Vec::new();
        for (index, line) in text[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
            match serde_json::from_slice::<Event>(line) {
                Ok(event) => events.push((event, line.len())),
                Err(error) => {
                    tracing::warn!(file = %path.display(), line = index + 1, %error, "skipped a line of the events file that is not a valid event");
                }
            }
        }
        events.sort_by_key(|(event, _)| ids::number(event.id));
        events.dedup_by_key(|(event, _)| ids::number(event.id));
        sync_directory(path)?;
        let sum = crc32fast::hash(&text[..whole]);
        let file = Self { path: path.to_owned(), file, bytes: whole as u64, sum };
        file.note();
        Ok(Opened { file, events, damage })
    }

    /// The length of the file in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a line and syncs it to disk.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(line, self.bytes).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Remove the part that was written, or the next line would be appended to it.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += line.len() as u64;
        self.sum = extended(self.sum, line);
        self.note();
        Ok(())
    }

    /// Writes the length and the checksum of the file to the note, so that the next start detects missing or
    /// changed data. After a kill the note may describe a shorter file, but never a longer one.
    fn note(&self) {
        let note = Note { bytes: self.bytes, sum: self.sum };
        if let Err(error) = note.write(&self.path) {
            tracing::debug!(%error, "the length of the events file could not be recorded");
        }
    }

    /// Replaces the file with one that contains only these events. The new file is complete on disk before it
    /// gets the name of the old one.
    pub(super) fn rewrite(&mut self, events: &[Arc<Event>]) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&beside)?;
        let (mut text, mut bytes, mut sum) = (Vec::new(), 0, 0);
        for event in events {
            serde_json::to_writer(&mut text, &**event)?;
            text.push(b'\n');
            if text.len() > EVENT_BYTES_MAX {
                bytes += text.len() as u64;
                sum = extended(sum, &text);
                file.write_all(&text)?;
                text.clear();
            }
        }
        bytes += text.len() as u64;
        sum = extended(sum, &text);
        file.write_all(&text)?;
        file.sync_all()?;
        // If a kill came between the two steps, the note of the old file would not match the new file.
        Note::remove(&self.path)?;
        sync_directory(&self.path)?;
        std::fs::rename(&beside, &self.path)?;
        (self.file, self.bytes, self.sum) = (file, bytes, sum);
        self.note();
        sync_directory(&self.path)
    }
}

/// Continues a checksum: returns that of the bytes that gave `sum`, followed by these bytes.
fn extended(sum: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(sum);
    hasher.update(bytes);
    hasher.finalize()
}

/// The note beside the events file: its length and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Note {
    bytes: u64,
    sum: u32,
}

impl Note {
    fn path(events: &Path) -> PathBuf {
        events.with_extension("note")
    }

    /// Reads the note of an events file; `None` if there is none or it cannot be read.
    fn read(events: &Path) -> Option<Self> {
        let mut text = String::new();
        File::open(Self::path(events)).ok()?.take(64).read_to_string(&mut text).ok()?;
        let (bytes, sum) = text.trim_end().split_once(' ')?;
        Some(Self { bytes: bytes.parse().ok()?, sum: u32::from_str_radix(sum, 16).ok()? })
    }

    fn write(self, events: &Path) -> io::Result<()> {
        std::fs::write(Self::path(events), format!("{} {:08x}\n", self.bytes, self.sum))
    }

    fn remove(events: &Path) -> io::Result<()> {
        match std::fs::remove_file(Self::path(events)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The damage of an events file that contains this text; `None` if there is none.
    fn compare(self, text: &[u8]) -> Option<String> {
        let noted = usize::try_from(self.bytes).ok().and_then(|bytes| text.get(..bytes));
        match noted {
            Some(noted) if crc32fast::hash(noted) == self.sum => None,
            Some(_) => Some(
                "some of its bytes have changed; events that cannot be read are left out. \
                 Nothing has to be done"
                    .to_owned(),
            ),
            None => Some(format!(
                "it has only {} bytes and should have at least {}, so its last events are lost. Nothing has \
                 to be done",
                text.len(),
                self.bytes
            )),
        }
    }
}

/// Syncs the directory of a file, so that its name survives a power cut.
fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}
