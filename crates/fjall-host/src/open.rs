//! Opens a database: checks its format, rewrites its newest log, repairs a damaged log, and names a damaged
//! file.

use std::path::{Path, PathBuf};

use fjall::config::{CompressionPolicy, FilterPolicy};
use fjall::{CompressionType, Database, KeyspaceCreateOptions};

use crate::batches::{TakenOut, cut_unfinished, take_out_damage};
use crate::check::{self, Mended};
use crate::error::REPAIR;
use crate::log::{self, LogEnds};
use crate::repair::{Repair, clear_unfinished, lock_database, repair};
use crate::{HostError, deletion, diagnosis, format};

/// Number of fjall's threads for tables and compactions. With two threads, one spins while the other
/// compacts, which takes a third more CPU per point.
const WORKERS: usize = 1;

/// How to open a database.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The directory of the database. Created if it is missing.
    pub dir: PathBuf,
    /// The name that the directory's format file must contain.
    pub format: &'static str,
    /// Size of the block cache in bytes.
    pub cache_bytes: u64,
    /// Total size of sealed logs, in bytes, above which fjall makes keyspaces flush. At least 64 MiB.
    pub log_bytes_max: u64,
}

/// An open database, and what had to be repaired.
pub struct Opened {
    /// fjall's handle of the database.
    pub database: Database,
    /// How a damaged log was cut. `None` if no log had to be cut.
    pub repaired: Option<Repair>,
    /// Damage that was found and was skipped or repaired.
    pub found: Vec<Mended>,
}

/// Opens or creates a database, without the supervision of [`crate::Host`].
///
/// # Errors
///
/// Any [`HostError`] except `Broken`, `SyncFailed`, `Lost`, `Behind` and `Closed`.
pub fn open(settings: &Settings) -> Result<Opened, HostError> {
    let mut found = Vec::new();
    match open_and_mend(settings, &mut found) {
        Ok((database, repaired)) => Ok(Opened { database, repaired, found }),
        Err(error) => {
            // Logged now, because the next attempt will not find what this one has repaired.
            for Mended { path, text } in &found {
                tracing::error!(file = %path.display(), "damaged data: {text}");
            }
            Err(error)
        }
    }
}

/// Opens the database. Adds to `found` the damage that was skipped or repaired, even if opening fails after
/// that.
fn open_and_mend(
    settings: &Settings,
    found: &mut Vec<Mended>,
) -> Result<(Database, Option<Repair>), HostError> {
    let dir = &settings.dir;
    std::fs::create_dir_all(dir).map_err(|cause| HostError::io(dir, "create", cause))?;
    format::check(dir, settings.format)?;
    clear_unfinished(dir)?;
    finish_deletions(dir)?;
    found.extend(check::check(dir)?);
    write_logs_anew(dir, found)?;
    let ends = LogEnds::of(dir);
    cut_newest_log(dir)?;
    let mut repaired = None;
    let opened = match open_fjall(settings) {
        Ok(Err(fjall::Error::JournalRecovery(_))) => {
            repaired = Some(repair(dir)?);
            open_fjall(settings)
        }
        result => result,
    };
    let Ok(opened) = opened else {
        let reason = diagnosis::find(dir).unwrap_or_else(|| "its files do not fit together".to_owned());
        return Err(HostError::Corrupt { path: dir.clone(), reason: format!("{reason}. {REPAIR}") });
    };
    let database = opened.map_err(|cause| HostError::opening(dir, cause))?;
    if repaired.is_none() {
        report_cuts(&ends);
    }
    format::write(dir, settings.format)?;
    Ok((database, repaired))
}

/// Finishes interrupted deletions, under the lock of the database, because another process could be deleting.
fn finish_deletions(dir: &Path) -> Result<(), HostError> {
    let _lock = lock_database(dir)?;
    deletion::finish(dir)
}

