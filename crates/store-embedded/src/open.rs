//! An open database: its keyspaces and the catalogue of buckets.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use fjall::Keyspace;
use plumbago_fjall_host::Contents;
use plumbago_store::StoreError;

use crate::catalogue::{Bucket, Catalogue, Kind, StageKey};
use crate::configs::Configs;
use crate::deletion::Deletion;
use crate::errors::write_error;
use crate::locks::{read, write};
use crate::names::Names;
use crate::options;

/// The longest time that a stop waits for tables.
const WRITE_TABLES_MAX: Duration = Duration::from_secs(5);
/// The row of the catalogue with the number of the newest commit.
pub(crate) const COMMITS: &str = "commits";
const KEEPER_PREFIX: &str = "keeper.";
/// The number of new keyspaces after which the database is reopened. fjall's list of keyspaces uses 66 MB
/// after 250 of them (measured); see [`Open::is_worn`].
const CREATED_MAX: usize = 128;

pub(crate) struct Open {
    pub(crate) dir: PathBuf,
    pub(crate) fjall: fjall::Database,
    /// The keyspace of the catalogue.
    pub(crate) system: Keyspace,
    pub(crate) state: Keyspace,
    pub(crate) names: Names,
    /// Set when a read has found damage in the names; see [`crate::rebuild`].
    pub(crate) names_damaged: AtomicBool,
    pub(crate) configs: Configs,
    pub(crate) catalogue: RwLock<Catalogue>,
    /// Held from reading rows until their new versions are committed, and while layers are replaced.
    pub(crate) writer: Mutex<()>,
    /// Held while layers are added or replaced.
    pub(crate) creation: Mutex<()>,
    /// The deletions during a merge, which the merged layer must not undo.
    pub(crate) deleted_in_merge: Mutex<Option<Vec<Deletion>>>,
    /// The number of the newest commit.
    pub(crate) commits: AtomicU64,
    /// Keyspaces created since the database was opened; see [`Open::is_worn`].
    pub(crate) created: AtomicUsize,
    /// Set when the database is about to be closed: long operations stop.
    pub(crate) closing: AtomicBool,
}

impl Contents for Open {
    fn database(&self) -> &fjall::Database {
        &self.fjall
    }

    fn set_closing(&self, closing: bool) {
        self.closing.store(closing, Ordering::Release);
    }
}

impl Open {
    /// Writes all memtables to tables. Their rows are in the log too, but a start needs a second per
    /// million rows of the log, and none for rows in tables.
    pub(crate) fn write_tables(&self) {
        let began = Instant::now();
        let catalogue = read(&self.catalogue);
        let (names, configs) = (&self.names, self.configs.keyspace());
        let mut keyspaces = vec![&self.system, &names.rows, &names.copy, &self.state, configs];
        keyspaces.extend(catalogue.layers().map(|layer| &layer.keyspace));
        // A failure or timeout only makes the next start slower.
        keyspaces.retain(|keyspace| keyspace.rotate_memtable().is_ok_and(|rotated| rotated));
        while began.elapsed() < WRITE_TABLES_MAX && keyspaces.iter().any(|k| k.sealed_memtable_count() > 0) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Numbers a commit, by a row in its batch. The caller holds `writer`.
    pub(crate) fn number_commit(&self, batch: &mut fjall::OwnedWriteBatch) -> u64 {
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        batch.insert(&self.system, COMMITS, number.to_be_bytes());
        number
    }

    /// The number of the newest commit.
    pub(crate) fn newest_commit(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    pub(crate) fn layer_keyspace(&self, name: &str, kind: Kind) -> Result<Keyspace, StoreError> {
        let options = match kind {
            Kind::Fresh { .. } => options::fresh,
            Kind::Merged { .. } => options::merged,
        };
        self.fjall
            .keyspace(name, options)
            .map_err(|error| write_error(format!("open keyspace {name}"), error))
    }

    /// Whether the database should be reopened. Until then fjall keeps every version of its list of
    /// keyspaces, so n changes use about n² kB.
    pub(crate) fn is_worn(&self) -> bool {
        self.created.load(Ordering::Relaxed) >= CREATED_MAX
    }

    /// Changes a bucket in memory, while no commit is in progress.
    pub(crate) fn change_bucket(&self, key: StageKey, number: u32, change: impl FnOnce(&mut Bucket)) {
        if let Some(stage) = write(&self.catalogue).stages.get_mut(&key) {
            change(Arc::make_mut(stage).buckets.entry(number).or_default());
        }
    }

    /// Removes a bucket from the catalogue in memory.
    pub(crate) fn remove_bucket(&self, key: StageKey, number: u32) -> Option<Bucket> {
        let mut catalogue = write(&self.catalogue);
        Arc::make_mut(catalogue.stages.get_mut(&key)?).buckets.remove(&number)
    }

    /// Deletes keyspaces. Their files are removed with the last handle.
    ///
    /// The keyspace with the highest id must stay. At a start fjall gives new keyspaces the ids after the
    /// highest one that it finds. If a keyspace gets the id of a deleted one, the next start treats it as
    /// deleted. So an empty keyspace with the highest id is kept.
    pub(crate) fn delete_keyspaces(&self, doomed: Vec<Keyspace>) -> Result<(), StoreError> {
        let Some(highest) = doomed.iter().map(Keyspace::id).max() else { return Ok(()) };
        self.keep_highest_id(highest, &doomed)
            .and_then(|()| plumbago_fjall_host::delete_keyspaces(&self.dir, &self.fjall, doomed))
            .map_err(|error| write_error("delete keyspaces", error))
    }

    fn keep_highest_id(&self, highest: u64, doomed: &[Keyspace]) -> fjall::Result<()> {
        let mut keepers = Vec::new();
        for name in self.fjall.list_keyspace_names() {
            if doomed.iter().any(|keyspace| *keyspace.name() == name) {
                continue;
            }
            let keyspace = self.fjall.keyspace(&name, options::small)?;
            if keyspace.id() > highest {
                return Ok(());
            }
            if name.starts_with(KEEPER_PREFIX) {
                keepers.push(keyspace);
            }
        }
        self.fjall.keyspace(&format!("{KEEPER_PREFIX}{highest}"), options::small)?;
        plumbago_fjall_host::delete_keyspaces(&self.dir, &self.fjall, keepers)
    }
}
