//! An open database: its keyspaces and the catalogue of buckets.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use fjall::{Keyspace, PersistMode};
use plumbago_fjall_host::Contents;
use plumbago_store::{ErrorKind, StoreError};

use crate::catalogue::{Bucket, Catalogue, KEYSPACES_MAX, Kind, Layer, StageBuckets, StageKey, parse_layer};
use crate::commit::Missing;
use crate::delete::Deletion;
use crate::errors::{host_error, read_error, write_error};
use crate::metadata::Configs;
use crate::names::Names;
use crate::options;
use crate::rebuild::{self, Role};
use crate::second_copy;
use crate::store::{Core, lock, read, write};
use crate::synced;

/// The longest time that a stop waits for tables.
const WRITE_TABLES_MAX: Duration = Duration::from_secs(5);
const STAGE_PREFIX: &str = "stage/";
const BUCKET_PREFIX: &str = "bucket/";
const COMMITS: &str = "commits";
/// The name of a file that a repair creates if it has removed tables.
const RESCUED: &str = plumbago_fjall_host::RESCUED;
const KEEPER_PREFIX: &str = "keeper.";
/// The number of new keyspaces after which the database is reopened. fjall's list of keyspaces uses 66 MB
/// after 250 of them (measured); see [`Open::is_worn`].
const CREATED_MAX: usize = 128;
const LAYER_PREFIX: &str = "points.";
/// Number of slots in a block of a past coarse bucket.
const PAST_SLOTS: u32 = 128;
/// A bucket is past if it ended at least this many seconds ago.
const PAST_AFTER: i64 = 86_400;

pub(crate) struct Open {
    dir: PathBuf,
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
    commits: AtomicU64,
    /// Number of keyspaces created since the database was opened; see [`Open::is_worn`].
    created: AtomicUsize,
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

