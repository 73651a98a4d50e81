//! Recovers from a failed sync: writes everything since the last successful sync again, to a new file.
//!
//! The kernel reports a failed write-back once and can then treat the pages as written. So a later successful
//! sync of the same file proves nothing. Most kernels still return the right bytes when the file is read, but
//! they do not guarantee it. The checksum of each frame shows whether they did.

use std::fs;
use std::io;
use std::sync::Arc;

use crate::JournalError;
use crate::files::{self, FileId};
use crate::frame::{self, Place};
use crate::log::{Log, State, Unsynced, unavailable};
use crate::scan::{FrameReader, Scan, scan};

impl Log {
    /// Records a failed sync of these files. Blocks appends until [`Log::rewrite`] succeeds.
    pub(crate) fn note_sync_failure(&mut self, unsynced: &[Unsynced], error: &io::Error) {
        let ids = unsynced.iter().map(|file| file.id);
        match &mut self.state {
            State::Open => {
                let reason = format!(
                    "a sync failed ({error}); the data since the last good sync is being written again"
                );
                self.state = State::SyncFailed { files: ids.collect(), reason };
            }
            State::SyncFailed { files, .. } => {
                files.extend(ids);
                files.sort_unstable();
                files.dedup();
            }
            State::Poisoned { .. } | State::Closed => return,
        }
        for id in unsynced.iter().map(|file| file.id) {
            if let Some(file) = self.files.get(&id) {
                files::write_note(&file.path, file.synced);
            }
        }
    }

    /// Writes all data covered by a failed sync again and syncs it. Returns the number of bytes written. Does
    /// nothing if no sync has failed.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk still fails; a later call retries. `Poisoned` if some frames could not be
    /// read back. They are lost from the journal, which refuses points until a restart.
    pub(crate) fn rewrite(&mut self) -> Result<u64, JournalError> {
        let State::SyncFailed { files, .. } = &self.state else { return Ok(0) };
        let mut lost = 0;
        let mut written = 0;
        for id in files.clone() {
            let (again, gone) = self.rewrite_file(id)?;
            written += again;
            lost += gone;
            if let State::SyncFailed { files, .. } = &mut self.state {
                files.retain(|other| *other != id);
            }
        }
        if lost > 0 {
            let reason = format!("{lost} bytes could not be read back after a failed sync");
            self.state = State::Poisoned { reason: reason.clone() };
            return Err(JournalError::Poisoned { reason });
        }
        self.state = State::Open;
        Ok(written)
    }

    /// Copies the part of a file after its last successful sync to a new file. Returns the bytes written and
    /// the bytes that could not be read back.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the old file cannot be read or the new one cannot be written and synced.
    pub(crate) fn rewrite_file(&mut self, id: FileId) -> Result<(u64, u64), JournalError> {
        let Some(old) = self.files.get(&id) else { return Ok((0, 0)) };
        let (from, end, path) = (old.synced, old.end, old.path.clone());
        let failed = |error: io::Error| {
            unavailable(format!("writing {} again after a failed sync failed: {error}", path.display()))
        };
        let file = old.open().map_err(failed)?;
        let found = scan(&file, id.segment, from).map_err(failed)?;
        let new = self.begin_file(id.segment)?;
        let copied = self.copy_frames(&file, &found, new);
        let written = match copied {
            Ok(written) => written,
            Err(error) => {
                self.remove(new);
                return Err(failed(error));
            }
        };
        if let Some(old) = self.files.get_mut(&id) {
            old.end = from;
            old.seal();
        }
        for empty in [id, new] {
            if self.files.get(&empty).is_some_and(|file| file.end == 0) {
                self.remove(empty);
            }
        }
        files::remove_note(&path);
        Ok((written, (end - from).saturating_sub(written)))
    }

    /// Copies frames to the file `to` and syncs it.
    fn copy_frames(&mut self, from: &Arc<fs::File>, found: &Scan, to: FileId) -> io::Result<u64> {
        let mut reader = FrameReader::new(from, to.segment)?;
        let Some(target) = self.files.get_mut(&to) else { return Err(io::ErrorKind::NotFound.into()) };
        let file = target.open()?;
        let mut stored = Vec::new();
        for at in &found.frames {
            // The scan read this frame before. It counts as lost if it cannot be read now.
            let Some(frame) = reader.frame(at.at)? else { continue };
            let place = Place::new(to.segment, target.end).ok_or(io::ErrorKind::FileTooLarge)?;
            stored.clear();
            stored.extend_from_slice(&place.bytes());
            stored.extend_from_slice(frame);
            stored.resize(frame::stored_len(frame.len()) as usize, 0);
            self.disk.write(&file, &stored, target.end)?;
            target.end += stored.len() as u64;
            target.allocated = target.end;
            target.first_sequence = target.first_sequence.min(at.first_sequence);
        }
        self.disk.sync(&file)?;
        self.disk.sync_dir(&self.dir)?;
        target.synced = target.end;
        target.is_linked = true;
        Ok(target.end)
    }

    /// Removes a file without frames. If that fails, the file stays in the list, so that its name is not used
    /// again.
    pub(crate) fn remove(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id) else { return };
        match fs::remove_file(&file.path) {
            Ok(()) => {
                self.files.remove(&id);
            }
            Err(error) => {
                (file.end, file.file) = (0, None);
                tracing::warn!(file = %file.path.display(), %error, "failed to remove a journal file that is no longer needed; it stays on the disk");
            }
        }
    }
}
