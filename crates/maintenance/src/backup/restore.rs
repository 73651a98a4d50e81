//! Verifies a generation of a backup, and restores it into a new data directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::copy::{copy_out, sum_of};
use super::directory::{is_empty, sync_dir, write_durably};
use super::take::{free_at, refuse_inside};
use super::{BackupError, Directory, Generation, io_error};
use crate::rate::Rate;
use crate::tracker::Tracker;

/// A file that is in a data directory while it is being restored. A daemon refuses to start with it.
pub const RESTORING: &str = "restore-unfinished";

/// The result of verifying a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// The number of the verified generation.
    pub generation: u32,
    /// Number of files whose checksums were compared.
    pub files: u64,
    /// The length of all files, in bytes.
    pub bytes: u64,
}

/// How the files of a backup are read: at which rate, and what shows and ends it.
#[derive(Debug)]
pub struct Reads<'a> {
    rate: Rate,
    progress: &'a Tracker,
    stop: &'a CancellationToken,
}

impl<'a> Reads<'a> {
    /// Reads at most this many bytes per second; 0 for no limit.
    pub fn new(bytes_per_second: u64, progress: &'a Tracker, stop: &'a CancellationToken) -> Self {
        Self { rate: Rate::new(bytes_per_second), progress, stop }
    }

    fn on_bytes(&mut self, bytes: u64) -> Result<(), BackupError> {
        self.progress.add(bytes);
        self.rate.take_blocking(bytes, self.stop);
        if self.stop.is_cancelled() { Err(BackupError::Cancelled) } else { Ok(()) }
    }
}

/// Reads every file of a generation and compares its checksum.
///
/// # Errors
/// [`BackupError::Damaged`] names all files that are damaged or missing.
pub fn verify(
    directory: &Directory,
    generation: &Generation,
    reads: &mut Reads<'_>,
) -> Result<Verified, BackupError> {
    let mut users: BTreeMap<&str, (u64, Vec<&Path>)> = BTreeMap::new();
    for file in &generation.files {
        users.entry(&file.sha256).or_insert((file.bytes, Vec::new())).1.push(&file.path);
    }
    reads.progress.begin("verifying bytes", Some(users.values().map(|(bytes, _)| bytes).sum()));
    let mut damaged = Vec::new();
    for (sha256, (bytes, paths)) in users {
        let object = directory.object(sha256);
        let why = match sum_of(&object, &mut |bytes| reads.on_bytes(bytes)) {
            Ok((found, len)) if found == sha256 && len == bytes => continue,
            Ok((_, len)) if len != bytes => format!("it has {len} bytes, not {bytes}"),
            Ok(_) => "its checksum is wrong".to_owned(),
            Err(BackupError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                "it is missing".to_owned()
            }
            Err(BackupError::Io { cause, .. }) => format!("it cannot be read: {cause}"),
            Err(error) => return Err(error),
        };
        let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        damaged.push(format!("{} ({}): {why}", object.display(), paths.join(", ")));
    }
    if !damaged.is_empty() {
        return Err(BackupError::Damaged(damaged));
    }
    let (number, files) = (generation.number, generation.files.len() as u64);
    Ok(Verified { generation: number, files, bytes: generation.bytes() })
}

/// Restores a generation into the data directory `to`, which must be missing, empty or from an interrupted
/// restore. Verifies all files before it writes any. `finish` is called when all files are in place, before
/// the directory can be used.
///
/// # Errors
/// See [`BackupError`]. After a failure the same call begins again.
pub fn restore(
    directory: &Directory,
    generation: &Generation,
    to: &Path,
    reads: &mut Reads<'_>,
    finish: &dyn Fn(&Path) -> Result<(), BackupError>,
) -> Result<Verified, BackupError> {
    check_target(directory, to)?;
    let verified = verify(directory, generation, reads)?;
    fs::create_dir_all(to).map_err(io_error("create", to))?;
    clear(to, generation.number)?;
    check_room(to, verified.bytes)?;
    reads.progress.begin("restoring bytes", Some(verified.bytes));
    let mut dirs = BTreeSet::from([to.to_owned()]);
    for file in &generation.files {
        let path = to.join(&file.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io_error("create", parent))?;
            dirs.extend(parent.ancestors().take_while(|dir| dir.starts_with(to)).map(PathBuf::from));
        }
        let object = directory.object(&file.sha256);
        if copy_out(&object, &path, &mut |bytes| reads.on_bytes(bytes))? != file.sha256 {
            let text = format!("{} ({}): its checksum is wrong", object.display(), file.path.display());
            return Err(BackupError::Damaged(vec![text]));
        }
    }
    finish(to)?;
    dirs.iter().try_for_each(|dir| sync_dir(dir).map_err(io_error("sync", dir)))?;
    let mark = to.join(RESTORING);
    fs::remove_file(&mark).map_err(io_error("remove", &mark))?;
    sync_dir(to).map_err(io_error("sync", to))?;
    Ok(verified)
}

/// Refuses a directory that already contains something else, or that is inside the backup or around it.
///
/// # Errors
/// [`BackupError::Invalid`] if the directory is refused.
pub fn check_target(directory: &Directory, to: &Path) -> Result<(), BackupError> {
    refuse_inside(directory.path(), to)?;
    match fs::metadata(to) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io_error("read", to)(error)),
        Ok(found) if !found.is_dir() => {
            Err(BackupError::Invalid(format!("{} is not a directory", to.display())))
        }
        Ok(_) if is_empty(to)? || to.join(RESTORING).exists() => Ok(()),
        Ok(_) => Err(BackupError::Invalid(format!(
            "{} is not empty. Nothing was written. A backup is restored into a new directory: name another one with \
             --data-dir, or move this one away",
            to.display()
        ))),
    }
}

/// Removes what an interrupted restore has written, and marks the directory.
fn clear(to: &Path, generation: u32) -> Result<(), BackupError> {
    let mark = to.join(RESTORING);
    let is_marked = mark.exists();
    let text = format!("generation {generation} is being restored here; run `plumbago restore` again\n");
    write_durably(&mark, text.as_bytes()).map_err(io_error("write", &mark))?;
    if !is_marked {
        return Ok(());
    }
    for entry in fs::read_dir(to).map_err(io_error("list", to))? {
        let path = entry.map_err(io_error("list", to))?.path();
        if path == mark || path.ends_with("lost+found") {
            continue;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(io_error("remove", &path))?;
    }
    Ok(())
}

fn check_room(to: &Path, needed_bytes: u64) -> Result<(), BackupError> {
    let Some(free_bytes) = free_at(to).filter(|free| *free < needed_bytes) else { return Ok(()) };
    let next = "Make room or name another directory, and run the command again".to_owned();
    Err(BackupError::DiskFull { path: to.to_owned(), needed_bytes, free_bytes, next })
}
