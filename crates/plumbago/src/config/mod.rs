//! The configuration of the process: one TOML file, then the environment, then the checks.
//!
//! Each crate owns the `Config` of its section; this module composes them and is the only place that
//! reads the file or the environment. Every problem is reported at once. Start at [`load`].

mod layers;
mod problem;
mod rules;
mod show;
mod strict;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use plumbago_model::{Period, StorageRules};
use serde::Deserialize;
use serde_json::Value;

pub use problem::{Place, Problem, Problems};
pub use rules::load_rules;
pub use show::effective;

/// Every key with its default and its meaning.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

/// The file that is read when no other is named.
pub const DEFAULT_FILE: &str = "plumbago.toml";

/// All settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The directory of the embedded store, the journal and the writer id.
    pub data_dir: PathBuf,
    /// Graphite's file of retentions; empty for the built-in rules.
    pub storage_schemas: PathBuf,
    /// Graphite's file of aggregation methods; empty for the built-in rules.
    pub storage_aggregation: PathBuf,
    /// What is logged.
    pub log: Log,
    /// Who may send points, and how.
    pub ingest: plumbago_ingest::Config,
    /// Graphite's HTTP API.
    pub api: plumbago_api::Config,
    /// The operator's port.
    pub admin: plumbago_api::AdminConfig,
    /// How names are found.
    pub index: Index,
    /// Which store keeps the points.
    pub store: Store,
    /// The durable log.
    pub journal: plumbago_journal::Config,
    /// Rows on their way to a remote store.
    pub spool: plumbago_journal::SpoolConfig,
    /// How they are sent.
    pub sender: plumbago_spooled::SenderConfig,
    /// The one writer and reader of points.
    pub engine: plumbago_engine::Config,
    /// Other daemons on the same store.
    pub cluster: plumbago_peers::Config,
    /// The jobs that keep the store clean.
    pub maintenance: plumbago_maintenance::Config,
    /// What the daemon says of itself, as points.
    pub self_metrics: SelfMetrics,
    /// For tests.
    pub debug: Debug,
}

impl Config {
    /// Where the embedded store has its files.
    pub fn store_dir(&self) -> PathBuf {
        self.data_dir.join("store")
    }

    /// Where the maintenance jobs note how far they came.
    pub fn maintenance_dir(&self) -> PathBuf {
        self.data_dir.join("maintenance")
    }

    /// Where the journal has its files.
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
            api: plumbago_api::Config::default(),
            admin: plumbago_api::AdminConfig::default(),
            index: Index::default(),
            store: Store::default(),
            journal: plumbago_journal::Config::default(),
            spool: plumbago_journal::SpoolConfig::default(),
            sender: plumbago_spooled::SenderConfig::default(),
            engine: plumbago_engine::Config::default(),
            cluster: plumbago_peers::Config::default(),
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
    /// What the names begin with, as carbon's `CARBON_METRIC_PREFIX`.
    pub prefix: String,
    /// How often; zero for never.
    pub interval: Period,
}

impl Default for SelfMetrics {
    fn default() -> Self {
        Self { prefix: "carbon".to_owned(), interval: Period::seconds(60) }
    }
}

/// The `[debug]` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Debug {
    /// Seconds since the epoch at which the daemon's clock stands until the admin port moves it; 0 for
    /// the machine's clock.
    pub clock: i64,
}

/// The `[index]` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Index {
    /// Where globs are looked up.
    pub mode: IndexMode,
}

/// The ways to find names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexMode {
    /// In memory, where all names are loaded.
    #[default]
    Memory,
    /// By the SASI indexes of Cassandra; no names are loaded.
    Sasi,
}

/// The `[store]` section.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// The kind of store.
    pub kind: StoreKind,
    /// The store on the local disk.
    pub embedded: plumbago_store_embedded::Config,
    /// The store in Cassandra or ScyllaDB.
    pub cassandra: plumbago_store_cassandra::Config,
}

/// The stores there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreKind {
    /// On the local disk.
    #[default]
    Embedded,
    /// In Cassandra or ScyllaDB.
    Cassandra,
}

