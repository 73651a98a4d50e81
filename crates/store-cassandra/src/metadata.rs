//! Names: creation, look-up, deletion.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use plumbago_model::{Clock, MetricConfig, MetricId};
use plumbago_store::{MetricMeta, StoreError};
use plumbago_telemetry::Throttle;
use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use scylla::value::CqlTimeuuid;
use uuid::Uuid;

use crate::config::Config;
use crate::damage::Damage;
use crate::dialect::{config_from_map, config_to_map};
use crate::find::Counts;
use crate::names::{self, NameLimits};
use crate::prepared::NameStatements;
use crate::schema::{METADATA, METRICS};
use crate::session::{Cluster, consistency};
use crate::statements::Names;
use crate::stats::Stats;
use crate::tags::TagsTable;
use crate::{error, flight};

/// Requests for names in flight.
pub(crate) const CONCURRENCY: usize = 64;
/// Configurations that are kept so that equal ones share memory.
const CONFIGS_MAX: usize = 10_000;
/// 100 ns steps between the epoch of time-based UUIDs (1582) and that of Unix.
const UUID_EPOCH: u64 = 0x01B2_1DD2_1381_4000;

/// A row of `metrics_metadata`: id, configuration, creation, update.
pub(crate) type MetadataRow =
    (Option<Uuid>, Option<HashMap<String, String>>, Option<CqlTimeuuid>, Option<CqlTimeuuid>);

/// Why a row is no metric here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoMetric {
    /// Nobody can use it.
    #[error("{0}")]
    Broken(&'static str),
    /// We do not understand its configuration; another program may.
    #[error("{0}")]
    Foreign(String),
}

/// The tables of names.
#[derive(Debug)]
pub(crate) struct NameStore {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) text: Names,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stats: Stats,
    pub(crate) damage: Damage,
    /// Marks our own changes in the feed.
    pub(crate) origin: Uuid,
    pub(crate) counts: Counts,
    pub(crate) tags: TagsTable,
    statements: NameStatements,
    known_configs: Mutex<HashMap<String, Arc<MetricConfig>>>,
    components: AtomicU32,
    throttle: Throttle,
}

