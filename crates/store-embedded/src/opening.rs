//! Opens the database, at a start and again after a failed write.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, RwLock};

use plumbago_fjall_host::HostError;
use plumbago_store::{ErrorKind, StoreError};

use crate::catalogue::{Bucket, Catalogue, Kind, StageBuckets, StageKey, parse_layer};
use crate::configs::Configs;
use crate::errors::{host_error, read_error};
use crate::layers::{BUCKET_PREFIX, LAYER_PREFIX, STAGE_PREFIX, layer};
use crate::locks::{lock, read, write};
use crate::names::Names;
use crate::open::{COMMITS, Open};
use crate::rebuild::{self, Role};
use crate::shared::Core;
use crate::{names_copy, old_reads, reads, second_copy, state, synced};

/// A file that a repair leaves behind when it has taken tables out.
const RESCUED: &str = plumbago_fjall_host::RESCUED;

impl Core {
    /// The open database.
    pub(crate) fn open(&self) -> Result<Arc<Open>, StoreError> {
        match self.host.get() {
            Err(HostError::Broken { .. }) => self.reopen(),
            result => result.map_err(host_error),
        }
    }

    /// The open database for changes. Checks the room on the disk, and opens the database again after a
    /// failed write. A noted checkpoint no longer fits from now on.
    pub(crate) fn open_to_write(&self) -> Result<Arc<Open>, StoreError> {
        let open = self.open_to_note()?;
        let mut has_checkpoint = lock(&self.has_checkpoint);
        if *has_checkpoint {
            self.watch(state::forget_checkpoint(&open))?;
            *has_checkpoint = false;
        }
        Ok(open)
    }

    /// Like [`Core::open_to_write`], for notes that are not part of a checkpoint, so that a noted checkpoint
    /// stays valid.
    pub(crate) fn open_to_note(&self) -> Result<Arc<Open>, StoreError> {
        self.check_room()?;
        if self.host.is_broken() { self.reopen() } else { self.open() }
    }

    /// The open database for a sync. After a failed write it is opened again first: a sync must not pass
    /// over rows that the failure lost.
    pub(crate) fn open_to_sync(&self) -> Result<Arc<Open>, StoreError> {
        if self.host.is_broken() { self.reopen() } else { self.open() }
    }

    /// Opens the database again; reads and commits wait meanwhile.
    pub(crate) fn renew(&self) -> Result<(), StoreError> {
        self.host.renew();
        self.reopen().map(drop)
    }

    pub(crate) fn reopen(&self) -> Result<Arc<Open>, StoreError> {
        let Some(opening) = self.host.begin().map_err(host_error)? else {
            return self.host.get().map_err(host_error);
        };
        let open = Open::from_disk(self, opening.database().clone())?;
        // The cache may have columns from a failed write, whose rows may be gone now.
        self.columns.clear();
        let newest = open.newest_commit();
        opening.finish(open, newest).map_err(host_error)
    }
}

impl Open {
    /// Reads what the database holds, and repairs what has a second copy.
    fn from_disk(core: &Core, fjall: fjall::Database) -> Result<Self, StoreError> {
        let (system, damaged_system) = second_copy::open_system(&core.dir, &fjall)?;
        if let Some(damaged) = &damaged_system {
            let text = "it holds the catalogue, which was restored from its second copy; nothing is lost";
            core.damage.found(damaged, 1, text);
        }
        // A repair has taken tables out: restore their rows from copies.
        let rescued = core.dir.join(RESCUED);
        let is_rescued = rescued.exists();
        let newest = system.get(COMMITS).map_err(|error| read_error("read the catalogue", error))?;
        let newest = newest.and_then(|number| number[..].try_into().ok()).map_or(0, u64::from_be_bytes);
        let is_known = !is_rescued && damaged_system.is_none();
        let missing = synced::read(&core.dir).saturating_sub(newest);
        if missing > 0 && is_known {
            core.damage.commits_missing(&core.dir, missing);
        }
        let is_sound = is_known && missing == 0;
        if !is_sound {
            second_copy::restore_catalogue(&core.dir, &fjall, &system)?;
        }
        let is_new = !fjall.keyspace_exists("names");
        let role = |role: Role| role.open(&fjall, &system, newest > 0);
        let names = Names { rows: role(Role::Names)?, copy: role(Role::NamesCopy)? };
        if is_new {
            names_copy::mark_whole(&system)?;
        }
        let mut configs = role(Role::Configs)?;
        if !second_copy::are_sound(&configs) {
            configs = rebuild::rebuild_configs(core, &fjall, &system, &configs)?;
        }
        second_copy::restore_configs(&core.dir, &fjall, &configs)?;
        let open = Self {
            dir: core.dir.clone(),
            commits: AtomicU64::new(newest),
            state: role(Role::State)?,
            configs: Configs::load(configs)?,
            names,
            names_damaged: AtomicBool::new(false),
            system,
            catalogue: RwLock::default(),
            writer: Mutex::default(),
            creation: Mutex::default(),
            deleted_in_merge: Mutex::default(),
            created: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            fjall,
        };
        let now = core.clock.now();
        *write(&open.catalogue) = open.load_catalogue(now)?;
        if is_rescued {
            open.names.unite(&open.fjall)?;
            std::fs::remove_file(&rescued).map_err(|error| {
                StoreError::with(ErrorKind::Unavailable, format!("remove {}", rescued.display()), error)
            })?;
        }
        // After damage, a keyspace that no bucket names may be all that is left of some points.
        if is_sound {
            open.drop_orphans()?;
        }
        reads::begin(&open, now)?;
        second_copy::refresh(&core.dir, &open.system, open.configs.keyspace());
        old_reads::take_over(core, &open)?;
        Ok(open)
    }

