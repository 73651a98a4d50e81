//! Which crate may depend on which. The table is the same as in `ARCHITECTURE.md`.

use crate::metadata::{Kind, Metadata, tree};

/// The dependencies that are allowed for one crate of this repository.
struct Layer {
    /// Name without the prefix `plumbago-`.
    name: &'static str,
    /// Crates of this repository that its code may use.
    uses: &'static [&'static str],
    /// Further crates of this repository that its tests and benchmarks may use.
    tests_use: &'static [&'static str],
}

const fn layer(
    name: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
) -> Layer {
    Layer { name, uses, tests_use }
}

/// The crates of this repository, from the innermost to the outermost. A crate that is not listed here is
/// refused.
const LAYERS: &[Layer] = &[
    layer("model", &[], &[]),
    layer("telemetry", &[], &[]),
    layer("boxed-futures", &[], &[]),
    layer("tls", &[], &[]),
    layer("graph", &[], &[]),
    layer("whisper", &["model"], &[]),
    layer("config-import", &["model"], &[]),
    layer("kairosdb", &["model"], &[]),
    layer("render", &["model"], &[]),
    layer("bench", &["model"], &[]),
    layer("cassandra-node", &[], &[]),
    layer("kairosdb-node", &["cassandra-node"], &[]),
    layer("fjall-host", &["model", "telemetry"], &[]),
    layer("journal", &["fjall-host", "model", "telemetry"], &[]),
    layer("ingest", &["boxed-futures", "kairosdb", "model", "telemetry", "tls"], &[]),
    layer("aggregation", &["boxed-futures", "journal", "model", "telemetry"], &[]),
    layer("relay", &["model", "telemetry", "tls"], &[]),
    layer("store", &["boxed-futures", "model", "telemetry"], &["store"]),
    layer("store-embedded", &["boxed-futures", "fjall-host", "model", "store", "telemetry"], &["store"]),
    layer("store-cassandra", &["boxed-futures", "model", "store", "telemetry"], &["cassandra-node", "store"]),
    layer("spool", &["boxed-futures", "fjall-host", "model", "store", "telemetry"], &["store"]),
    layer("index", &["model", "store", "telemetry"], &[]),
    layer("engine", &["boxed-futures", "index", "journal", "model", "store", "telemetry"], &["store"]),
    layer("cluster", &["boxed-futures", "index", "model", "spool", "store", "telemetry", "tls"], &["store"]),
    layer(
        "maintenance",
        &["boxed-futures", "kairosdb", "model", "store", "telemetry", "whisper"],
        &["store"],
    ),
    layer("graphite-client", &["boxed-futures", "maintenance", "model", "tls"], &[]),
    layer(
        "api",
        &["boxed-futures", "graph", "index", "kairosdb", "model", "render", "store", "telemetry", "tls"],
        &["store"],
    ),
    layer("", &["*"], &["*"]),
    layer("layers", &[], &[]),
    layer(
        "tests",
        &["cassandra-node", "kairosdb-node"],
        &["index", "model", "render", "store", "store-cassandra", "telemetry"],
    ),
];

/// Helpers for tests, which every crate's tests may use: crashes, full disks, waiting for a condition.
const TEST_HELPERS: &str = "tests";

/// An external crate that only some crates may use directly in their code. All tests may use it.
struct Restricted {
    name: &'static str,
    users: &'static [&'static str],
}