impl NameStore {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        config: &Config,
        clock: Arc<dyn Clock>,
        stats: Stats,
        origin: Uuid,
    ) -> Self {
        Self {
            cluster,
            text: Names::new(&config.metadata_keyspace()),
            config: config.clone(),
            damage: Damage::new(stats.damaged.clone(), clock.clone()),
            clock,
            stats,
            origin,
            counts: Counts::default(),
            tags: TagsTable::default(),
            statements: NameStatements::new(),
            known_configs: Mutex::default(),
            components: AtomicU32::new(config.components),
            throttle: Throttle::new(10_000),
        }
    }

    /// The number of component columns, once the check has read it from the table.
    pub(crate) fn set_components(&self, components: u32) {
        self.components.store(components, Ordering::Relaxed);
    }

    pub(crate) fn limits(&self, indexed: bool) -> NameLimits {
        NameLimits { components: self.components.load(Ordering::Relaxed), indexed }
    }

    /// Creates metrics: directories first, then the metric with its metadata, then the note in the
    /// change feed, so that whoever sees a later one finds the earlier.
    pub(crate) async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        let metrics = self.holdable(metrics);
        if metrics.is_empty() {
            return Ok(());
        }
        let session = self.cluster.session().await?;
        self.make_directories(&session, &metrics).await?;
        // Asked with the level of writes: the answer decides whether a date is kept.
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        let existing = self.fetch(&names, true).await?;
        let create = |i: usize| self.create_one(&session, metrics[i], existing[i].as_ref());
        flight::all(metrics.len(), CONCURRENCY, create).await?;
        let rows = metrics.iter().zip(&existing).filter(|(_, row)| !is_whole(row.as_ref()));
        let new: Vec<&str> = rows.map(|(metric, _)| metric.name.as_str()).collect();
        self.announce(false, &new).await;
        Ok(())
    }

    /// Without the names that the tables cannot hold, which are counted and named; of a name that
    /// comes twice the last.
    fn holdable<'a>(&self, metrics: &'a [MetricMeta]) -> Vec<&'a MetricMeta> {
        let limits = self.limits(false);
        let mut place: HashMap<&str, usize> = HashMap::with_capacity(metrics.len());
        let mut kept: Vec<&MetricMeta> = Vec::with_capacity(metrics.len());
        for metric in metrics {
            if let Err(problem) = limits.check(&metric.name) {
                self.stats.refused_names.add(1);
                if let Some(held_back) = self.throttle.pass(self.clock.now_ms()) {
                    let start: String = metric.name.chars().take(200).collect();
                    tracing::warn!(name = start, %problem, held_back, "a metric cannot be created");
                }
                continue;
            }
            match place.get(metric.name.as_str()) {
                Some(at) => kept[*at] = metric,
                None => {
                    place.insert(&metric.name, kept.len());
                    kept.push(metric);
                }
            }
        }
        kept
    }

    /// Writes the directories above the metrics that are not there. Only the lowest is looked up: as
    /// BigGraphite does, all above it are written when it is missing.
    async fn make_directories(&self, session: &Session, metrics: &[&MetricMeta]) -> Result<(), StoreError> {
        let untagged =
            metrics.iter().map(|metric| metric.name.as_str()).filter(|name| !names::is_tagged(name));
        let lowest: BTreeSet<&str> = untagged.filter_map(|name| names::directories(name).last()).collect();
        let lowest: Vec<&str> = lowest.into_iter().collect();
        let there = flight::all(lowest.len(), CONCURRENCY, |i| self.has_directory(lowest[i])).await?;
        let mut wanted: BTreeSet<&str> = BTreeSet::new();
        for (directory, _) in lowest.into_iter().zip(there).filter(|(_, there)| !there) {
            wanted.extend(names::directories(directory));
            wanted.insert(directory);
        }
        let wanted: Vec<&str> = wanted.into_iter().collect();
        self.write_directories(session, &wanted).await
    }

    /// Writes the rows of exactly these directories.
    pub(crate) async fn write_directories(
        &self,
        session: &Session,
        directories: &[&str],
    ) -> Result<(), StoreError> {
        let write = |i: usize| {
            let row = names::tree_row(directories[i]);
            let text = self.text.insert_tree(true, row.len() - 3);
            self.execute(session, "write a directory", text, row)
        };
        flight::all(directories.len(), CONCURRENCY, write).await.map(|_| ())
    }

    /// Asked with the level of writes: a directory that most replicas do not have is written again.
    pub(crate) async fn has_directory(&self, directory: &str) -> Result<bool, StoreError> {
        let rows: Vec<(String,)> =
            self.rows_at("look up a directory", self.text.get_directory(), (directory,), true).await?;
        Ok(!rows.is_empty())
    }

    /// The rows of both tables in one request: with one partition key and one keyspace they are one
    /// mutation, which happens whole or not at all.
    async fn create_one(
        &self,
        session: &Session,
        metric: &MetricMeta,
        existing: Option<&MetadataRow>,
    ) -> Result<(), StoreError> {
        let id = Uuid::from_bytes(metric.id().0);
        let config = map_to_write(metric, existing);
        let name = metric.name.as_str();
        let new = existing.is_none_or(|row| row.2.is_none());
        let level = self.level(session, true);
        let metadata_text = if new { self.text.insert_metadata() } else { self.text.update_metadata() };
        let metadata = self.statements.get(session, metadata_text, level).await?;
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(level);
        batch.set_is_idempotent(true);
        let tagged = names::is_tagged(name);
        let row = names::tree_row(name);
        if !tagged {
            let text = self.text.insert_tree(false, row.len() - 3);
            let tree = self.statements.get(session, text, level).await?;
            batch.append_statement(BatchStatement::PreparedStatement((*tree).clone()));
        }
        batch.append_statement(BatchStatement::PreparedStatement((*metadata).clone()));
        self.stats.metadata_requests.add(1);
        let created_on = time_uuid(metric.created_on);
        let result = match (tagged, new) {
            (false, true) => session.batch(&batch, (row, (name, created_on, id, &config))).await,
            (false, false) => session.batch(&batch, (row, (id, &config, name))).await,
            (true, true) => session.batch(&batch, ((name, created_on, id, &config),)).await,
            (true, false) => session.batch(&batch, ((id, &config, name),)).await,
        };
        result.map_err(|error| self.failed("create a metric", error))?;
        self.add_tags(session, name, id).await
    }

    pub(crate) async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError> {
        let rows = self.fetch(names, false).await?;
        let metas = names.iter().zip(rows).map(|(name, row)| {
            let (id, config, created_on, _) = row?;
            let (config, created_on) = self.understand(name, id, config, created_on)?;
            Some(MetricMeta { name: (*name).to_owned(), config, created_on })
        });
        Ok(metas.collect())
    }

    pub(crate) async fn are_there(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        let rows = self.fetch(names, true).await?;
        Ok(rows.iter().map(|row| is_whole(row.as_ref())).collect())
    }

    /// Metadata rows by name, in the order asked.
    async fn fetch(&self, names: &[&str], for_write: bool) -> Result<Vec<Option<MetadataRow>>, StoreError> {
        flight::all(names.len(), CONCURRENCY, |i| self.fetch_one(names[i], for_write)).await
    }

    pub(crate) async fn fetch_one(
        &self,
        name: &str,
        for_write: bool,
    ) -> Result<Option<MetadataRow>, StoreError> {
        // The server refuses an empty key; there is no metric of that name.
        if name.is_empty() {
            return Ok(None);
        }
        let rows = self.rows_at("look up a metric", self.text.get(), (name,), for_write).await?;
        Ok(rows.into_iter().next())
    }

    /// What a row says of a metric; one without id or configuration is none, as for BigGraphite,
    /// whose late touches and reads leave such rows of deleted metrics.
    pub(crate) fn understand(
        &self,
        name: &str,
        id: Option<Uuid>,
        config: Option<HashMap<String, String>>,
        created_on: Option<CqlTimeuuid>,
    ) -> Option<(Arc<MetricConfig>, u32)> {
        match self.judge(name, id, config) {
            Ok(config) => Some((config, created_on.map_or(0, seconds_of))),
            Err(why) => {
                self.damage.report(METADATA, &name, &why);
                None
            }
        }
    }

    /// The configuration of a row, or what is wrong with the row.
    pub(crate) fn judge(
        &self,
        name: &str,
        id: Option<Uuid>,
        config: Option<HashMap<String, String>>,
    ) -> Result<Arc<MetricConfig>, NoMetric> {
        let (Some(id), Some(config)) = (id, config) else {
            return Err(NoMetric::Broken("it has no id or no configuration"));
        };
        if *id.as_bytes() != MetricId::of(name).0 {
            return Err(NoMetric::Broken("its id does not follow from its name"));
        }
        self.shared_config(&config).map_err(NoMetric::Foreign)
    }

    /// Equal configurations share one allocation.
    fn shared_config(&self, map: &HashMap<String, String>) -> Result<Arc<MetricConfig>, String> {
        let mut pairs: Vec<(&str, &str)> = map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        pairs.sort_unstable();
        let key: String = pairs.iter().flat_map(|(k, v)| [k, "=", v, "\n"]).collect();
        let mut known = self.known_configs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = known.get(&key) {
            return Ok(config.clone());
        }
        let config = Arc::new(config_from_map(map)?);
        if known.len() < CONFIGS_MAX {
            known.insert(key, config.clone());
        }
        Ok(config)
    }

    pub(crate) async fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        let session = self.cluster.session().await?;
        let unique: HashSet<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
        let unique: Vec<&str> = unique.into_iter().collect();
        flight::all(unique.len(), CONCURRENCY, |i| self.delete_one(&session, unique[i], None)).await?;
        self.announce(true, &unique).await;
        Ok(())
    }

    /// Deletes the rows of a metric, all or those that were written up to `as_of_us`.
    pub(crate) async fn delete_one(
        &self,
        session: &Session,
        name: &str,
        as_of_us: Option<i64>,
    ) -> Result<(), StoreError> {
        let level = self.level(session, true);
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(level);
        batch.set_is_idempotent(true);
        batch.set_timestamp(as_of_us);
        for table in [METRICS, METADATA] {
            let statement = self.statements.get(session, self.text.delete(table), level).await?;
            batch.append_statement(BatchStatement::PreparedStatement((*statement).clone()));
        }
        self.stats.metadata_requests.add(1);
        let result = session.batch(&batch, ((name,), (name,))).await;
        result.map_err(|error| self.failed("delete a metric", error))?;
        self.remove_tags(session, name, as_of_us).await
    }

    /// Notes in the metadata that metrics were written or read. Rows are looked up first, because the
    /// note would make a row of a metric that is gone.
    pub(crate) async fn note(&self, names: &[&str], read: bool) -> Result<(), StoreError> {
        let session = self.cluster.session().await?;
        let rows = self.fetch(names, true).await?;
        let there = names.iter().zip(&rows).filter(|(_, row)| is_whole(row.as_ref()));
        let there: Vec<&str> = there.map(|(name, _)| *name).collect();
        let note = |i: usize| {
            let text = if read { self.text.note_read() } else { self.text.touch() };
            self.execute(&session, "touch a metric", text, (there[i],))
        };
        flight::all(there.len(), CONCURRENCY, note).await.map(|_| ())
    }

    /// Runs a statement of the names.
    pub(crate) async fn run(
        &self,
        operation: &str,
        text: String,
        values: impl SerializeRow,
    ) -> Result<(), StoreError> {
        let session = self.cluster.session().await?;
        self.execute(&session, operation, text, values).await
    }

    pub(crate) async fn execute(
        &self,
        session: &Session,
        operation: &str,
        text: String,
        values: impl SerializeRow,
    ) -> Result<(), StoreError> {
        self.execute_at(session, operation, text, values, None).await
    }

    pub(crate) async fn execute_at(
        &self,
        session: &Session,
        operation: &str,
        text: String,
        values: impl SerializeRow,
        timestamp_us: Option<i64>,
    ) -> Result<(), StoreError> {
        let mut statement = (*self.statements.get(session, text, self.level(session, true)).await?).clone();
        statement.set_timestamp(timestamp_us);
        self.stats.metadata_requests.add(1);
        let result = session.execute_unpaged(&statement, values).await;
        result.map(|_| ()).map_err(|error| self.failed(operation, error))
    }

    /// Reads a few rows.
    pub(crate) async fn rows<R>(
        &self,
        operation: &str,
        text: String,
        values: impl SerializeRow,
    ) -> Result<Vec<R>, StoreError>
    where
        R: for<'f> DeserializeRow<'f, 'f>,
    {
        self.rows_at(operation, text, values, false).await
    }

    /// [`NameStore::rows`], with the consistency of writes where what is read decides on a write.
    pub(crate) async fn rows_at<R>(
        &self,
        operation: &str,
        text: String,
        values: impl SerializeRow,
        for_write: bool,
    ) -> Result<Vec<R>, StoreError>
    where
        R: for<'f> DeserializeRow<'f, 'f>,
    {
        let session = self.cluster.session().await?;
        let statement = self.statement(&session, text, for_write).await?;
        self.stats.metadata_requests.add(1);
        let result = session.execute_unpaged(&statement, values).await;
        let rows = result
            .map_err(|error| self.failed(operation, error))?
            .into_rows_result()
            .map_err(|error| error::answer(operation, error))?;
        let rows = rows.rows::<R>().map_err(|error| error::answer(operation, error))?;
        rows.collect::<Result<_, _>>().map_err(|error| error::answer(operation, error))
    }

    pub(crate) async fn statement(
        &self,
        session: &Session,
        text: String,
        for_write: bool,
    ) -> Result<Arc<scylla::statement::prepared::PreparedStatement>, StoreError> {
        self.statements.get(session, text, self.level(session, for_write)).await
    }

    pub(crate) fn level(&self, session: &Session, for_write: bool) -> Consistency {
        let own = self.config.has_metadata_cluster();
        let datacenter = if own { &self.config.metadata.datacenter } else { &self.config.datacenter };
        let levels = &self.config.consistency;
        let level = if for_write { levels.metadata_write } else { levels.metadata_read };
        consistency(level, session, &self.config.metadata_keyspace(), datacenter)
    }

    pub(crate) fn failed(&self, operation: &str, error: scylla::errors::ExecutionError) -> StoreError {
        self.stats.failed_requests.add(1);
        error::request(operation, error)
    }
}

