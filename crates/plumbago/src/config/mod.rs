//! The configuration of the process: reads one TOML file, applies the environment, and checks the result.
//!
//! Each crate owns the `Config` of its section. This module composes them and is the only place that reads
//! the file or the environment. All problems are reported at once, not only the first. Start at [`load`].

mod layers;
mod memory;
mod problem;
mod renamed;
mod rules;
mod show;
mod strict;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use plumbago_model::{Period, StorageRules};
use serde::Deserialize;
use serde_json::Value;

use crate::machine;

pub use memory::Budget;
pub use problem::{Place, Problem, Problems};
pub use rules::load_rules;
pub use show::effective;

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
    /// The port of Graphite's HTTP API.
    pub api: plumbago_api::Config,
    /// The admin port: metrics, health checks and actions for operators.
    pub admin: plumbago_api::AdminConfig,
    /// Lookup of names.
    pub index: Index,
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
    /// The other daemons on the same store.
    pub cluster: plumbago_cluster::peers::Config,
    /// The maintenance jobs.
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
            api: plumbago_api::Config::default(),
            admin: plumbago_api::AdminConfig::default(),
            index: Index::default(),
            store: Store::default(),
            journal: plumbago_journal::Config::default(),
            spool: plumbago_spool::SpoolConfig::default(),
            sender: plumbago_spool::SenderConfig::default(),
            engine: plumbago_engine::Config::default(),
            cluster: plumbago_cluster::peers::Config::default(),
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
    /// Interval between two points; zero for no points.
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
    /// Seconds since the epoch at which the clock stands until the admin port sets it; 0 for the machine's
    /// clock.
    pub clock: i64,
}

/// The `[index]` section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Index {
    /// How globs are looked up.
    pub mode: IndexMode,
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

/// A loaded configuration without errors.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The storage rules that the settings name.
    pub rules: StorageRules,
    /// Problems that do not prevent the start.
    pub warnings: Vec<Problem>,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// The keys that the file and the environment set, with their values, as nested objects.
    pub set: Value,
}

impl Loaded {
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
    let budget = Budget::divide(&mut config.clone(), &set, machine::memory_bytes());
    if let Some(message) = budget.problem() {
        problems.error(layers.near("engine.memory_max"), "engine.memory_max", message);
    }
    let rules = load_rules(&config, &mut problems);
    problems.sort();
    if problems.any_error() {
        return Err(problems);
    }
    Ok(Loaded { config, rules, warnings: problems.into_vec(), file, set })
}

/// Checks values and combinations of values that their types allow.
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
        let message = "peers need a shared store: set store.kind = \"cassandra\"";
        problems.error(layers.near("cluster.peers"), "cluster.peers", message);
    }
    for (key, other, listen) in taken_twice(config) {
        problems.error(layers.near(key), key, format!("{listen} is taken by {other}"));
    }
}

/// Finds HTTP ports whose address another port has: the key, the key of the other port, and the address.
/// `ingest` compares its own listeners.
fn taken_twice(config: &Config) -> Vec<(&'static str, String, &str)> {
    let ingest = config.ingest.tcp.iter();
    let ingest =
        ingest.map(|(protocol, section)| (format!("ingest.{}.listen", protocol.name), &section.listen));
    let mut taken: Vec<(String, &str)> = ingest.map(|(key, listen)| (key, listen.as_str())).collect();
    let mut found = Vec::new();
    for (key, listen) in [("api.listen", config.api.listen.as_str()), ("admin.listen", &config.admin.listen)]
    {
        let free_choice = listen.is_empty() || listen.ends_with(":0");
        if let Some((other, _)) = taken.iter().find(|(_, taken)| *taken == listen && !free_choice) {
            found.push((key, other.clone(), listen));
        }
        taken.push((key.to_owned(), listen));
    }
    found
}

/// Returns whether a text is a list of `level` and `crate=level`. The logger would take any other word as the
/// name of a crate and log nothing but that crate.
fn is_log_filter(text: &str) -> bool {
    let level = |part: &str| matches!(part, "off" | "error" | "warn" | "info" | "debug" | "trace");
    text.split(',').all(|part| level(part.rsplit_once('=').map_or(part, |(_, level)| level).trim()))
}
