//! Divides the memory ceiling, `engine.memory_max`.
//!
//! Caches, queues and requests have upper bounds. Metrics get the rest of the ceiling. A bound that the
//! configuration does not set is computed from the ceiling, so that a small ceiling leads to small caches. A
//! bound that it sets is used unchanged. A configuration whose bounds leave no room for metrics is refused.

use plumbago_model::ByteSize;
use serde_json::Value;

use super::Config;

const MIB: u64 = 1 << 20;

/// The smallest ceiling in bytes. With less, the program itself would leave no room for metrics.
const LEAST: u64 = 128 * MIB;

/// Memory that the program takes without any points, in bytes: code, thread stacks, and tables of the stores.
const BASE: u64 = 32 * MIB;

/// The ceiling, and how much of it is reserved for purposes other than metrics.
#[derive(Debug, Clone)]
pub struct Budget {
    /// Memory that the process may take, in bytes.
    pub ceiling: u64,
    /// Whether the ceiling was set; else it follows from the machine's memory.
    is_set: bool,
    /// The part of `ceiling` in bytes that the program itself, caches, queues and requests may take. The rest
    /// is for metrics.
    pub reserved: u64,
    /// Every bound: its key ("" if it has none) and its size in bytes.
    parts: Vec<(&'static str, u64)>,
}

impl Budget {
    /// Divides the ceiling of `config`. Fills in each bound that is not in `set`, which has the settings of
    /// the file and the environment. `machine` is the memory of the machine in bytes, or 0 if unknown.
    pub fn divide(config: &mut Config, set: &Value, machine: u64) -> Self {
        let is_ceiling_set = config.engine.memory_max.0 != 0;
        let ceiling = match config.engine.memory_max.0 {
            0 => (machine / 2).max(LEAST),
            bytes => bytes,
        };
        config.engine.memory_max = ByteSize(ceiling);
        // Two of the largest frames must fit. Otherwise no other frame could be read while one of them is
        // being read.
        let largest = config.ingest.largest_message_bytes();
        if !is_set(set, "ingest.frame_memory_bytes") {
            let bytes = (ceiling / 16).max(largest.saturating_mul(2)).min(256 * MIB);
            config.ingest.frame_memory_bytes = bytes;
        }
        let mut parts = vec![("ingest.frame_memory_bytes", config.ingest.frame_memory_bytes)];
        if config.carbonlink.is_on() {
            let link = &mut config.carbonlink;
            if !is_set(set, "carbonlink.memory_bytes") {
                link.memory_bytes = (ceiling / 16).min(64 * MIB).max(link.frame_bytes_max.saturating_mul(4));
            }
            parts.push(("carbonlink.memory_bytes", link.memory_bytes));
        }
        let mut bound = |key: &'static str, bytes: &mut u64, part: u64, most: u64| {
            if !is_set(set, key) {
                *bytes = (ceiling / part).min(most);
            }
            parts.push((key, *bytes));
        };
        if config.store.kind == super::StoreKind::Embedded {
            let embedded = &mut config.store.embedded;
            bound("store.embedded.cache_bytes", &mut embedded.cache_bytes.0, 16, 64 * MIB);
            bound("store.embedded.columns_bytes", &mut embedded.columns_bytes.0, 16, 64 * MIB);
        }
        bound("api.events_bytes", &mut config.api.events_bytes.0, 64, 16 * MIB);
        bound("api.cache.bytes", &mut config.api.cache.bytes.0, 32, 64 * MIB);
        let total = &mut config.api.limits.memory_total.0;
        if *total == 0 {
            *total = ceiling / 8;
        }
        parts.push(("api.limits.memory_total", *total));
        let memtable = (ceiling / 128).clamp(MIB, 16 * MIB);
        config.store.embedded.memtable_bytes = ByteSize(memtable);
        config.spool.memtable_bytes = memtable;
        // The embedded store has memtables for points, names and state rows. For each of these, one memtable
        // is being filled and one may be on its way to the disk. The spool needs no more: it has fewer
        // memtables and one cache of that size.
        parts.push(("", 6 * memtable));
        let reserved = parts.iter().fold(BASE, |sum, (_, bytes)| sum.saturating_add(*bytes));
        Self { ceiling, is_set: is_ceiling_set, reserved, parts }
    }