/// The map of a metric. One that is there stays as it is where it says the same, or where we do not
/// understand it: then it is another program's.
fn map_to_write(metric: &MetricMeta, existing: Option<&MetadataRow>) -> HashMap<String, String> {
    let there = existing.and_then(|(_, config, ..)| config.as_ref());
    let kept = there.filter(|map| config_from_map(map).map_or(true, |config| config == *metric.config));
    kept.cloned().unwrap_or_else(|| config_to_map(&metric.config))
}

/// True for a row of a metric that exists.
fn is_whole(row: Option<&MetadataRow>) -> bool {
    row.is_some_and(|(id, config, created_on, _)| id.is_some() && config.is_some() && created_on.is_some())
}

/// A time-based UUID of a second, different each time: SASI's sparse indexes fail for good where more
/// than five rows have one value.
pub(crate) fn time_uuid(seconds: u32) -> CqlTimeuuid {
    let noise = Uuid::new_v4().as_u128();
    // The part of the second is noise too, so that rows of one second differ in time.
    let ticks = UUID_EPOCH + u64::from(seconds) * 10_000_000 + (noise >> 64) as u64 % 10_000_000;
    let (low, middle, high) = (ticks as u32, (ticks >> 32) as u16, (ticks >> 48) as u16 & 0x0fff | 0x1000);
    let mut node = (noise as u64).to_be_bytes();
    node[0] = node[0] & 0x3f | 0x80;
    CqlTimeuuid::from_bytes(*Uuid::from_fields(low, middle, high, &node).as_bytes())
}

