//! Takes a backup: copies what is new, and writes the manifest last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use plumbago_model::Clock;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::copy::{Copied, SMALL_BYTES, copy_in};
use super::manifest::{FORMAT, Generation};
use super::{BackupError, DataFiles, Directory, Entry, Held, HeldFile, io_error};
use crate::rate::Rate;
use crate::tracker::Tracker;

/// Room for the manifest and the directories of objects.
const SLACK_BYTES: u64 = 4 << 20;
/// Free space is checked after this many copied bytes.
const LOOK_AFTER_BYTES: u64 = 64 << 20;
/// Largest number of damaged files that the answer names.
const DAMAGED_MAX: usize = 100;

/// A request for a backup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Order {
    /// The directory of the backup.
    pub dir: PathBuf,
    /// Keep this many of the newest generations and remove the others afterwards; `None` keeps all.
    pub keep: Option<u32>,
    /// Whether to count what would be copied, and write nothing.
    pub dry_run: bool,
    /// Maximum number of bytes that are read per second; 0 for no limit.
    pub rate: u64,
}

/// What a backup did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Taken {
    /// The number of the generation.
    pub generation: u32,
    /// When the files of the generation were held, in seconds since the epoch. It contains everything up to
    /// then.
    pub held: i64,
    /// Number of files in the generation.
    pub files: u64,
    /// The sum of the sizes of these files, in bytes.
    pub bytes: u64,
    /// Files that were copied.
    pub copied_files: u64,
    /// Bytes that were written into the backup; in a dry run, those that would be read.
    pub copied_bytes: u64,
    /// Number of metrics, if it is known.
    pub metrics: Option<u64>,
    /// Generations that were removed.
    pub removed: u64,
    /// Files that are damaged in the data directory.
    pub damaged: Vec<String>,
}

/// What a backup needs besides the request.
#[derive(Debug, Clone, Copy)]
pub struct Means<'a> {
    /// Holds the files of the data directory.
    pub files: &'a dyn DataFiles,
    /// The clock for the time of the generation.
    pub clock: &'a dyn Clock,
    /// The progress that the run reports.
    pub progress: &'a Tracker,
    /// Cancels the run.
    pub stop: &'a CancellationToken,
}

/// Takes a backup. Blocks until it is done. An interrupted run leaves no generation; the next one uses what was copied.
///
/// # Errors
/// See [`BackupError`].
pub fn take(order: &Order, means: Means<'_>) -> Result<Taken, BackupError> {
    refuse_inside(&order.dir, means.files.dir())?;
    let directory = match order.dry_run {
        true => Directory::open(&order.dir).ok(),
        false => Some(Directory::open_to_write(&order.dir)?),
    };
    let began = means.clock.now();
    means.progress.begin("holding files", None);
    let held = means.files.hold()?;
    let at = means.clock.now();
    let plan = BackupPlan::new(directory.as_ref(), &held)?;
    let mut taken = Taken {
        held: at,
        files: held.files.len() as u64,
        bytes: held.files.iter().map(|file| file.bytes).sum(),
        metrics: held.metrics,
        ..Taken::default()
    };
    let Some(directory) = directory.filter(|_| !order.dry_run) else {
        taken.copied_files = plan.new.len() as u64;
        taken.copied_bytes = plan.new_bytes;
        return Ok(taken);
    };
    check_room(&directory, &held, plan.new_bytes)?;
    means.progress.begin("copying bytes", Some(plan.new_bytes));
    let mut entries = plan.known;
    let rate = Rate::new(order.rate);
    let result = copy_all(&directory, &held, &plan.new, means, rate, &mut entries, &mut taken);
    result.map_err(|error| explain(error, &directory, plan.new_bytes.saturating_sub(taken.copied_bytes)))?;
    let sums: BTreeSet<String> = entries.iter().map(|entry| entry.sha256.clone()).collect();
    directory.sync_objects(&sums).map_err(io_error("sync", directory.path()))?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    taken.generation = directory.numbers()?.last().map_or(1, |newest| newest + 1);
    let generation = Generation {
        format: FORMAT,
        number: taken.generation,
        began,
        held: at,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        store: held.store.clone(),
        data_dir: held.dir.clone(),
        metrics: held.metrics,
        copied_bytes: taken.copied_bytes,
        damaged: taken.damaged.clone(),
        files: entries,
    };
    directory.add(&generation).map_err(|error| explain(error, &directory, SLACK_BYTES))?;
    drop(held);
    if let Some(keep) = order.keep {
        means.progress.begin("removing old generations", None);
        taken.removed = directory.prune(keep as usize)?;
    }
    Ok(taken)
}

/// Which files are in the backup already.
struct BackupPlan<'a> {
    known: Vec<Entry>,
    new: Vec<&'a HeldFile>,
    new_bytes: u64,
}

impl<'a> BackupPlan<'a> {
    fn new(directory: Option<&Directory>, held: &'a Held) -> Result<Self, BackupError> {
        let known = directory.map_or(Ok(BTreeMap::new()), known)?;
        let mut plan = Self { known: Vec::new(), new: Vec::new(), new_bytes: 0 };
        for file in &held.files {
            let identity = identity(file)?;
            let sha256 = known.get(&key(&identity, file)).filter(|sum| {
                !identity.is_empty() && directory.is_some_and(|directory| directory.has(sum, file.bytes))
            });
            match sha256 {
                Some(sum) => plan.known.push(Entry {
                    path: file.name.clone(),
                    bytes: file.bytes,
                    sha256: sum.clone(),
                    identity,
                }),
                None => {
                    plan.new_bytes += file.bytes;
                    plan.new.push(file);
                }
            }
        }
        Ok(plan)
    }
}

