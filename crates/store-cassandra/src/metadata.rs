//! Creates, looks up and deletes metrics in the tables for names.

mod requests;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use plumbago_model::{Aggregation, Clock, MetricConfig, MetricId};
use plumbago_store::{MetricMeta, StoreError};
use plumbago_telemetry::Throttle;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use scylla::value::CqlTimeuuid;
use uuid::Uuid;

use crate::config::Config;
use crate::damage::DamageReporter;
use crate::dialect::{config_from_map, config_to_map};
use crate::driver::{Session, Values};
use crate::flight;
use crate::names::{self, NameLimits};
use crate::prepared::NameStatements;
use crate::schema::{METADATA, METRICS};
use crate::server_clock::{AgreedClock, ServerClock};
use crate::session::Cluster;
use crate::statements::Names;
use crate::stats::Stats;
use crate::tags::TagsTable;

/// Maximum number of requests for names in flight per call.
pub(crate) const CONCURRENCY: usize = 64;
/// Maximum number of different settings that are kept, so that metrics with equal settings share memory.
const CONFIGS_MAX: usize = 10_000;
/// The Unix epoch as a time of a time-based UUID: 100 ns steps since 1582-10-15.
const UUID_EPOCH: u64 = 0x01B2_1DD2_1381_4000;

/// A row of `metrics_metadata`: `id`, `config`, `created_on`, `updated_on`, `read_on`.
pub(crate) type MetadataRow = (
    Option<Uuid>,
    Option<HashMap<String, String>>,
    Option<CqlTimeuuid>,
    Option<CqlTimeuuid>,
    Option<CqlTimeuuid>,
);

/// Why a row cannot be used as a metric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoMetric {
    /// The row is broken; no program can use it.
    #[error("{0}")]
    Broken(&'static str),
    /// We do not understand its settings, but another program may.
    #[error("{0}")]
    Foreign(String),
}

/// Access to the tables for names.
#[derive(Debug)]
pub(crate) struct NameStore {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) text: Names,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    /// The clock of the change feed.
    pub(crate) agreed_clock: Arc<dyn Clock>,
    pub(crate) stats: Stats,
    pub(crate) damage: DamageReporter,
    /// The origin that marks this process's changes in the feed.
    pub(crate) origin: Uuid,
    pub(crate) tags: TagsTable,
    statements: NameStatements,
    known_configs: DashMap<String, Arc<MetricConfig>>,
    components: AtomicU32,
    longest_window_seconds: AtomicU32,
    throttle: Throttle,
}

