//! Measures the creation of names, and a start that loads them.

use std::sync::Arc;
use std::time::Instant;

use plumbago_model::{Aggregation, Clock, MetricConfig, SystemClock};
use plumbago_store::{MetadataStore, MetricMeta, WriterIdentity};
use plumbago_store_cassandra::CassandraStore;
use plumbago_telemetry::Registry;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

use super::bare::Bare;
use super::{amount, config, cpu_of, heading, large_node, node, setup, show, took};

const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 1m:1d,1h:30d\n";

pub(super) fn metric_config() -> MetricConfig {
    MetricConfig {
        retention: "1m:1d,1h:30d".parse().unwrap(),
        aggregation: Aggregation::Average,
        x_files_factor: 0.5,
    }
}

/// Names of four components. Each lowest directory has ten metrics.
fn names(prefix: &str, count: usize) -> Vec<String> {
    let name = |n| format!("{prefix}.host{:05}.kind{}.m{}", n / 40, n / 10 % 4, n % 10);
    (0..count).map(name).collect()
}

pub(super) fn create(runtime: &tokio::runtime::Runtime, store: &CassandraStore, names: &[String]) {
    let config = Arc::new(metric_config());
    let now = SystemClock.now() as u32;
    let metric = |name: &String| MetricMeta { name: name.clone(), config: config.clone(), created_on: now };
    let all: Vec<MetricMeta> = names.iter().map(metric).collect();
    for chunk in all.chunks(1000) {
        runtime.block_on(store.create(chunk)).unwrap();
    }
}

pub(super) fn store(
    runtime: &tokio::runtime::Runtime,
    node: &plumbago_cassandra_node::Cluster,
    keyspace: &str,
) -> CassandraStore {
    let _inside = runtime.enter();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let (config, identity) = (config(node, keyspace), WriterIdentity::new(0, 16_000));
    let store = CassandraStore::connect(&config, identity, clock, &Registry::new()).unwrap();
    runtime.block_on(store.wait()).unwrap();
    store
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Measures the creation of names with all indexes: two for each of 64 components, and those on `parent`.
#[test]
#[ignore = "a figure"]
fn creation_beside_a_bare_loop() {
    const METRICS: usize = 20_000;
    let Some(node) = node() else { return };
    let _setup = setup(&node, "creation", SCHEMAS);
    let runtime = runtime();
    let store = store(&runtime, &node, "creation");
    let bare = Bare::connect(&node, config(&node, "creation"));
    for round in 0..3 {
        heading(&format!("round {}: {METRICS} new metrics", round + 1));
        let (theirs, ours) =
            (names(&format!("bare{round}"), METRICS), names(&format!("ours{round}"), METRICS));
        let own = std::process::id();
        // Directories with ten metrics each, and with forty.
        let mut directories: Vec<String> =
            theirs.iter().map(|name| name.rsplit_once('.').unwrap().0.to_owned()).collect();
        directories.dedup();
        let bares = took(own, || {
            bare.directories(&directories);
            bare.names(&theirs, &metric_config());
        });
        show("a bare loop, the directories of the metrics first", METRICS, &bares);
        show("our creation", METRICS, &took(own, || create(&runtime, &store, &ours)));
    }
}

/// Waits until the server has finished flushes, compactions and index builds.
pub(super) fn at_rest(node: &plumbago_cassandra_node::Cluster) {
    let process = node.nodes()[0].id().unwrap();
    wait_until("the server to be at rest", || {
        let before = cpu_of(process);
        std::thread::sleep(std::time::Duration::from_secs(5));
        cpu_of(process) - before < 0.5
    });
}

/// Measures the start of a daemon with an empty data directory on a server with many names, under load.
#[test]
#[ignore = "a figure"]
fn a_start_with_a_million_names() {
    let metrics = amount("NAMES", 1_000_000);
    let Some(node) = large_node() else { return };
    let setup = setup(&node, "million", SCHEMAS);
    Bare::connect(&node, config(&node, "million")).names(&names("dc1", metrics), &metric_config());
    at_rest(&node);
    println!("\n{metrics} names are there");
    for start in ["first start, nothing on the disk", "second start, names in the local copy"] {
        let begun = Instant::now();
        let daemon = setup.launch();
        wait_until("the listeners", || {
            daemon.stdout().iter().any(|line| line.starts_with("listening admin"))
        });
        let listening = begun.elapsed().as_secs_f64();
        let mut sender = daemon.sender();
        let mut sent = 0;
        wait_until("the names", || {
            sender.send(&[Point::new("dc1.host00001.kind1.m1", SystemClock.now(), 1.0)]);
            sent += 1;
            daemon.counters().sum("plumbago_index_names") >= metrics as u64
        });
        let loaded = begun.elapsed().as_secs_f64();
        daemon.ledger_at(sent);
        println!(
            "{start}: listening after {listening:.1} s, all names after {loaded:.1} s, {:.1} CPU s; {sent} points \
             taken meanwhile",
            cpu_of(daemon.id())
        );
        daemon.stop_well();
    }
}
