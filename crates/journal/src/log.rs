//! The log: holds the files of all live segments, appends frames and drops segments.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plumbago_fjall_host::FileLock;

use crate::disk::Disk;
use crate::files::{FileId, LogFile};
use crate::frame::Place;
use crate::{Config, JournalError, SegmentInfo, listed};

/// Files reserve disk space in steps of this many bytes.
const ALLOCATION_BYTES: u64 = 4 << 20;
/// Above this size a segment continues in another file. This limits how much is written again after a failed
/// sync.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// The files of the journal. One mutex guards the whole value.
pub(crate) struct Log {
    pub(crate) dir: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) files: BTreeMap<FileId, LogFile>,
    pub(crate) state: State,
    /// True while the directory has the note of the last close.
    pub(crate) is_noted: bool,
    /// The first live segment. Frames for older segments go to it.
    live_from: u32,
    max_bytes: Option<u64>,
    min_free_bytes: u64,
    /// The open lock file, which keeps other processes out.
    lock: Option<FileLock>,
}

/// Whether frames can be appended.
pub(crate) enum State {
    Open,
    /// A sync of these files failed. Nothing is appended until they have been written again.
    SyncFailed {
        files: Vec<FileId>,
        reason: String,
    },
    /// Some unsynced data could not be written again either.
    Poisoned {
        reason: String,
    },
    Closed,
}

/// A file to sync. After a successful sync it is durable up to `end`, a byte offset.
pub(crate) struct Unsynced {
    pub(crate) id: FileId,
    pub(crate) file: Arc<File>,
    pub(crate) end: u64,
    pub(crate) is_linked: bool,
}

impl Log {
    pub(crate) fn new(dir: &Path, config: &Config, disk: Arc<dyn Disk>, lock: Option<FileLock>) -> Self {
        Self {
            dir: dir.to_owned(),
            disk,
            files: BTreeMap::new(),
            state: State::Open,
            is_noted: false,
            live_from: 0,
            max_bytes: config.max_bytes,
            min_free_bytes: config.min_free_bytes,
            lock,
        }
    }

    /// Checks that frames can be appended.
    ///
    /// # Errors
    ///
    /// `Unavailable` after a failed sync, `Poisoned` or `Closed` in these states.
    pub(crate) fn check_open(&self) -> Result<(), JournalError> {
        match &self.state {
            State::Open => Ok(()),
            State::SyncFailed { reason, .. } => Err(JournalError::Unavailable { reason: reason.clone() }),
            State::Poisoned { reason } => Err(JournalError::Poisoned { reason: reason.clone() }),
            State::Closed => Err(JournalError::Closed),
        }
    }

    /// Appends a frame to a file of `segment`. `stored` is the encoded frame with space for its place.
    ///
    /// # Errors
    ///
    /// `Unavailable` if a limit is reached or the disk reports an error, and as [`Log::check_open`]. In that case the
    /// frame was not appended, and the next frame overwrites any part of it that was written.
    pub(crate) fn append(
        &mut self,
        segment: u32,
        first_sequence: u64,
        stored: &mut [u8],
    ) -> Result<(), JournalError> {
        self.check_open()?;
        let len = stored.len() as u64;
        self.check_size(len)?;
        let id = self.file_for(segment.max(self.live_from), len)?;
        self.reserve(id, len)?;
        let Some(log_file) = self.files.get_mut(&id) else { return Err(not_open(id)) };
        let Some(file) = &log_file.file else { return Err(not_open(id)) };
        let place = Place::new(id.segment, log_file.end).ok_or_else(|| not_open(id))?;
        stored[..place.bytes().len()].copy_from_slice(&place.bytes());
        self.disk
            .write(file, stored, log_file.end)
            .map_err(|error| unavailable(format!("writing {} failed: {error}", log_file.path.display())))?;
        log_file.end += len;
        log_file.first_sequence = log_file.first_sequence.min(first_sequence);
        Ok(())
    }

    fn check_size(&self, added: u64) -> Result<(), JournalError> {
        let Some(max) = self.max_bytes else { return Ok(()) };
        let held = self.bytes();
        if held.saturating_add(added) > max {
            return Err(unavailable(format!("it holds {held} bytes and journal.max_bytes is {max}")));
        }
        Ok(())
    }

    /// The segment's newest file, or a new one if that one has no space for `len` more bytes.
    fn file_for(&mut self, segment: u32, len: u64) -> Result<FileId, JournalError> {
        if let Some((id, file)) = self.newest_of(segment)
            && file.file.is_some()
            && file.end.saturating_add(len) <= FILE_BYTES_MAX.max(len)
        {
            return Ok(id);
        }
        self.begin_file(segment)
    }

    fn newest_of(&self, segment: u32) -> Option<(FileId, &LogFile)> {
        let parts = FileId { segment, part: 0 }..=FileId { segment, part: u32::MAX };
        self.files.range(parts).next_back().map(|(id, file)| (*id, file))
    }

    /// Creates the next file of a segment.
    pub(crate) fn begin_file(&mut self, segment: u32) -> Result<FileId, JournalError> {
        let forgotten = self.forget_close();
        forgotten
            .map_err(|error| unavailable(format!("removing the note of the last close failed: {error}")))?;
        let last = self.newest_of(segment).map_or(0, |(id, _)| id.part);
        let id = FileId { segment, part: last + 1 };
        let path = self.dir.join(id.name());
        let file = self.disk.create(&path);
        let file =
            file.map_err(|error| unavailable(format!("creating {} failed: {error}", path.display())))?;
        self.files.insert(id, LogFile::new(path, file));
        self.write_list();
        Ok(id)
    }

