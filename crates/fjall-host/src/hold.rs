//! Keeps the files of a database as they are at one moment, while the database stays in use. Backups need
//! this.
//!
//! fjall has no snapshots of files. But almost all of its files never change: tables and manifests are written once and
//! removed later, and logs only grow. So a hard link is enough to keep a file. The held files are in a state in which a
//! kill could have left them (`docs/decisions/backup.md`):
//!
//! * Logs are linked first, then for each keyspace its newest manifest with its tables, then the logs again. So every
//!   row is in a table that is held or in a log that is held.
//! * A log is held up to the end that it had after the tables were linked. Rows in tables were in a log
//!   before. So if a part of a commit is in a table of one keyspace, the whole commit is in a log.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fjall::{Database, PersistMode};

use crate::HostError;
use crate::log::{end_of_data, log_number, logs};
use crate::manifest::keyspaces;
use crate::manifest::{self, Current};

/// How many times holding is tried again when fjall has removed a file before it was linked.
const TRIES: u32 = 500;
const PAUSE: Duration = Duration::from_millis(2);
/// Files smaller than this are copied instead of linked, because they may be changed in place.
const SMALL_BYTES: u64 = 1 << 20;

/// A file that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldFile {
    /// The path of the file in the directory of the database.
    pub name: PathBuf,
    /// The path at which the file can be read while the links exist.
    pub at: PathBuf,
    /// How many bytes of the file belong to the held state. A log may have grown since.
    pub bytes: u64,
    /// The XXH3 checksum that a table must have.
    pub xxh3: Option<u128>,
}

/// Holds the files of the database in `dir` by links in the new directory `links`, on the same file system.
/// `database` is that database if this process has it open. Commits may continue meanwhile, but no keyspace
/// may be created or deleted.
///
/// # Errors
/// [`HostError::Unavailable`] or [`HostError::Failed`] if a file cannot be read or linked.
pub fn hold(dir: &Path, links: &Path, database: Option<&Database>) -> Result<Vec<HeldFile>, HostError> {
    // Passes all committed data to the operating system.
    let write_out = || match database {
        Some(database) => database
            .persist(PersistMode::Buffer)
            .map_err(|cause| HostError::failed(format!("write the log of {}", dir.display()), cause)),
        None => Ok(()),
    };
    let failed = |error| HostError::io(dir, "hold the files of", error);
    let mut tries = 0;
    loop {
        let attempt = Attempt::begin(dir, links).map_err(failed)?;
        write_out()?;
        let mut held = attempt.others().map_err(failed)?;
        attempt.link_logs().map_err(failed)?;
        for keyspace in keyspaces(dir).map_err(failed)? {
            held.extend(attempt.keyspace(&keyspace).map_err(failed)?);
        }
        write_out()?;
        attempt.link_logs().map_err(failed)?;
        let ends = attempt.ends().map_err(failed)?;
        // After this, every writer that was at the end of the newest log a moment ago has finished its write.
        write_out()?;
        if let Some(ends) = ends {
            held.extend(ends);
            return Ok(held);
        }
        tries += 1;
        if tries > TRIES {
            return Err(failed(io::Error::other("its logs change too fast")));
        }
    }
}

struct Attempt<'a> {
    dir: &'a Path,
    links: &'a Path,
}

impl<'a> Attempt<'a> {
    fn begin(dir: &'a Path, links: &'a Path) -> io::Result<Self> {
        if links.exists() {
            fs::remove_dir_all(links)?;
        }
        fs::create_dir_all(links)?;
        Ok(Self { dir, links })
    }

    /// Links a file. Returns `false` if the file no longer exists.
    fn link(&self, name: &Path) -> io::Result<bool> {
        let to = self.links.join(name);
        if to.exists() {
            return Ok(true);
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        match link_or_copy(&self.dir.join(name), &to) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            result => result.map(|()| true),
        }
    }

    fn held(&self, name: PathBuf) -> io::Result<HeldFile> {
        let at = self.links.join(&name);
        Ok(HeldFile { bytes: fs::metadata(&at)?.len(), at, name, xxh3: None })
    }

