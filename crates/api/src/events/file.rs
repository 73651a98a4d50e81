//! The file of events: one line of JSON each, appended.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{EVENT_BYTES_MAX, Event, ids};

/// The open file, to which complete lines are appended.
#[derive(Debug)]
pub(super) struct EventFile {
    path: PathBuf,
    file: File,
    /// Length of the file up to the end of the last complete line.
    bytes: u64,
}

impl EventFile {
    /// Opens or creates the file. Returns it with its events and the length of each line in bytes. Cuts off a
    /// last line that a crash left incomplete. Logs and skips lines that cannot be parsed.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Vec<(Event, usize)>)> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
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
        Ok((Self { path: path.to_owned(), file, bytes: whole as u64 }, events))
    }

    /// Length of the file.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a line and syncs it to disk.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(line, self.bytes).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Remove the part that was written. Otherwise the next line would be appended to it.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Replaces the file with one that contains only these events. It is complete on disk before it gets the
    /// name of the old one.
    pub(super) fn rewrite(&mut self, events: &[Arc<Event>]) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&beside)?;
        let (mut text, mut bytes) = (Vec::new(), 0);
        for event in events {
            serde_json::to_writer(&mut text, &**event)?;
            text.push(b'\n');
            if text.len() > EVENT_BYTES_MAX {
                bytes += text.len() as u64;
                file.write_all(&text)?;
                text.clear();
            }
        }
        bytes += text.len() as u64;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        (self.file, self.bytes) = (file, bytes);
        sync_directory(&self.path)
    }
}

/// Syncs the directory of a file, so that its name survives a power cut.
fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}