    /// Reserves disk space for `len` more bytes of a file.
    fn reserve(&mut self, id: FileId, len: u64) -> Result<(), JournalError> {
        let Some(log_file) = self.files.get_mut(&id) else { return Err(not_open(id)) };
        let Some(file) = &log_file.file else { return Err(not_open(id)) };
        let needed = log_file.end + len;
        if needed <= log_file.allocated {
            return Ok(());
        }
        let step = needed.next_multiple_of(ALLOCATION_BYTES) - log_file.allocated;
        let least = self.min_free_bytes;
        let free = self.disk.free_bytes(&self.dir).unwrap_or(u64::MAX);
        if free < least.saturating_add(len) {
            return Err(unavailable(format!(
                "the disk of {} has {free} bytes left and journal.min_free_bytes is {least}",
                self.dir.display()
            )));
        }
        // Close to the limit, reserve only what this frame needs.
        let step = if free < least.saturating_add(step) { needed - log_file.allocated } else { step };
        self.disk.allocate(file, log_file.allocated, step).map_err(|error| {
            unavailable(format!("reserving disk space for {} failed: {error}", log_file.path.display()))
        })?;
        log_file.allocated += step;
        Ok(())
    }

    /// Size of frames in all live segments, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.values().map(|file| file.end).sum()
    }

    /// The live segments that hold frames, oldest first.
    pub(crate) fn segments(&self) -> Vec<SegmentInfo> {
        let mut infos: Vec<SegmentInfo> = Vec::new();
        for (id, file) in self.files.iter().filter(|(_, file)| file.end > 0) {
            match infos.last_mut().filter(|info| info.number == id.segment) {
                Some(info) => {
                    info.first_sequence = info.first_sequence.min(file.first_sequence);
                    info.bytes += file.end;
                }
                None => infos.push(SegmentInfo {
                    number: id.segment,
                    first_sequence: file.first_sequence,
                    bytes: file.end,
                }),
            }
        }
        infos
    }

    /// The number of the newest segment that has or had a file.
    pub(crate) fn newest_segment(&self) -> u32 {
        self.files.keys().next_back().map_or(0, |id| id.segment).max(self.live_from)
    }

    /// Takes the files of all segments before `segment` out of the log, to be passed to [`remove_files`].
    /// From then on, frames for these segments go to `segment`.
    ///
    /// # Errors
    ///
    /// `Closed` after [`Log::close`], `Failed` if the note of the last close cannot be removed.
    pub(crate) fn take_before(&mut self, segment: u32) -> Result<BTreeMap<FileId, LogFile>, JournalError> {
        if matches!(self.state, State::Closed) {
            return Err(JournalError::Closed);
        }
        if self.files.keys().next().is_some_and(|id| id.segment < segment) {
            let forgotten = self.forget_close();
            forgotten.map_err(|error| JournalError::failed("remove the note of the last close", error))?;
        }
        self.live_from = self.live_from.max(segment);
        let kept = self.files.split_off(&FileId { segment, part: 0 });
        Ok(std::mem::replace(&mut self.files, kept))
    }

    /// The files with data that power loss could destroy.
    pub(crate) fn unsynced(&self) -> io::Result<Vec<Unsynced>> {
        let unsynced = self.files.iter().filter(|(_, file)| file.is_unsynced());
        unsynced
            .map(|(id, file)| {
                Ok(Unsynced { id: *id, file: file.open()?, end: file.end, is_linked: file.is_linked })
            })
            .collect()
    }

    /// Records that these files and the directory were synced.
    pub(crate) fn note_synced(&mut self, synced: &[Unsynced]) {
        for done in synced {
            if let Some(file) = self.files.get_mut(&done.id) {
                file.synced = file.synced.max(done.end);
                file.is_linked = true;
            }
        }
        self.write_list();
    }

    /// Writes the list of files.
    pub(crate) fn write_list(&self) {
        listed::write(&self.dir, &self.files);
    }

    /// Closes the files of the segments before `segment`. Nothing may be appended to them any more.
    pub(crate) fn seal_before(&mut self, segment: u32) {
        if !matches!(self.state, State::Open) {
            return;
        }
        for (_, file) in self.files.iter_mut().take_while(|(id, _)| id.segment < segment) {
            file.seal();
        }
    }

    /// Closes all files and releases the directory's lock.
    pub(crate) fn close(&mut self) {
        if matches!(self.state, State::Open) {
            self.files.values_mut().for_each(LogFile::seal);
        }
        self.state = State::Closed;
        self.files.clear();
        self.lock = None;
    }
}

/// Removes files from the directory and returns how many of their segments held frames. After an error,
/// `files` holds those that were not removed.
///
/// The oldest segment is removed first, and the directory is synced before the next one. So the newest part
/// of the log always remains, and replay never sees a creation whose removal is missing.
pub(crate) fn remove_files(
    disk: &dyn Disk,
    dir: &Path,
    files: &mut BTreeMap<FileId, LogFile>,
) -> io::Result<usize> {
    let mut dropped = 0;
    while let Some(segment) = files.keys().next().map(|id| id.segment) {
        let mut held = false;
        while let Some(entry) = files.first_entry().filter(|entry| entry.key().segment == segment) {
            match fs::remove_file(&entry.get().path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => held |= entry.remove().end > 0,
            }
        }
        disk.sync_dir(dir)?;
        dropped += usize::from(held);
    }
    Ok(dropped)
}

pub(crate) fn unavailable(reason: impl Into<String>) -> JournalError {
    JournalError::Unavailable { reason: reason.into() }
}

fn not_open(id: FileId) -> JournalError {
    unavailable(format!("{} is not open", id.name()))
}
