//! The file of events: a line of JSON each, appended.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{EVENT_BYTES_MAX, Event};

#[derive(Debug)]
pub(super) struct EventFile {
    path: PathBuf,
    file: File,
    /// Up to where there are whole lines.
    bytes: u64,
}

impl EventFile {
    /// The file, made when it is not there, and its events with the bytes of their lines. A line that was
    /// cut off by a crash is taken away; one that cannot be read is said and passed over.
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
                    tracing::warn!(file = %path.display(), line = index + 1, %error, "not an event");
                }
            }
        }
        events.sort_by_key(|(event, _)| event.id);
        events.dedup_by_key(|(event, _)| event.id);
        sync_directory(path)?;
        Ok((Self { path: path.to_owned(), file, bytes: whole as u64 }, events))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a line; it is on the disk when this returns.
    pub(super) fn append(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.file.write_all_at(line, self.bytes).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // What is there of the line would be the beginning of the next.
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Replaces the file by one with these events.
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

/// Makes the name of a file last.
fn sync_directory(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}