const fn only(name: &'static str, users: &'static [&'static str]) -> Restricted {
    Restricted { name, users }
}

const RESTRICTED: &[Restricted] = &[
    only("fjall", &["fjall-host", "journal", "spool", "store-embedded"]),
    only("scylla", &["store-cassandra"]),
    only("clap", &[""]),
    only("config", &[""]),
    only("anyhow", &[""]),
    only("tikv-jemallocator", &[""]),
    only("axum", &["api"]),
    only("hyper", &["api", "cluster", "graphite-client", "ingest"]),
    only("tower-http", &["api"]),
    only("metrics", &["telemetry"]),
    only("metrics-exporter-prometheus", &["telemetry"]),
    only("tracing-subscriber", &["telemetry"]),
    only("resvg", &["graph"]),
    only("rustls", &["", "store-cassandra", "tls"]),
    only("ureq", &["bench"]),
];

/// External crates on which a crate must not depend, not even indirectly.
const UNREACHABLE: &[(&str, &[&str])] = &[
    ("model", &["tokio", "serde_json", "tracing"]),
    ("telemetry", &["tokio", "fjall", "scylla"]),
    ("render", &["tokio", "tracing", "hyper", "fjall"]),
    ("graph", &["tokio", "tracing", "hyper", "fjall"]),
    ("index", &["tokio", "hyper", "fjall", "scylla"]),
    ("whisper", &["tokio", "hyper", "fjall"]),
    ("config-import", &["tokio", "hyper", "fjall"]),
    ("kairosdb", &["tokio", "hyper", "fjall"]),
    ("store", &["fjall", "scylla", "hyper"]),
    ("api", &["fjall", "scylla", "clap"]),
    ("ingest", &["fjall", "scylla", "axum"]),
    ("bench", &["tokio", "fjall", "scylla", "rustls"]),
    ("maintenance", &["fjall", "scylla", "hyper"]),
    ("graphite-client", &["fjall", "scylla", "axum"]),
    ("store-embedded", &["scylla", "hyper"]),
    ("store-cassandra", &["fjall", "hyper"]),
];

/// One message per dependency that the tables above do not allow.
///
/// # Errors
/// The message of `cargo tree`, if that command fails.
pub fn check(metadata: &Metadata) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for package in metadata.members() {
        let name = short(&package.name);
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
            problems.push(format!("{}: not in the table of tests/layers/src/layers.rs", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let dev = dependency.kind == Kind::Dev;
            if !allowed(layer, &dependency.name, dev) {
                let what = if dev { "tests must not depend on" } else { "must not depend on" };
                problems.push(format!("{} {what} {}", package.name, dependency.name));
            }
        }
        for (_, forbidden) in UNREACHABLE.iter().filter(|(of, _)| *of == name) {
            let reached = tree(&metadata.workspace_root, &package.name)?;
            for reached in reached.iter().filter(|reached| forbidden.contains(&reached.name.as_str())) {
                let (from, to) = (&package.name, &reached.name);
                problems
                    .push(format!("{from} must not reach {to}: see cargo tree -p {from} -e normal -i {to}"));
            }
        }
    }
    Ok(problems)
}

fn allowed(layer: &Layer, dependency: &str, dev: bool) -> bool {
    if dependency != "plumbago" && !dependency.starts_with("plumbago-") {
        let restricted = RESTRICTED.iter().find(|restricted| restricted.name == dependency);
        return dev || restricted.is_none_or(|restricted| restricted.users.contains(&layer.name));
    }
    let dependency = short(dependency);
    let listed = |list: &[&str]| list.contains(&"*") || list.contains(&dependency);
    listed(layer.uses) || (dev && (listed(layer.tests_use) || dependency == TEST_HELPERS))
}

/// The name without the prefix: `model` for `plumbago-model`. Empty for the binary `plumbago`.
fn short(package: &str) -> &str {
    package.strip_prefix("plumbago").map_or(package, |rest| rest.trim_start_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(name: &str, dependency: &str, dev: bool) -> bool {
        allowed(LAYERS.iter().find(|layer| layer.name == name).unwrap(), dependency, dev)
    }

    #[test]
    fn inner_crates_do_not_use_outer_ones() {
        assert!(may("engine", "plumbago-store", false));
        assert!(!may("store", "plumbago-engine", false));
        assert!(!may("engine", "plumbago-store-embedded", false));
        assert!(!may("model", "plumbago-telemetry", true));
        assert!(may("", "plumbago-store-embedded", false));
    }

    #[test]
    fn crates_from_outside_have_their_place() {
        assert!(may("store-cassandra", "scylla", false));
        assert!(!may("maintenance", "scylla", false));
        assert!(may("maintenance", "scylla", true), "tests may use all");
        assert!(may("model", "regex", false), "not restricted");
        assert!(!may("bench", "clap", false));
    }
}
