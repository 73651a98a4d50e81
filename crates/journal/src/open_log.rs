//! Opens the log: checks the files of the last process, cuts off unfinished writes, and syncs the rest. After a clean
//! close it compares names and lengths instead.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plumbago_fjall_host::FileLock;

use crate::disk::Disk;
use crate::files::{self, FileId, LogFile};
use crate::frame::RECORDS_MAX;
use crate::log::{Log, State};
use crate::scan::{Damage, Scan, scan};
use crate::{Config, JournalError, closed, format, legacy, listed};

/// The version of the format. Version 1 was a fjall database.
const VERSION: u32 = 2;

/// An open log, and what opening it found.
pub(crate) struct Opened {
    pub(crate) log: Log,
    /// The largest sequence number that any frame can have used.
    pub(crate) last_sequence: u64,
    /// Number of files that were cut because they ended in an unfinished write.
    pub(crate) torn_tails: u64,
    /// Number of damaged frames that the conversion from format 1 left out.
    pub(crate) corrupt_frames: u64,
    /// Files whose last frame is damaged, with the copies of what was cut off.
    pub(crate) damaged_tails: Vec<(PathBuf, PathBuf, Damage)>,
    /// Files that are missing or end too early, and how many synced bytes are missing.
    pub(crate) missing: Vec<(PathBuf, u64)>,
}

/// Opens the log in `dir`, or creates it.
///
/// # Errors
///
/// As [`crate::Journal::open`].
pub(crate) fn open(dir: &Path, config: &Config, disk: Arc<dyn Disk>) -> Result<Opened, JournalError> {
    create_dir(&*disk, dir)?;
    let mut corrupt_frames = 0;
    match format::version(dir, format::JOURNAL)? {
        Some(VERSION) => legacy::remove(dir)?,
        None | Some(legacy::VERSION) if legacy::is_present(dir) => {
            corrupt_frames = legacy::convert(dir, create_for_conversion(dir, config, Arc::clone(&disk))?)?;
            format::write_version(dir, format::JOURNAL, VERSION)?;
            legacy::remove(dir)?;
        }
        None | Some(legacy::VERSION) => format::write_version(dir, format::JOURNAL, VERSION)?,
        Some(other) => return Err(format::unknown(dir, format::JOURNAL, other, VERSION)),
    }
    let lock = lock_dir(dir)?;
    let log = Log::new(dir, config, disk, Some(lock));
    let mut opened = Opened {
        log,
        last_sequence: 0,
        torn_tails: 0,
        corrupt_frames,
        damaged_tails: Vec::new(),
        missing: Vec::new(),
    };
    if !opened.take_closed()? {
        opened.find_files()?;
        opened.make_durable()?;
    }
    opened.log.write_list();
    Ok(opened)
}

/// Creates an empty log for the conversion of format 1, which holds the directory's lock itself. Removes log
/// files of an interrupted conversion.
fn create_for_conversion(dir: &Path, config: &Config, disk: Arc<dyn Disk>) -> Result<Log, JournalError> {
    for id in list(dir)? {
        let path = dir.join(id.name());
        fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
    }
    let config = Config { max_bytes: None, ..config.clone() };
    Ok(Log::new(dir, &config, disk, None))
}

fn create_dir(disk: &dyn Disk, dir: &Path) -> Result<(), JournalError> {
    if dir.is_dir() {
        return Ok(());
    }
    let created = fs::create_dir_all(dir).and_then(|()| match dir.parent() {
        Some(parent) if parent != Path::new("") => disk.sync_dir(parent),
        _ => Ok(()),
    });
    created.map_err(|error| failed("create", dir, error))
}

