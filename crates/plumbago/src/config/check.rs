//! Checks values and combinations of values that their types allow.

use plumbago_model::ByteSize;
use serde_json::Value;

use super::layers::Layers;
use super::memory::Budget;
use super::problem::Problems;
use super::{Config, IndexMode, StoreKind, ports};
use crate::machine;

/// Adds all problems of the settings to `problems`. Reads the files that settings name, but changes nothing.
pub(super) fn check(config: &Config, set: &Value, layers: &Layers, problems: &mut Problems) {
    if config.data_dir.as_os_str().is_empty() {
        problems.error(layers.near("data_dir"), "data_dir", "must not be empty");
    }
    if !is_log_filter(&config.log.level) {
        let message =
            format!("{:?} is not a log level; use error, warn, info, debug or trace", config.log.level);
        problems.error(layers.near("log.level"), "log.level", message);
    }
    sections(config, layers, problems);
    let is_shared = config.store.kind == StoreKind::Cassandra;
    if config.index.mode == IndexMode::Sasi && !is_shared {
        let message = "\"sasi\" needs store.kind = \"cassandra\"";
        problems.error(layers.near("index.mode"), "index.mode", message);
    }
    if !config.cluster.peers.is_empty() && !is_shared {
        let message = "peers need a shared store: set store.kind = \"cassandra\"";
        problems.error(layers.near("cluster.peers"), "cluster.peers", message);
    }
    if config.index.mode == IndexMode::Sasi && !config.quotas.rules.as_os_str().is_empty() {
        let message = "needs index.mode = \"memory\": only names in memory can be counted";
        problems.error(layers.near("quotas.rules"), "quotas.rules", message);
    }
    for (key, message) in ports::problems(config) {
        problems.error(layers.near(&key), &key, message);
    }
    memory(config, set, layers, problems);
}

fn sections(config: &Config, layers: &Layers, problems: &mut Problems) {
    let mut found = [
        config.ingest.problems(),
        config.carbonlink.problems(),
        config.api.problems(),
        config.admin.problems(),
        config.store.cassandra.problems(),
        config.engine.problems(),
        config.sender.problems(),
        config.cluster.problems(),
        config.quotas.problems(),
        config.relay.problems(),
        config.aggregation.problems(),
        config.maintenance.problems(),
        config.self_metrics.problems(),
    ]
    .concat();
    if config.store.kind == StoreKind::Cassandra {
        found.extend(config.store.cassandra.file_problems());
    }
    for text in found {
        let (key, message) = text.split_once(": ").unwrap_or(("", &text));
        problems.error(layers.near(key), key, message);
    }
}

fn memory(config: &Config, set: &Value, layers: &Layers, problems: &mut Problems) {
    let machine = machine::memory_bytes();
    let budget = Budget::divide(&mut config.clone(), set, machine);
    let is_short = budget.problem(None).is_some();
    let enough = is_short.then(|| Budget::enough(config, set)).flatten();
    if let Some((key, message)) = budget.problem(enough) {
        problems.error(layers.near(key), key, message);
    } else if machine > 0 && budget.ceiling > machine {
        let message = format!(
            "{} is more than this machine or its control group has ({}): the kernel may kill the daemon before \
             it refuses anything",
            ByteSize(budget.ceiling),
            ByteSize(machine >> 20 << 20)
        );
        problems.warning(layers.near("engine.memory_max"), "engine.memory_max", message);
    }
}

/// Returns whether a text is a list of `level` and `crate=level`. The logger would take any other word for
/// the name of a crate, and log only that crate.
fn is_log_filter(text: &str) -> bool {
    let level = |part: &str| matches!(part, "off" | "error" | "warn" | "info" | "debug" | "trace");
    text.split(',').all(|part| level(part.rsplit_once('=').map_or(part, |(_, level)| level).trim()))
}