    /// Returns why the program cannot run with this ceiling, and the setting to change; `None` if it can. At
    /// least an eighth of the ceiling must be left for metrics. `enough` is the ceiling that the message
    /// recommends.
    pub fn problem(&self, enough: Option<ByteSize>) -> Option<(&'static str, String)> {
        const CEILING: &str = "engine.memory_max";
        let (ceiling, least) = (ByteSize(self.ceiling), ByteSize(LEAST));
        if self.ceiling < LEAST {
            return Some((CEILING, format!("{ceiling} is too little; set {least} or more")));
        }
        let needed = self.reserved.saturating_add(self.ceiling / 8);
        if needed <= self.ceiling {
            return None;
        }
        let keys: Vec<String> = self
            .parts
            .iter()
            .filter(|(key, _)| !key.is_empty())
            .map(|(key, bytes)| format!("{key} = {}", shown(*bytes)))
            .collect();
        let ceiling = if self.is_set {
            ceiling.to_string()
        } else {
            format!("{ceiling}, half of this machine's memory,")
        };
        let advice = enough.map_or_else(String::new, |enough| format!("set it to {enough} or more, or "));
        Some((
            CEILING,
            format!(
                "{ceiling} leaves no room for metrics: {} is reserved for the program and for {}; \
                 {advice}lower those",
                shown(self.reserved),
                keys.join(", ")
            ),
        ))
    }

    /// Returns a ceiling with which `config` would have room for metrics; `None` if none is large enough.
    pub fn enough(config: &Config, set: &Value) -> Option<ByteSize> {
        let fits = |mib: &u64| {
            let mut config = config.clone();
            config.engine.memory_max = ByteSize::mib(*mib);
            Self::divide(&mut config, set, 0).problem(None).is_none()
        };
        let next = |mib: &u64| Some((mib + mib / 8).next_multiple_of(16)).filter(|mib| *mib < 1 << 40);
        std::iter::successors(Some(LEAST / MIB), next).find(fits).map(ByteSize::mib)
    }
}

/// Rounds down to whole MiB for messages; sizes up to one MiB stay exact.
fn shown(bytes: u64) -> ByteSize {
    ByteSize(if bytes > MIB { bytes - bytes % MIB } else { bytes })
}

/// Returns whether the file or the environment set `key`, a path like `api.cache.bytes`.
pub(super) fn is_set(set: &Value, key: &str) -> bool {
    set.pointer(&format!("/{}", key.replace('.', "/"))).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn divided(set: Value) -> (Config, Budget) {
        let mut config: Config = serde_json::from_value(set.clone()).unwrap();
        let budget = Budget::divide(&mut config, &set, 16 << 30);
        (config, budget)
    }

    #[test]
    fn bounds_follow_from_the_ceiling() {
        let (config, budget) = divided(json!({}));
        assert_eq!((budget.ceiling, budget.problem(None)), (8 << 30, None));
        assert_eq!(config.store.embedded.cache_bytes, ByteSize::mib(64));
        assert_eq!(config.api.limits.memory_total, ByteSize::mib(1024));
        for mib in [128, 192, 256, 400, 1024] {
            let (config, budget) = divided(json!({"engine": {"memory_max": format!("{mib}MiB")}}));
            assert_eq!(budget.problem(None), None);
            assert!(config.store.embedded.cache_bytes.0 <= budget.ceiling / 16);
            assert!(
                budget.ceiling - budget.reserved >= budget.ceiling / 6,
                "{mib}: {}",
                budget.reserved >> 20
            );
        }
    }

    #[test]
    fn what_is_set_is_taken_as_it_is_or_refused() {
        let (config, budget) = divided(json!({
            "engine": {"memory_max": "1GiB"}, "store": {"embedded": {"cache_bytes": "300MiB"}}
        }));
        assert_eq!((config.store.embedded.cache_bytes, budget.problem(None)), (ByteSize::mib(300), None));
        let (_, budget) = divided(json!({
            "engine": {"memory_max": "256MiB"}, "store": {"embedded": {"cache_bytes": "200MiB"}}
        }));
        let (key, problem) = budget.problem(None).unwrap();
        assert!(problem.contains("store.embedded.cache_bytes = 200MiB"), "{problem}");
        assert_eq!(key, "engine.memory_max");
        let set = json!({"store": {"embedded": {"cache_bytes": "200MiB"}}});
        let enough = Budget::enough(&serde_json::from_value(set.clone()).unwrap(), &set).unwrap();
        let (_, budget) = divided(json!({
            "engine": {"memory_max": enough.to_string()}, "store": {"embedded": {"cache_bytes": "200MiB"}}
        }));
        assert_eq!(budget.problem(None), None, "{enough} was said to be enough");
        let (_, budget) = divided(json!({"engine": {"memory_max": "100MiB"}}));
        assert!(budget.problem(None).unwrap().1.contains("128MiB or more"));
        // Two sizes whose sum does not fit into 64 bits.
        let (_, budget) = divided(json!({
            "store": {"embedded": {"cache_bytes": "10000000TiB", "columns_bytes": "10000000TiB"}}
        }));
        assert!(budget.problem(None).is_some());
    }

    #[test]
    fn a_small_machine_gets_the_least_ceiling() {
        let mut config = Config::default();
        let budget = Budget::divide(&mut config, &json!({}), 0);
        assert_eq!((budget.ceiling, config.engine.memory_max), (LEAST, ByteSize(LEAST)));
        assert_eq!(budget.problem(None), None);
    }
}