/// Locks the directory. Other processes cannot open it until the returned lock is dropped.
fn lock_dir(dir: &Path) -> Result<FileLock, JournalError> {
    let path = dir.join("lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| failed("open", &path, error))?;
    match FileLock::try_new(file) {
        Ok(lock) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(JournalError::Locked { path: dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed("lock", &path, error)),
    }
}

fn list(dir: &Path) -> Result<Vec<FileId>, JournalError> {
    files::list(dir).map_err(|error| failed("list", dir, error))
}

impl Opened {
    /// Takes the files as the note of the last close has them, without reading them. False if there is no
    /// note that fits. A note that does not fit is removed, because the files may be changed from now on.
    fn take_closed(&mut self) -> Result<bool, JournalError> {
        let dir = &self.log.dir;
        match closed::read(dir) {
            Ok(None) => Ok(false),
            Ok(Some(noted)) => {
                tracing::debug!(
                    dir = %dir.display(),
                    files = noted.files.len(),
                    "the journal was closed cleanly, so its files are not read"
                );
                self.last_sequence = noted.last_sequence;
                for (id, file) in noted.files {
                    let path = self.log.dir.join(id.name());
                    self.log.files.insert(id, LogFile::closed(path, file.end, file.first_sequence));
                }
                self.log.is_noted = true;
                Ok(true)
            }
            Err(why) => {
                tracing::info!(
                    dir = %dir.display(), %why,
                    "the note of the last clean close does not match the files of the journal, so the start \
                     reads them"
                );
                let removed = closed::remove(&*self.log.disk, dir);
                removed.map_err(|error| failed("remove the note of the last close from", dir, error))?;
                Ok(false)
            }
        }
    }

    fn find_files(&mut self) -> Result<(), JournalError> {
        // Power loss can leave a hole only in the newest file that has content.
        let mut is_newest = true;
        let mut listed = listed::read(&self.log.dir);
        for id in list(&self.log.dir)?.into_iter().rev() {
            let path = self.log.dir.join(id.name());
            let file = OpenOptions::new().read(true).write(true).open(&path);
            let file = file.map_err(|error| failed("open", &path, error))?;
            let mut found = scan(&file, id.segment, 0).map_err(|error| failed("read", &path, error))?;
            let note = files::read_note(&path);
            let synced = listed.remove(&id).unwrap_or(0);
            if is_newest {
                cut_at_hole(&mut found, note, synced);
                is_newest = found.end == 0 && found.tail_bytes == 0;
            }
            if found.end < synced && found.damaged_tail.is_none() {
                self.missing.push((path.clone(), synced - found.end));
            }
            self.cut_tail(&path, &file, &found)?;
            if found.end == 0 {
                fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
                files::remove_note(&path);
                continue;
            }
            let numbers = found.frames.iter().map(|frame| frame.first_sequence);
            // The last sequence number that was reserved for the newest frame.
            let reserved = numbers.clone().max().unwrap_or(0).saturating_add(RECORDS_MAX as u64 - 1);
            self.last_sequence = self.last_sequence.max(reserved);
            let mut log_file = LogFile::new(path, file);
            log_file.end = found.end;
            log_file.first_sequence = numbers.min().unwrap_or(0);
            log_file.synced = note.unwrap_or(0).min(found.end);
            self.log.files.insert(id, log_file);
        }
        let gone = listed.into_iter().filter(|(_, synced)| *synced > 0);
        self.missing.extend(gone.map(|(id, synced)| (self.log.dir.join(id.name()), synced)));
        Ok(())
    }

    /// Cuts off everything after the last intact frame. Copies it first unless it is all zeros.
    fn cut_tail(&mut self, path: &Path, file: &File, found: &Scan) -> Result<(), JournalError> {
        if found.tail_bytes > 0 {
            let copy = files::copy_aside(path, found.end, found.end + found.tail_bytes)?;
            if let Some(damage) = found.damaged_tail {
                self.damaged_tails.push((path.to_owned(), copy, damage));
            } else {
                self.torn_tails += 1;
                tracing::warn!(
                    file = %path.display(), copy = %copy.display(), kept_bytes = found.end,
                    cut_bytes = found.tail_bytes,
                    "a journal file ended in an unfinished write, which was copied to another file and cut off"
                );
            }
        }
        file.set_len(found.end).map_err(|error| failed("cut", path, error))
    }

    /// Syncs the files, because the last process may not have. Data whose sync failed is written again.
    fn make_durable(&mut self) -> Result<(), JournalError> {
        let log = &mut self.log;
        let unsynced = log.unsynced().map_err(|error| failed("open files in", &log.dir, error))?;
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        let mut last_error = io::Error::other("a sync failed before the start");
        for file in unsynced {
            let noted = log.files.get(&file.id).is_some_and(|f| files::read_note(&f.path).is_some());
            match log.disk.sync(&file.file) {
                Ok(()) if !noted => good.push(file),
                Ok(()) => bad.push(file),
                Err(error) => {
                    last_error = error;
                    bad.push(file);
                }
            }
        }
        log.disk.sync_dir(&log.dir).map_err(|error| failed("sync", &log.dir, error))?;
        log.note_synced(&good);
        if !bad.is_empty() {
            log.note_sync_failure(&bad, &last_error);
            match log.rewrite() {
                Err(JournalError::Poisoned { reason }) => {
                    // Everything that is readable was written again. The rest cannot be recovered.
                    tracing::error!(dir = %log.dir.display(), reason, "journal records could not be read back after a failed sync; their points are lost unless they were stored");
                    log.state = State::Open;
                }
                result => {
                    result?;
                }
            }
        }
        log.files.values_mut().for_each(LogFile::seal);
        Ok(())
    }
}

/// Cuts the newest file at damage left by power loss: a page of zeros that is followed by frames. Nothing from there on
/// was synced. Other damage stays, and replay skips it. This includes holes before the offset up to which the file is
/// known to be `synced`.
fn cut_at_hole(found: &mut Scan, note: Option<u64>, synced: u64) {
    let Some(damage) = found.damage.iter().find(|damage| damage.to > synced).copied() else { return };
    // Data after a failed sync is written again as far as it can be read.
    if damage.hole && note.is_none_or(|synced| synced > damage.from) {
        found.cut(damage.from);
    }
}

fn failed(what: &str, path: &Path, error: io::Error) -> JournalError {
    JournalError::failed(format!("{what} {}", path.display()), error)
}
