//! The configuration of the process: reads one TOML file, applies the environment, and checks the result.
//!
//! Each crate owns the `Config` of its section. This module composes them and is the only place that reads
//! the file or the environment. All problems are reported at once, not only the first. Start at [`load`].

mod changes;
mod check;
mod data_dir;
mod keys;
mod layers;
mod memory;
pub(crate) mod ports;
mod problem;
mod renamed;
mod rules;
mod show;
mod strict;
mod suggest;
#[cfg(test)]
mod tests;
mod variables;

use std::path::{Path, PathBuf};

use plumbago_model::{Period, StorageRules, sanitize};
use serde::Deserialize;
use serde_json::Value;

use crate::machine;

pub use changes::{Change, changes, file_keys, is_reloadable, take, text};
pub use data_dir::{is_used, me, shown as shown_dir};
pub use memory::Budget;
pub use problem::{Place, Problem, Problems};
pub use show::{effective, effective_values};

/// The text of `default.toml`: every key with its default and its explanation.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

/// The file that is read if `--config` names none, relative to the working directory.
pub const DEFAULT_FILE: &str = "plumbago.toml";

/// All settings. `default.toml` explains each key.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Directory of the embedded store, the journal and the writer id.
    pub data_dir: PathBuf,
    /// Path of Graphite's file of retentions; empty for the built-in rules.
    pub storage_schemas: PathBuf,
    /// Path of Graphite's file of aggregation methods; empty for the built-in rules.
    pub storage_aggregation: PathBuf,
    /// Log levels.
    pub log: Log,
    /// The listeners for points.
    pub ingest: plumbago_ingest::Config,
    /// The port on which graphite-web asks for points that are not stored yet.
    pub carbonlink: plumbago_ingest::carbonlink::Config,
    /// The port of Graphite's HTTP API.
    pub api: plumbago_api::Config,
    /// The admin port: metrics, health checks and actions for operators.
    pub admin: plumbago_api::AdminConfig,
    /// How names are looked up.
    pub index: Index,
    /// Which metrics the searches for names show.
    pub find: Find,
    /// The store of the points.
    pub store: Store,
    /// The journal, which keeps accepted points until they are stored.
    pub journal: plumbago_journal::Config,
    /// The spool of rows for a remote store.
    pub spool: plumbago_spool::SpoolConfig,
    /// The sender of spooled rows.
    pub sender: plumbago_spool::SenderConfig,
    /// The engine, which writes and reads all points.
    pub engine: plumbago_engine::Config,
    /// Quotas: limits on the metrics below a directory.
    pub quotas: plumbago_engine::quotas::Config,
    /// The other daemons on the same store.
    pub cluster: plumbago_cluster::peers::Config,
    /// The servers that get every accepted point as well.
    pub relay: plumbago_relay::Config,
    /// The rules that make further metrics of accepted points.
    pub aggregation: plumbago_aggregation::Config,
    /// The schedule and limits of the maintenance jobs.
    pub maintenance: plumbago_maintenance::Config,
    /// Self-metrics as points.
    pub self_metrics: SelfMetrics,
    /// Settings for tests.
    pub debug: Debug,
}

impl Config {
    /// Directory of the embedded store.
    pub fn store_dir(&self) -> PathBuf {
        self.data_dir.join("store")
    }

    /// Directory where maintenance jobs save their progress.
    pub fn maintenance_dir(&self) -> PathBuf {
        self.data_dir.join("maintenance")
    }

    /// Directory of the relay's queues.
    pub fn relay_dir(&self) -> PathBuf {
        self.data_dir.join("relay")
    }

    /// Directory of the log of open intervals.
    pub fn aggregation_dir(&self) -> PathBuf {
        self.data_dir.join("aggregation")
    }