/// The files that the newest generation and an interrupted run have copied, by [`key`].
fn known(directory: &Directory) -> Result<BTreeMap<String, String>, BackupError> {
    let mut known: BTreeMap<String, String> = directory.copied().into_iter().collect();
    if let Some(newest) = directory.numbers()?.last() {
        match directory.generation(*newest) {
            Ok(generation) => known.extend(generation.files.into_iter().map(|entry| {
                let file = HeldFile { name: entry.path, at: PathBuf::new(), bytes: entry.bytes, xxh3: None };
                (key(&entry.identity, &file), entry.sha256)
            })),
            // After this error all files are read again.
            Err(BackupError::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(known)
}

fn key(identity: &str, file: &HeldFile) -> String {
    format!("{identity} {} {}", file.bytes, file.name.display())
}

/// A text that changes when the file changes. Empty for small files, which are always read, because they may be written
/// in place within a tick of the file system's clock.
fn identity(file: &HeldFile) -> Result<String, BackupError> {
    if file.bytes <= SMALL_BYTES {
        return Ok(String::new());
    }
    let found = fs::metadata(&file.at).map_err(io_error("read", &file.at))?;
    Ok(format!("{}.{}.{:09}", found.ino(), found.mtime(), found.mtime_nsec()))
}

fn copy_all(
    directory: &Directory,
    held: &Held,
    files: &[&HeldFile],
    means: Means<'_>,
    mut rate: Rate,
    entries: &mut Vec<Entry>,
    taken: &mut Taken,
) -> Result<(), BackupError> {
    let mut left: u64 = files.iter().map(|file| file.bytes).sum();
    let mut unseen = 0;
    for file in files {
        // Taken before the file is read, so that a file that grows meanwhile does not look unchanged.
        let identity = identity(file)?;
        let mut on_bytes = |bytes: u64| {
            left = left.saturating_sub(bytes);
            means.progress.add(bytes);
            unseen += bytes;
            if unseen >= LOOK_AFTER_BYTES {
                unseen = 0;
                check_room(directory, held, left)?;
            }
            rate.take_blocking(bytes, means.stop);
            if means.stop.is_cancelled() { Err(BackupError::Cancelled) } else { Ok(()) }
        };
        let Copied { sha256, is_new, is_damaged } = copy_in(directory, file, &mut on_bytes)?;
        if is_new {
            taken.copied_files += 1;
            taken.copied_bytes += file.bytes;
        }
        if is_damaged && taken.damaged.len() < DAMAGED_MAX {
            taken.damaged.push(file.name.display().to_string());
        }
        if !identity.is_empty() && !is_damaged {
            let noted = directory.note_copied(&key(&identity, file), &sha256);
            noted.map_err(io_error("write to", directory.path()))?;
        }
        let identity = if is_damaged { String::new() } else { identity };
        entries.push(Entry { path: file.name.clone(), bytes: file.bytes, sha256, identity });
    }
    Ok(())
}

/// Fails if the disk of the backup has no room for `bytes` more. If the data directory is on the same disk, the space that
/// the store and the journal need to continue must stay free too.
fn check_room(directory: &Directory, held: &Held, bytes: u64) -> Result<(), BackupError> {
    let Some(free_bytes) = free_at(directory.path()) else { return Ok(()) };
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let is_shared = device(directory.path()) == device(&held.dir);
    let reserve = if is_shared { held.min_free_bytes } else { 0 };
    let needed_bytes = bytes.saturating_add(SLACK_BYTES).saturating_add(reserve);
    if free_bytes >= needed_bytes { Ok(()) } else { Err(full(directory.path(), needed_bytes, free_bytes)) }
}

/// Bytes that can still be written to the disk of `dir`. `None` if the system does not report it.
pub(crate) fn free_at(dir: &Path) -> Option<u64> {
    let disk = statvfs(dir).ok()?;
    // The types differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    Some(disk.blocks_available() as u64 * disk.fragment_size() as u64)
}

fn full(path: &Path, needed_bytes: u64, free_bytes: u64) -> BackupError {
    let next =
        "Make room and run the same command again; it uses the files that are copied already".to_owned();
    BackupError::DiskFull { path: path.to_owned(), needed_bytes, free_bytes, next }
}

/// If a write failed because the disk is full, makes an error that says how much space is needed.
fn explain(error: BackupError, directory: &Directory, left: u64) -> BackupError {
    match error {
        BackupError::Io { operation: "write" | "write to" | "sync", cause, .. }
            if matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
        {
            // The unfinished file is of no use, because the next run copies that file again.
            let _ = fs::remove_file(directory.unfinished());
            full(directory.path(), left.saturating_add(SLACK_BYTES), free_at(directory.path()).unwrap_or(0))
        }
        error => error,
    }
}

/// The path with all links resolved. Its last components need not exist.
pub(crate) fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = absolute.ancestors().find(|parent| parent.exists()).map(Path::to_owned);
    let existing = existing.unwrap_or_else(|| absolute.clone());
    let rest = absolute.strip_prefix(&existing).map(Path::to_owned).unwrap_or_default();
    existing.canonicalize().unwrap_or(existing).join(rest)
}

/// Refuses a backup directory inside the data directory, and a data directory inside the backup directory.
pub(super) fn refuse_inside(backup: &Path, data: &Path) -> Result<(), BackupError> {
    let (backup_dir, data_dir) = (real(backup), real(data));
    if backup_dir.starts_with(&data_dir) || data_dir.starts_with(&backup_dir) {
        let text = format!(
            "the backup {} and the data directory {} must be separate: neither may be inside the other",
            backup.display(),
            data.display()
        );
        return Err(BackupError::Invalid(text));
    }
    Ok(())
}