/// A configuration without errors.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The storage rules that the settings name.
    pub rules: StorageRules,
    /// What is odd but does not stop the start.
    pub warnings: Vec<Problem>,
    /// The file that was read; `None` when there was none.
    pub file: Option<PathBuf>,
    /// What the file and the environment set.
    pub set: Value,
}

/// Reads `file` (or [`DEFAULT_FILE`] when it is there), the environment and the storage rules.
/// Fails with every problem at once.
pub fn load(file: Option<&Path>) -> Result<Loaded, Problems> {
    let file = file.map(Path::to_path_buf).or_else(|| {
        let default = PathBuf::from(DEFAULT_FILE);
        default.exists().then_some(default)
    });
    load_from(file, layers::environment())
}

fn load_from(file: Option<PathBuf>, environment: layers::Environment) -> Result<Loaded, Problems> {
    let mut problems = Problems::default();
    let layers = layers::read(file.as_deref(), environment, &mut problems);
    let set = strict::typed(&layers, &mut problems);
    let config = strict::build(&set, &layers, &mut problems);
    check(&config, &layers, &mut problems);
    let rules = load_rules(&config, &mut problems);
    problems.sort();
    if problems.any_error() {
        return Err(problems);
    }
    Ok(Loaded { config, rules, warnings: problems.into_vec(), file, set })
}

/// The rules that no single key can check.
fn check(config: &Config, layers: &layers::Layers, problems: &mut Problems) {
    if config.data_dir.as_os_str().is_empty() {
        problems.error(layers.near("data_dir"), "data_dir", "must not be empty");
    }
    if !is_log_filter(&config.log.level) {
        let message =
            format!("{:?} is no log level; use error, warn, info, debug or trace", config.log.level);
        problems.error(layers.near("log.level"), "log.level", message);
    }
    let of_sections = [
        config.ingest.problems(),
        config.api.problems(),
        config.admin.problems(),
        config.store.cassandra.problems(),
        config.cluster.problems(),
        config.maintenance.problems(),
    ];
    for text in of_sections.concat() {
        let (key, message) = text.split_once(": ").unwrap_or(("", &text));
        problems.error(layers.near(key), key, message);
    }
    if config.index.mode == IndexMode::Sasi && config.store.kind != StoreKind::Cassandra {
        let message = "\"sasi\" needs store.kind = \"cassandra\"";
        problems.error(layers.near("index.mode"), "index.mode", message);
    }
    if !config.cluster.peers.is_empty() && config.store.kind != StoreKind::Cassandra {
        let message = "daemons have a store in common only with store.kind = \"cassandra\"";
        problems.error(layers.near("cluster.peers"), "cluster.peers", message);
    }
    for (key, other, listen) in taken_twice(config) {
        problems.error(layers.near(key), key, format!("{listen} is taken by {other}"));
    }
}

/// Listeners on the address of another; `ingest` compares its own.
fn taken_twice(config: &Config) -> Vec<(&'static str, &'static str, &str)> {
    let ingest = [
        ("ingest.line.listen", config.ingest.line.listen.as_str()),
        ("ingest.pickle.listen", &config.ingest.pickle.listen),
        ("ingest.protobuf.listen", &config.ingest.protobuf.listen),
    ];
    let mut taken = ingest.to_vec();
    let mut found = Vec::new();
    for (key, listen) in [("api.listen", config.api.listen.as_str()), ("admin.listen", &config.admin.listen)]
    {
        let free_choice = listen.is_empty() || listen.ends_with(":0");
        if let Some((other, _)) = taken.iter().find(|(_, taken)| *taken == listen && !free_choice) {
            found.push((key, *other, listen));
        }
        taken.push((key, listen));
    }
    found
}

/// `level` or `crate=level`, comma-separated; anything else the logger would take for the name of a
/// crate and log nothing else.
fn is_log_filter(text: &str) -> bool {
    let level = |part: &str| matches!(part, "off" | "error" | "warn" | "info" | "debug" | "trace");
    text.split(',').all(|part| level(part.rsplit_once('=').map_or(part, |(_, level)| level).trim()))
}