    fn load_catalogue(&self, now: i64) -> Result<Catalogue, StoreError> {
        let mut stages = HashMap::new();
        for row in self.system.prefix(STAGE_PREFIX) {
            let (key, value) = text_row(row)?;
            let stage = key.strip_prefix(STAGE_PREFIX).and_then(StageKey::parse);
            let slots = value.parse().ok().filter(|slots| *slots > 0);
            let (Some(stage), Some(slots)) = (stage, slots) else { return Err(unreadable(&key)) };
            stages.insert(stage, StageBuckets::new(stage, slots));
        }
        for row in self.system.prefix(BUCKET_PREFIX) {
            let (key, value) = text_row(row)?;
            let place = key.strip_prefix(BUCKET_PREFIX).and_then(|rest| rest.split_once('/'));
            let place =
                place.and_then(|(label, number)| Some((StageKey::parse(label)?, number.parse().ok()?)));
            let Some((stage, number)) = place else { return Err(unreadable(&key)) };
            let Some(buckets) = stages.get_mut(&stage) else { return Err(unreadable(&key)) };
            let bucket = self.load_bucket(buckets, number, &key, &value, now)?;
            buckets.buckets.insert(number, bucket);
        }
        Ok(Catalogue { stages: stages.into_iter().map(|(key, stage)| (key, Arc::new(stage))).collect() })
    }

    fn load_bucket(
        &self,
        stage: &StageBuckets,
        number: u32,
        key: &str,
        value: &str,
        now: i64,
    ) -> Result<Bucket, StoreError> {
        let mut bucket = Bucket::default();
        for line in value.lines() {
            let Some((name, kind)) = parse_layer(line) else { return Err(unreadable(key)) };
            if !self.fjall.keyspace_exists(name) {
                let operation = format!("open the store: {key} names a keyspace {name} that is missing");
                return Err(StoreError::new(ErrorKind::Corrupt, operation));
            }
            let keyspace = self.layer_keyspace(name, kind)?;
            bucket.layers.push(Arc::new(layer(keyspace, kind, stage, number, now)));
        }
        Ok(bucket)
    }

    /// Deletes keyspaces of layers that no bucket names. They are left by an interrupted merge or expiry.
    fn drop_orphans(&self) -> Result<(), StoreError> {
        let catalogue = read(&self.catalogue);
        let known: Vec<&str> = catalogue.layers().map(|layer| &**layer.keyspace.name()).collect();
        let in_use = [&self.names.rows, &self.names.copy, &self.state, self.configs.keyspace()];
        let in_use = in_use.map(|keyspace| &**keyspace.name());
        let mut orphans = Vec::new();
        for name in self.fjall.list_keyspace_names() {
            if name.starts_with(LAYER_PREFIX) && !known.contains(&&*name) {
                tracing::info!(keyspace = %&*name, "deleting a keyspace that an interrupted merge or expiry has left");
                orphans.push(self.layer_keyspace(&name, Kind::Merged { block_slots: 1 })?);
            } else if Role::had(&name) && !in_use.contains(&&*name) {
                tracing::info!(keyspace = %&*name, "deleting a damaged keyspace that was replaced by a new one");
                orphans.push(self.layer_keyspace(&name, Kind::Merged { block_slots: 1 })?);
            }
        }
        self.delete_keyspaces(orphans)
    }
}

fn text_row(row: fjall::Guard) -> Result<(String, String), StoreError> {
    let (key, value) = row.into_inner().map_err(|error| read_error("read the catalogue", error))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&key), text(&value)))
}

fn unreadable(row: &str) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("open the store: catalogue row {row} is damaged"))
}