    /// The files of the database directory that are not logs and not in a keyspace.
    fn others(&self) -> io::Result<Vec<HeldFile>> {
        let mut held = Vec::new();
        for entry in fs::read_dir(self.dir)? {
            let entry = entry?;
            let name = PathBuf::from(entry.file_name());
            let text = name.to_string_lossy();
            // fjall does not open a database without its file `lock`, which is empty.
            let is_left_out = text == "plumbago-probe"
                || text.ends_with(".new")
                || text.contains(".jnl")
                || text.starts_with('.');
            if is_left_out || !entry.file_type()?.is_file() {
                continue;
            }
            if entry.metadata().map_or(0, |found| found.len()) < SMALL_BYTES {
                match fs::copy(self.dir.join(&name), self.links.join(&name)) {
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    copied => copied?,
                };
            } else if !self.link(&name)? {
                continue;
            }
            held.push(self.held(name)?);
        }
        Ok(held)
    }

    /// Links the logs that are not linked yet.
    fn link_logs(&self) -> io::Result<()> {
        for log in logs(self.dir)? {
            if let Some(name) = log.file_name() {
                // If a log no longer exists, its rows were written to tables before it was removed.
                self.link(Path::new(name))?;
            }
        }
        Ok(())
    }

    /// The linked logs up to their ends. `None` if a log was created and removed between the two listings.
    fn ends(&self) -> io::Result<Option<Vec<HeldFile>>> {
        let mut ends = BTreeMap::new();
        for log in logs(self.links)? {
            if let (Some(number), Some(name)) = (log_number(&log), log.file_name()) {
                let held = self.held(PathBuf::from(name))?;
                ends.insert(number, HeldFile { bytes: end_of_data(&log)?, ..held });
            }
        }
        let numbers: Vec<u64> = ends.keys().copied().collect();
        let is_whole = !numbers.is_empty() && numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        Ok(is_whole.then(|| ends.into_values().collect()))
    }