/// Removes damaged batches from the logs, adds them to `found`, and rewrites the newest log. It holds the lock of the
/// database meanwhile, because another process could be writing to it.
fn write_logs_anew(dir: &Path, found: &mut Vec<Mended>) -> Result<(), HostError> {
    let _lock = lock_database(dir)?;
    let failed = |cause| HostError::io(dir, "rewrite the newest log of", cause);
    let logs = match log::logs(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        logs => logs.map_err(failed)?,
    };
    for path in &logs {
        let is_newest = logs.last() == Some(path);
        let damaged = |cause| HostError::io(path, "remove the damaged places from", cause);
        found.extend(take_out_damage(path, is_newest).map_err(damaged)?.map(TakenOut::describe));
    }
    log::write_anew(dir).map_err(failed)
}

/// Cuts an unfinished batch off the newest log, under the lock of the database.
fn cut_newest_log(dir: &Path) -> Result<(), HostError> {
    let _lock = lock_database(dir)?;
    let failed = |cause| HostError::io(dir, "cut the newest log of", cause);
    match log::logs(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        logs => {
            logs.and_then(|logs| logs.last().map_or(Ok(()), |newest| cut_unfinished(newest))).map_err(failed)
        }
    }
}

/// Opens the database. The outer error is a panic, which some damaged files cause in fjall.
fn open_fjall(settings: &Settings) -> std::thread::Result<fjall::Result<Database>> {
    let builder = Database::builder(&settings.dir)
        .worker_threads(WORKERS)
        .cache_size(settings.cache_bytes)
        .journal_compression(CompressionType::None)
        .max_journaling_size(settings.log_bytes_max);
    plumbago_telemetry::log::catch_panic(|| builder.open())
}

fn report_cuts(ends: &LogEnds) {
    for (file, bytes) in ends.cut() {
        tracing::warn!(
            file = %file.display(),
            bytes,
            "the end of a log could not be read and was cut off: either a commit that a crash interrupted, whose \
             points are in the journal, or damage"
        );
    }
}

/// Options for a keyspace whose rows are read in order, a few times at most: no compression and no filters.
/// The caller must rotate full memtables ([`crate::pressure`]).
pub fn rows_in_order() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(u64::MAX)
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
}

/// The first damaged file of the database in `dir`, as a clause for a message. `None` if all checksums match.
/// Reads every file, so call it only for a database that does not open.
pub fn damaged_file(dir: &Path) -> Option<String> {
    diagnosis::find(dir)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// A kill can end the write of a commit after any byte.
    #[test]
    fn a_log_that_ends_within_a_batch_opens_with_the_batches_before() {
        let place = tempfile::tempdir().unwrap();
        let settings = |dir: &Path| Settings {
            dir: dir.to_owned(),
            format: "test 1",
            cache_bytes: 1 << 20,
            log_bytes_max: 64 << 20,
        };
        let dir = place.path().join("whole");
        let opened = open(&settings(&dir)).unwrap().database;
        let rows = opened.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
        rows.insert("a", [7; 40]).unwrap();
        let newest = || log::logs(&dir).unwrap().pop().unwrap();
        let before = log::end_of_data(&newest()).unwrap() as usize;
        rows.insert("b", [8; 40]).unwrap();
        opened.persist(fjall::PersistMode::SyncAll).unwrap();
        let end = log::end_of_data(&newest()).unwrap() as usize;
        assert!(before < end);
        let copied = place.path().join("killed");
        for cut in before..end {
            let _ = fs::remove_dir_all(&copied);
            let status = std::process::Command::new("cp").arg("-r").arg(&dir).arg(&copied).status().unwrap();
            assert!(status.success());
            let torn = copied.join(newest().file_name().unwrap());
            let torn = fs::File::options().write(true).open(torn).unwrap();
            torn.write_all_at(&vec![0; end - cut], cut as u64).unwrap();
            // Keeps only one of the 64 megabytes of zeros that fjall allocates in advance, because reading
            // all of them each time takes long.
            torn.set_len(end as u64 + (1 << 20)).unwrap();
            let again = open(&settings(&copied)).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            let rows = again.database.keyspace("rows", KeyspaceCreateOptions::default).unwrap();
            assert!(rows.get("a").unwrap().is_some() && rows.get("b").unwrap().is_none(), "cut at {cut}");
        }
    }
}