/// The second of a time-based UUID; 0 before the epoch.
pub(crate) fn seconds_of(uuid: CqlTimeuuid) -> u32 {
    let (low, middle, high, _) = uuid.as_fields();
    let ticks = u64::from(high & 0x0fff) << 48 | u64::from(middle) << 32 | u64::from(low);
    u32::try_from(ticks.saturating_sub(UUID_EPOCH) / 10_000_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_of_others_is_not_overwritten() {
        let config = |retention: &str| {
            let retention = retention.parse().unwrap();
            Arc::new(MetricConfig { retention, aggregation: Default::default(), x_files_factor: 0.5 })
        };
        let metric = MetricMeta { name: "a".to_owned(), config: config("60s:1d"), created_on: 1 };
        let ours = config_to_map(&metric.config);
        assert_eq!(map_to_write(&metric, None), ours);
        let written = |map: &HashMap<String, String>| {
            map_to_write(&metric, Some(&(None, Some(map.clone()), None, None)))
        };
        assert_eq!(written(&config_to_map(&config("60s:2d"))), ours);
        let mut theirs = ours.clone();
        theirs.insert("more".to_owned(), "theirs".to_owned());
        assert_eq!(written(&theirs), theirs, "it says the same");
        theirs.insert("retention".to_owned(), "a week".to_owned());
        assert_eq!(written(&theirs), theirs, "it is not understood");
    }

    #[test]
    fn time_uuids_keep_their_second() {
        for seconds in [0, 5, 1_700_000_000, u32::MAX] {
            let (a, b) = (time_uuid(seconds), time_uuid(seconds));
            assert_ne!(a, b);
            assert_eq!((seconds_of(a), seconds_of(b)), (seconds, seconds));
            assert_eq!(Uuid::from_bytes(*a.as_bytes()).get_version_num(), 1);
        }
    }
}