    /// Directory of the journal.
    pub fn journal_dir(&self) -> PathBuf {
        self.data_dir.join("journal")
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("data"),
            storage_schemas: PathBuf::new(),
            storage_aggregation: PathBuf::new(),
            log: Log::default(),
            ingest: plumbago_ingest::Config::default(),
            carbonlink: plumbago_ingest::carbonlink::Config::default(),
            api: plumbago_api::Config::default(),
            admin: plumbago_api::AdminConfig::default(),
            index: Index::default(),
            find: Find::default(),
            store: Store::default(),
            journal: plumbago_journal::Config::default(),
            spool: plumbago_spool::SpoolConfig::default(),
            sender: plumbago_spool::SenderConfig::default(),
            engine: plumbago_engine::Config::default(),
            quotas: plumbago_engine::quotas::Config::default(),
            cluster: plumbago_cluster::peers::Config::default(),
            relay: plumbago_relay::Config::default(),
            aggregation: plumbago_aggregation::Config::default(),
            maintenance: plumbago_maintenance::Config::default(),
            self_metrics: SelfMetrics::default(),
            debug: Debug::default(),
        }
    }
}

/// The `[log]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A level, or a filter with levels by crate.
    pub level: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".to_owned() }
    }
}

/// The `[self_metrics]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SelfMetrics {
    /// First component of the names, like carbon's `CARBON_METRIC_PREFIX`.
    pub prefix: String,
    /// Interval between two points; zero means no points.
    pub interval: Period,
}

impl Default for SelfMetrics {
    fn default() -> Self {
        Self { prefix: "carbon".to_owned(), interval: Period::seconds(60) }
    }
}

impl SelfMetrics {
    /// What is wrong with the values, each as `key: message`.
    fn problems(&self) -> Vec<String> {
        let prefix = &self.prefix;
        let is_name = !prefix.contains(';') && sanitize(prefix).is_ok_and(|name| name == *prefix);
        if is_name || self.interval.is_zero() {
            return Vec::new();
        }
        vec![format!(
            "self_metrics.prefix: {prefix:?} must be a name like \"carbon\" or \"dc1.carbon\", without white space, ';' or \
             an empty component; interval = \"0s\" switches self-metrics off"
        )]
    }
}

/// The `[debug]` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Debug {
    /// Time that the clock shows until the admin port sets it, in seconds since the epoch; 0 means the
    /// machine's clock.
    pub clock: i64,
}

/// The `[index]` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Index {
    /// How globs are looked up.
    pub mode: IndexMode,
}

/// The `[find]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Find {
    /// Whether /metrics/find with `from` or `until` hides metrics that have no points in that range.
    pub hide_inactive: bool,
    /// How long a metric is shown after its last point, like Graphite's FIND_TOLERANCE.
    pub tolerance: Period,
}

impl Default for Find {
    fn default() -> Self {
        Self { hide_inactive: false, tolerance: Period::seconds(7200) }
    }
}

/// The ways to look up globs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexMode {
    /// In memory. All names are loaded at the start.
    #[default]
    Memory,
    /// Through the SASI indexes of Cassandra; no names are loaded.
    Sasi,
}

/// The `[store]` section.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Which store is used.
    pub kind: StoreKind,
    /// Settings of the store on the local disk.
    pub embedded: plumbago_store_embedded::Config,
    /// Settings of the store in Cassandra or ScyllaDB.
    pub cassandra: plumbago_store_cassandra::Config,
}

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// On the local disk.
    #[default]
    Embedded,
    /// In Cassandra or ScyllaDB.
    Cassandra,
}

impl StoreKind {
    /// The name of this kind in `store.kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Cassandra => "cassandra",
        }
    }
}

/// A loaded configuration without errors.
#[derive(Debug)]
pub struct Loaded {
    /// All settings, with defaults for those that are not set.
    pub config: Config,
    /// The storage rules that the settings name.
    pub rules: StorageRules,
    /// Problems that do not prevent the start.
    pub warnings: Vec<Problem>,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// The keys that the file and the environment set, with their values, as nested objects.
    pub set: Value,
    /// Where each key was set.
    places: layers::Layers,
}

impl Loaded {
    /// Returns whether the file or the environment set `key`, a path like `engine.shards`.
    pub fn is_set(&self, key: &str) -> bool {
        memory::is_set(&self.set, key)
    }