    /// The newest manifest of a keyspace with its tables. Nothing if the keyspace is being removed.
    fn keyspace(&self, keyspace: &Path) -> io::Result<Vec<HeldFile>> {
        let inside = keyspace.strip_prefix(self.dir).map_err(io::Error::other)?;
        let mut tries = 0;
        loop {
            let bytes = match fs::read(manifest::current_path(keyspace)) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                bytes => bytes?,
            };
            if let Some(held) = self.version(keyspace, inside, &bytes)? {
                return Ok(held);
            }
            tries += 1;
            if tries > TRIES {
                let text = format!("the tables of {} do not fit its manifest", keyspace.display());
                return Err(io::Error::other(text));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The manifest that `current` names, with its tables. `None` if one of the files no longer exists,
    /// because there is a newer manifest.
    fn version(&self, keyspace: &Path, inside: &Path, current: &[u8]) -> io::Result<Option<Vec<HeldFile>>> {
        let Some(named) = Current::parse(current) else { return Ok(None) };
        let name = inside.join(format!("v{}", named.version));
        if !self.link(&name)? {
            return Ok(None);
        }
        let manifest = self.held(name)?;
        let bytes = fs::read(&manifest.at)?;
        let tables = manifest::tables(&bytes).filter(|_| named.fits(&bytes));
        let Some(tables) = tables else { return Ok(None) };
        let mut held = vec![manifest];
        for table in tables.iter().flatten().flatten() {
            let path = manifest::table_path(keyspace, table.id);
            let name = path.strip_prefix(self.dir).map_err(io::Error::other)?.to_owned();
            if !self.link(&name)? {
                return Ok(None);
            }
            held.push(HeldFile { xxh3: Some(table.checksum), ..self.held(name)? });
        }
        let name = inside.join("current");
        fs::write(self.links.join(&name), current)?;
        held.push(self.held(name)?);
        Ok(Some(held))
    }
}

/// Links a file, or copies it if the file system does not support links.
///
/// # Errors
///
/// If the file can neither be linked nor copied.
pub fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => fs::copy(from, to).map(drop),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use fjall::KeyspaceCreateOptions;

    use super::*;

    fn open(dir: &Path) -> Database {
        Database::builder(dir).worker_threads(1).open().unwrap()
    }

    /// Copies the held files to a directory in which a database can be opened.
    fn restore(held: &[HeldFile], to: &Path) {
        for file in held {
            let path = to.join(&file.name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let bytes = fs::read(&file.at).unwrap();
            fs::write(path, &bytes[..file.bytes as usize]).unwrap();
        }
    }

    #[test]
    fn what_is_held_under_load_opens_with_all_commits_and_no_half_one() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("db");
        let database = open(&dir);
        let keyspaces: Vec<_> = (0..3)
            .map(|n| database.keyspace(&format!("k{n}"), KeyspaceCreateOptions::default).unwrap())
            .collect();
        let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let filler = [7_u8; 4000];
                for number in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut batch = fjall::OwnedWriteBatch::with_capacity(database.clone(), 6)
                        .durability(Some(PersistMode::Buffer));
                    for keyspace in &keyspaces {
                        batch.insert(keyspace, u64::to_be_bytes(number), filler);
                        batch.insert(keyspace, b"newest", u64::to_be_bytes(number));
                    }
                    batch.commit().unwrap();
                    written.store(number, Ordering::Release);
                    if number.is_multiple_of(150) {
                        keyspaces[number as usize / 150 % 3].rotate_memtable().unwrap();
                    }
                }
            });
            for round in 0..6 {
                let enough = written.load(Ordering::Acquire) + 700;
                while written.load(Ordering::Acquire) < enough {
                    std::thread::yield_now();
                }
                let before = written.load(Ordering::Acquire);
                let held = hold(&dir, &place.path().join("links"), Some(&database)).unwrap();
                let copy = place.path().join(format!("copy-{round}"));
                restore(&held, &copy);
                crate::check::check(&copy).unwrap();
                let copied = open(&copy);
                let newest: Vec<u64> = (0..3)
                    .map(|n| {
                        let keyspace =
                            copied.keyspace(&format!("k{n}"), KeyspaceCreateOptions::default).unwrap();
                        let newest = keyspace.get(b"newest").unwrap().unwrap();
                        let newest = u64::from_be_bytes(newest[..].try_into().unwrap());
                        // The copied keyspace has every commit up to the newest one, and none after it.
                        assert_eq!(keyspace.len().unwrap() as u64, newest + 1, "round {round}, keyspace {n}");
                        newest
                    })
                    .collect();
                assert!(newest.iter().all(|n| *n == newest[0]), "round {round}: half a commit: {newest:?}");
                assert!(newest[0] >= before, "round {round}: {} of {before}", newest[0]);
                drop(copied);
                fs::remove_dir_all(copy).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn tables_carry_their_checksums_and_leftovers_stay_behind() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("db");
        let database = open(&dir);
        let keyspace = database.keyspace("k", KeyspaceCreateOptions::default).unwrap();
        keyspace.insert("a", "b").unwrap();
        keyspace.rotate_memtable_and_wait().unwrap();
        for name in ["plumbago-format.new", "3.jnl.torn-1"] {
            fs::write(dir.join(name), "x").unwrap();
        }
        fs::write(dir.join("plumbago-format"), "x").unwrap();
        let links = place.path().join("links");
        let held = hold(&dir, &links, None).unwrap();
        let names: Vec<String> = held.iter().map(|file| file.name.display().to_string()).collect();
        for name in ["plumbago-format", "version", "lock"] {
            assert!(names.contains(&name.to_owned()), "{names:?}");
        }
        assert!(!names.iter().any(|n| n.contains("torn") || n.contains("new")), "{names:?}");
        let tables: Vec<_> = held.iter().filter_map(|file| Some((file, file.xxh3?))).collect();
        assert!(!tables.is_empty());
        for (file, xxh3) in tables {
            assert_eq!(manifest::hash(&file.at).unwrap(), xxh3);
        }
    }
}