    pub(crate) fn from_disk(core: &Core, fjall: fjall::Database) -> Result<Self, StoreError> {
        let (system, damaged_system) = second_copy::open_system(&core.dir, &fjall)?;
        if let Some(damaged) = &damaged_system {
            let text = "it holds the catalogue, which was written anew from its second copy; nothing is lost";
            core.damage.found(damaged, 1, text);
        }
        // A repair has removed tables: restore their rows from copies.
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
            names.mark_whole(&system)?;
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
            open.names.unite(&open)?;
            std::fs::remove_file(&rescued).map_err(|error| {
                StoreError::with(ErrorKind::Unavailable, format!("remove {}", rescued.display()), error)
            })?;
        }
        // After damage, a keyspace that no bucket names may contain the only remaining rows of some points.
        if is_sound {
            open.drop_orphans()?;
        }
        crate::reads::begin(&open, now)?;
        second_copy::refresh(&core.dir, &open.system, open.configs.keyspace());
        crate::old_reads::take_over(core, &open)?;
        Ok(open)
    }

    /// Gives a commit the next number, which is a row in its batch. The caller holds `writer`.
    pub(crate) fn number_commit(&self, batch: &mut fjall::OwnedWriteBatch) -> u64 {
        let number = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        batch.insert(&self.system, COMMITS, number.to_be_bytes());
        number
    }

    /// The number of the newest commit.
    pub(crate) fn newest_commit(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
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

    fn layer_keyspace(&self, name: &str, kind: Kind) -> Result<Keyspace, StoreError> {
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

    /// Deletes keyspaces of layers that no bucket names. An interrupted merge or expiry leaves such
    /// keyspaces.
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

    /// Creates the layers that are missing for a write.
    pub(crate) fn create_layers(&self, core: &Core, missing: &[Missing]) -> Result<(), StoreError> {
        let _creation = lock(&self.creation);
        let past = u64::try_from(core.clock.now() - PAST_AFTER).unwrap_or(0);
        for &Missing { key, slot, block_slots } in missing {
            let stage = self.ensure_stage(core, key)?;
            let number = stage.bucket_of(slot);
            let bucket = stage.buckets.get(&number);
            let wanted = (!key.coarse).then_some(block_slots);
            if bucket.is_some_and(|bucket| bucket.live(wanted).is_some()) {
                continue;
            }
            let is_past = stage.end_of(number) * u64::from(key.stage.resolution) < past;
            // Windows that close one after the other get separate rows. In a past bucket no more windows
            // close: only the history of a metric, or a rare late point, is written there.
            let block_slots = if key.coarse && is_past { block_slots.max(PAST_SLOTS) } else { block_slots };
            let kind = Kind::Fresh { block_slots, since: core.clock.now() };
            let layer = Arc::new(self.create_layer(&stage, number, kind, core.clock.now())?);
            let mut layers = bucket.map(|bucket| bucket.layers.clone()).unwrap_or_default();
            layers.push(layer);
            self.save_bucket(core, key, number, &layers)?;
            self.change_bucket(key, number, |bucket| bucket.layers = layers);
        }
        core.stats.keyspaces.set(self.fjall.keyspace_count() as f64);
        Ok(())
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

    /// The stage, which is added to the catalogue if it is new.
    fn ensure_stage(&self, core: &Core, key: StageKey) -> Result<Arc<StageBuckets>, StoreError> {
        if let Some(stage) = read(&self.catalogue).stages.get(&key) {
            return Ok(stage.clone());
        }
        let mut catalogue = write(&self.catalogue);
        let bucket_slots = key.choose_bucket_slots(catalogue.stages.len(), core.config.block_slots);
        self.save(core, &format!("{STAGE_PREFIX}{}", key.label()), &bucket_slots.to_string())?;
        let stage = Arc::new(StageBuckets::new(key, bucket_slots));
        catalogue.stages.insert(key, stage.clone());
        Ok(stage)
    }

    /// Creates an empty layer that is not in the catalogue yet.
    pub(crate) fn create_layer(
        &self,
        stage: &StageBuckets,
        number: u32,
        kind: Kind,
        now: i64,
    ) -> Result<Layer, StoreError> {
        if self.fjall.keyspace_count() >= KEYSPACES_MAX {
            let operation = format!(
                "keep a time bucket of {}: there are {KEYSPACES_MAX} already; use fewer different retentions",
                stage.key.stage
            );
            return Err(StoreError::new(ErrorKind::Invalid, operation));
        }
        let label = stage.key.label();
        let name = (0..)
            .map(|generation: u64| format!("{LAYER_PREFIX}{label}.{number}.{generation}"))
            .find(|name| !self.fjall.keyspace_exists(name));
        let keyspace = self.layer_keyspace(&name.unwrap_or_default(), kind)?;
        self.created.fetch_add(1, Ordering::Relaxed);
        Ok(layer(keyspace, kind, stage, number, now))
    }

    /// Writes the row with the layers of a bucket, or deletes it if there are none.
    pub(crate) fn save_bucket(
        &self,
        core: &Core,
        key: StageKey,
        number: u32,
        layers: &[Arc<Layer>],
    ) -> Result<(), StoreError> {
        let row = format!("{BUCKET_PREFIX}{}/{number}", key.label());
        let value: String = layers.iter().map(|layer| layer.to_line()).collect();
        self.save(core, &row, &value)
    }

    /// Writes a row of the catalogue and syncs it.
    fn save(&self, core: &Core, row: &str, value: &str) -> Result<(), StoreError> {
        let written = if value.is_empty() { self.system.remove(row) } else { self.system.insert(row, value) };
        written.map_err(|error| write_error(format!("write catalogue row {row}"), error))?;
        core.host.sync(self, PersistMode::SyncAll).map_err(host_error)?;
        second_copy::refresh(&core.dir, &self.system, self.configs.keyspace());
        Ok(())
    }

    /// Deletes keyspaces. Their files are deleted with the last handle.
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

fn layer(keyspace: Keyspace, kind: Kind, stage: &StageBuckets, number: u32, now: i64) -> Layer {
    let bucket_start = stage.start_of(number);
    Layer { keyspace, kind, coarse: stage.key.coarse, bucket_start, written: AtomicI64::new(now) }
}

fn text_row(row: fjall::Guard) -> Result<(String, String), StoreError> {
    let (key, value) = row.into_inner().map_err(|error| read_error("read the catalogue", error))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&key), text(&value)))
}

fn unreadable(row: &str) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("open the store: catalogue row {row} is damaged"))
}