    /// Divides the memory ceiling, and sets the bounds that the file and the environment do not set.
    pub fn divide_memory(&mut self) -> Budget {
        Budget::divide(&mut self.config, &self.set, machine::memory_bytes())
    }
}

/// Reads `file` (or [`DEFAULT_FILE`] if it exists), the environment and the storage rules.
///
/// # Errors
///
/// All problems, warnings included, if at least one of them is an error.
pub fn load(file: Option<&Path>) -> Result<Loaded, Problems> {
    let Read { loaded, problems } = read(file);
    finished(loaded, problems)
}

/// Like [`load`], and checks what a daemon needs on this machine: its data directory with its disk, and its
/// addresses. Nothing is changed.
///
/// # Errors
///
/// As [`load`], and if this user cannot use the data directory.
pub fn load_for_daemon(file: Option<&Path>) -> Result<Loaded, Problems> {
    let Read { loaded, mut problems } = read(file);
    let dir = &loaded.config.data_dir;
    if let Some(message) = (!dir.as_os_str().is_empty()).then(|| data_dir::problem(dir)).flatten() {
        problems.error(loaded.places.near("data_dir"), "data_dir", message);
    }
    for (key, message) in ports::unusable(&loaded.config) {
        problems.warning(loaded.places.near(&key), &key, message);
    }
    for (key, message) in data_dir::short_of_space(&loaded.config) {
        problems.warning(loaded.places.near(key), key, message);
    }
    finished(loaded, problems)
}

/// Reads the configuration of another store, and its storage rules. The environment is ignored, because it belongs to
/// the store of this process.
///
/// # Errors
///
/// As [`load`].
pub fn load_other(file: &Path) -> Result<Loaded, Problems> {
    let Read { loaded, problems } = read_from(Some(file.to_path_buf()), layers::Environment::new());
    finished(loaded, problems)
}

/// A configuration, as far as it could be read, with its problems.
#[derive(Debug)]
pub struct Read {
    /// The settings. A value with a problem is replaced by its default.
    pub loaded: Loaded,
    /// All problems.
    pub problems: Problems,
}

/// Reads the same as [`load`] and returns what is valid, even if there are errors.
pub fn read(file: Option<&Path>) -> Read {
    let file = file.map(Path::to_path_buf).or_else(|| {
        let default = PathBuf::from(DEFAULT_FILE);
        default.exists().then_some(default)
    });
    read_from(file, layers::environment())
}

#[cfg(test)]
fn load_from(file: Option<PathBuf>, environment: layers::Environment) -> Result<Loaded, Problems> {
    let Read { loaded, problems } = read_from(file, environment);
    finished(loaded, problems)
}

fn read_from(file: Option<PathBuf>, mut environment: layers::Environment) -> Read {
    let mut problems = Problems::default();
    variables::sort_out(&mut environment, &mut problems);
    let layers = layers::read(file.as_deref(), environment, &mut problems);
    let set = strict::typed(&layers, &mut problems);
    let config = strict::build(&set, &layers, &mut problems);
    check::check(&config, &set, &layers, &mut problems);
    let rules = rules::load_rules(&config, &layers, &mut problems);
    Read { loaded: Loaded { config, rules, warnings: Vec::new(), file, set, places: layers }, problems }
}

/// Builds the settings from keys and values that were valid before.
///
/// # Errors
///
/// If a value is not valid after all.
pub fn from_values(set: &Value) -> Result<Config, serde_json::Error> {
    serde_json::from_value(set.clone())
}

/// Reads the storage rules that `config` names.
///
/// # Errors
///
/// If a file cannot be read or has an error.
pub fn read_rules(config: &Config) -> Result<StorageRules, Problems> {
    let mut problems = Problems::default();
    let rules = rules::load_rules(config, &layers::Layers::default(), &mut problems);
    if problems.any_error() { Err(problems) } else { Ok(rules) }
}

fn finished(mut loaded: Loaded, mut problems: Problems) -> Result<Loaded, Problems> {
    problems.sort();
    if problems.any_error() {
        return Err(problems);
    }
    loaded.warnings = problems.into_vec();
    Ok(loaded)
}