impl NameStore {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        config: &Config,
        (clock, servers): (Arc<dyn Clock>, ServerClock),
        stats: Stats,
        origin: Uuid,
    ) -> Self {
        Self {
            cluster,
            text: Names::new(&config.metadata_keyspace()),
            config: config.clone(),
            damage: DamageReporter::new(stats.damaged.clone(), clock.clone()),
            agreed_clock: Arc::new(AgreedClock::new(servers, clock.clone())),
            clock,
            stats,
            origin,
            tags: TagsTable::default(),
            statements: NameStatements::new(),
            known_configs: DashMap::new(),
            components: AtomicU32::new(config.components),
            longest_window_seconds: AtomicU32::new(0),
            throttle: Throttle::new(10_000),
        }
    }

    /// Sets the number of component columns that a check found in the server's tables.
    pub(crate) fn set_components(&self, components: u32) {
        self.components.store(components, Ordering::Relaxed);
    }

    /// Sets the length of the longest window that a check found in the server's tables.
    pub(crate) fn set_longest_window(&self, seconds: u32) {
        self.longest_window_seconds.store(seconds, Ordering::Relaxed);
    }

    pub(crate) fn longest_window(&self) -> Duration {
        Duration::from_secs(self.longest_window_seconds.load(Ordering::Relaxed).into())
    }

    pub(crate) fn limits(&self, indexed: bool) -> NameLimits {
        NameLimits { components: self.components.load(Ordering::Relaxed), indexed }
    }

    /// Creates metrics: first the directories, then the metrics with their metadata, then the entries in the
    /// change feed. In this order, a reader that sees one of them also finds those before it.
    pub(crate) async fn create(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        let metrics = self.storable(metrics);
        if metrics.is_empty() {
            return Ok(());
        }
        let session = self.cluster.session().await?;
        self.make_directories(&*session, &metrics).await?;
        // Read with the consistency level of writes: the result decides whether `created_on` is kept.
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        let existing = self.fetch(&names, true).await?;
        let create = |i: usize| self.create_one(&*session, metrics[i], existing[i].as_ref());
        flight::all(metrics.len(), CONCURRENCY, create).await?;
        let rows = metrics.iter().zip(&existing).filter(|(_, row)| !is_whole(row.as_ref()));
        let new: Vec<&str> = rows.map(|(metric, _)| metric.name.as_str()).collect();
        self.announce(false, &new).await;
        Ok(())
    }

    /// Changes the aggregation method of a metric. Other daemons read it again, as they do with a new metric.
    pub(crate) async fn set_aggregation(&self, name: &str, method: Aggregation) -> Result<(), StoreError> {
        let Some(Some(meta)) = self.get(&[name]).await?.pop() else { return Ok(()) };
        self.create(&[meta.with_aggregation(method)]).await?;
        self.announce(false, &[name]).await;
        Ok(())
    }

    /// Changes the settings of metrics. Other daemons read them again, as they do with new metrics.
    pub(crate) async fn set_configs(&self, metrics: &[MetricMeta]) -> Result<(), StoreError> {
        self.create(metrics).await?;
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        self.announce(false, &names).await;
        Ok(())
    }

    /// Leaves out metrics whose names the tables cannot hold, and counts and logs them. If a name occurs
    /// twice, the last one is kept.
    fn storable<'a>(&self, metrics: &'a [MetricMeta]) -> Vec<&'a MetricMeta> {
        let limits = self.limits(false);
        let mut place: HashMap<&str, usize> = HashMap::with_capacity(metrics.len());
        let mut kept: Vec<&MetricMeta> = Vec::with_capacity(metrics.len());
        for metric in metrics {
            if let Err(problem) = limits.check(&metric.name) {
                self.stats.refused_names.add(1);
                if let Some(suppressed) = self.throttle.pass(self.clock.now_ms()) {
                    let start: String = metric.name.chars().take(200).collect();
                    tracing::warn!(name = start, %problem, suppressed, "a metric is not created, because the tables cannot hold its name");
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

    /// Writes the missing directories above the metrics. Only the lowest directory of each metric is looked
    /// up. If it is missing, all directories above it are written too, as BigGraphite does.
    async fn make_directories(
        &self,
        session: &dyn Session,
        metrics: &[&MetricMeta],
    ) -> Result<(), StoreError> {
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

    /// Writes the rows of these directories, but not of those above them.
    pub(crate) async fn write_directories(
        &self,
        session: &dyn Session,
        directories: &[&str],
    ) -> Result<(), StoreError> {
        let write = async |i: usize| {
            let row = names::tree_row(directories[i]);
            let text = self.text.insert_tree(true, row.len() - 3);
            self.execute(session, "write a directory", text, &row).await
        };
        flight::all(directories.len(), CONCURRENCY, write).await.map(|_| ())
    }

    /// Reads with the consistency level of writes, so that a directory which only a minority of the replicas
    /// has is written again.
    pub(crate) async fn has_directory(&self, directory: &str) -> Result<bool, StoreError> {
        let rows: Vec<(String,)> =
            self.rows_at("look up a directory", self.text.get_directory(), &(directory,), true).await?;
        Ok(!rows.is_empty())
    }

    /// Writes the rows of both tables in one batch. They have the same keyspace and partition key, so the
    /// server applies them as one mutation: both or none.
    async fn create_one(
        &self,
        session: &dyn Session,
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
        let (inserted, updated) = ((name, created_on, id, &config), (id, &config, name));
        let metadata: Values<'_> = if new { &inserted } else { &updated };
        let result = match tagged {
            false => session.batch(&batch, &[&row, metadata]).await,
            true => session.batch(&batch, &[metadata]).await,
        };
        result.map(|_| ()).map_err(|error| self.failed("create a metric", error))
    }

    pub(crate) async fn get(&self, names: &[&str]) -> Result<Vec<Option<MetricMeta>>, StoreError> {
        let rows = self.fetch(names, false).await?;
        let metas = names.iter().zip(rows).map(|(name, row)| {
            let (id, config, created_on, ..) = row?;
            let (config, created_on) = self.understand(name, id, config, created_on)?;
            Some(MetricMeta { name: (*name).to_owned(), config, created_on })
        });
        Ok(metas.collect())
    }

    pub(crate) async fn are_there(&self, names: &[&str]) -> Result<Vec<bool>, StoreError> {
        let rows = self.fetch(names, true).await?;
        Ok(rows.iter().map(|row| is_whole(row.as_ref())).collect())
    }

    /// The metadata rows of these names, in the same order.
    async fn fetch(&self, names: &[&str], for_write: bool) -> Result<Vec<Option<MetadataRow>>, StoreError> {
        flight::all(names.len(), CONCURRENCY, |i| self.fetch_one(names[i], for_write)).await
    }

    pub(crate) async fn fetch_one(
        &self,
        name: &str,
        for_write: bool,
    ) -> Result<Option<MetadataRow>, StoreError> {
        // No metric has an empty name, and the server would refuse the empty key.
        if name.is_empty() {
            return Ok(None);
        }
        let rows = self.rows_at("look up a metric", self.text.get(), &(name,), for_write).await?;
        Ok(rows.into_iter().next())
    }

    /// The settings and the creation time (seconds since the epoch) in a row. If the row is not a usable
    /// metric, reports it as damaged and returns `None`. As in BigGraphite, a row without id or settings
    /// is not a metric: BigGraphite leaves such rows when it updates a date of a metric that was deleted.
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

    /// The settings in a row, or why the row is not a usable metric.
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

    /// Parses the settings of a metric. Equal settings share one allocation.
    fn shared_config(&self, map: &HashMap<String, String>) -> Result<Arc<MetricConfig>, String> {
        let mut pairs: Vec<(&str, &str)> = map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        pairs.sort_unstable();
        let key: String = pairs.iter().flat_map(|(k, v)| [k, "=", v, "\n"]).collect();
        if let Some(known) = self.known_configs.get(&key) {
            return Ok(Arc::clone(known.value()));
        }
        let config = Arc::new(config_from_map(map)?);
        // Several tasks may check at the same time, and each may exceed the limit by one.
        if self.known_configs.len() < CONFIGS_MAX {
            self.known_configs.insert(key, Arc::clone(&config));
        }
        Ok(config)
    }

    pub(crate) async fn delete(&self, names: &[&str]) -> Result<(), StoreError> {
        let session = self.cluster.session().await?;
        let unique: HashSet<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
        let unique: Vec<&str> = unique.into_iter().collect();
        flight::all(unique.len(), CONCURRENCY, |i| self.delete_one(&*session, unique[i], None)).await?;
        self.remove_marks(&*session, &unique, None).await?;
        self.announce(true, &unique).await;
        Ok(())
    }

    /// Deletes the rows of a metric. With `as_of_us` (microseconds since the epoch), what was written after
    /// that time stays.
    pub(crate) async fn delete_one(
        &self,
        session: &dyn Session,
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
        let result = session.batch(&batch, &[&(name,) as Values<'_>, &(name,)]).await;
        result.map(|_| ()).map_err(|error| self.failed("delete a metric", error))
    }

    /// Updates the date of the last write of metrics whose date is before `since` (seconds since the epoch).
    /// Returns which metrics exist: the update would create a row for one that does not.
    pub(crate) async fn note_written(&self, names: &[&str], since: i64) -> Result<Vec<bool>, StoreError> {
        let rows = self.fetch(names, true).await?;
        let is_due = |row: &MetadataRow| row.3.is_none_or(|date| i64::from(seconds_of(date)) < since);
        let due = names
            .iter()
            .zip(&rows)
            .filter(|(_, row)| is_whole(row.as_ref()) && row.as_ref().is_some_and(is_due));
        let due: Vec<&str> = due.map(|(name, _)| *name).collect();
        self.note(&due, self.text.touch()).await?;
        Ok(rows.iter().map(|row| is_whole(row.as_ref())).collect())
    }

    /// Updates the date of the last read of those metrics that exist.
    pub(crate) async fn note_read(&self, names: &[&str]) -> Result<(), StoreError> {
        let rows = self.fetch(names, true).await?;
        let there = names.iter().zip(&rows).filter(|(_, row)| is_whole(row.as_ref()));
        let there: Vec<&str> = there.map(|(name, _)| *name).collect();
        self.note(&there, self.text.note_read()).await
    }

    async fn note(&self, names: &[&str], text: String) -> Result<(), StoreError> {
        let session = self.cluster.session().await?;
        let session = &*session;
        let note = async |i: usize| self.execute(session, "touch a metric", text.clone(), &(names[i],)).await;
        flight::all(names.len(), CONCURRENCY, note).await.map(|_| ())
    }
}

/// The `config` map to write for a metric. An existing map is kept unchanged if it means the same, or if we
/// do not understand it, because it may belong to another program.
fn map_to_write(metric: &MetricMeta, existing: Option<&MetadataRow>) -> HashMap<String, String> {
    let there = existing.and_then(|(_, config, ..)| config.as_ref());
    let kept = there.filter(|map| config_from_map(map).map_or(true, |config| config == *metric.config));
    kept.cloned().unwrap_or_else(|| config_to_map(&metric.config))
}

/// Whether the row exists and has all columns that a metric needs.
fn is_whole(row: Option<&MetadataRow>) -> bool {
    row.is_some_and(|(id, config, created_on, ..)| id.is_some() && config.is_some() && created_on.is_some())
}

/// A random time-based UUID within this second (since the epoch). Values must not repeat: a sparse SASI
/// index breaks permanently if more than five rows have the same value.
pub(crate) fn time_uuid(seconds: u32) -> CqlTimeuuid {
    let noise = Uuid::new_v4().as_u128();
    // The fraction of the second is random too, so that rows of the same second have different times.
    let ticks = UUID_EPOCH + u64::from(seconds) * 10_000_000 + (noise >> 64) as u64 % 10_000_000;
    let (low, middle, high) = (ticks as u32, (ticks >> 32) as u16, (ticks >> 48) as u16 & 0x0fff | 0x1000);
    let mut node = (noise as u64).to_be_bytes();
    node[0] = node[0] & 0x3f | 0x80;
    CqlTimeuuid::from_bytes(*Uuid::from_fields(low, middle, high, &node).as_bytes())
}

/// The time of a time-based UUID in seconds since the epoch; 0 if it is earlier.
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
            map_to_write(&metric, Some(&(None, Some(map.clone()), None, None, None)))
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
