//! Measurements, not tests: speed and cost of the daemon on one real node, compared with BigGraphite and with
//! a bare client; and the points lost by a kill. Each takes minutes and must not share the machine with other
//! work, so they are ignored unless requested:
//!
//! ```sh
//! cargo build --release --locked -p plumbago
//! PLUMBAGO_BIN=$PWD/target/release/plumbago cargo test --workspace --profile ci --locked \
//!     --test system -- figures --ignored --nocapture --test-threads 1
//! ```
//!
//! `PLUMBAGO_FIGURES_NAMES` and `PLUMBAGO_FIGURES_DIRECTORIES` set the number of names and directories (a million by
//! default), `PLUMBAGO_FIGURES_FINDS` the number of names to search, and `PLUMBAGO_FIGURES_RULES` the number
//! of metrics that get other rules (a hundred thousand each). [`page`], [`operations`] and [`kairosdb`] have
//! sizes of their own. The results are in `docs/measurements.md`. The daemon is the release binary named
//! above; code of the store that runs inside the test is built with the profile of the tests.

mod bare;
mod cleanup;
mod creation;
mod disk;
mod finds;
mod kairosdb;
mod kill;
mod operations;
mod page;
mod points;
mod reads;
mod returns;
mod rules;
mod table;

use std::time::Instant;

use plumbago_cassandra_node::server;
use plumbago_cassandra_node::{Cluster, Options};
use plumbago_store_cassandra::Config;
use plumbago_tests::child::cpu_of;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::rounds::number;

/// A node configured as in production, except for its size.
fn node() -> Option<Cluster> {
    node_of(2048)
}

/// A node with enough memory for the indexes of a million new names.
fn large_node() -> Option<Cluster> {
    node_of(6144)
}

fn node_of(heap_mib: u32) -> Option<Cluster> {
    server::cluster_for_test(1, &Options { heap_mib, quick: false, ..Options::default() })
}

/// The setup of a daemon on a keyspace of the node. Its tables are created.
fn setup(node: &Cluster, keyspace: &str, schemas: &str) -> Setup {
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", keyspace);
    setup.set("store.cassandra.contact_points", &node.contact_points()[0]);
    setup.set("log.level", "warn").schemas(schemas);
    let ended = setup.run(&["syncdb"]);
    assert!(ended.status.success(), "{}", ended.output);
    setup
}

fn config(node: &Cluster, keyspace: &str) -> Config {
    Config { contact_points: node.contact_points(), keyspace: keyspace.to_owned(), ..Config::default() }
}

/// The number in the environment variable `PLUMBAGO_FIGURES_<of>`, or `usual`.
fn amount(of: &str, usual: usize) -> usize {
    number(&format!("PLUMBAGO_FIGURES_{of}")).unwrap_or(usual)
}

/// Number of rows that the server has not acknowledged yet.
fn unsent(daemon: &Daemon) -> u64 {
    daemon.counters().sum("plumbago_spool_pending_rows")
}

/// Wall time of some work, and the processor time that a process used meanwhile, both in seconds.
struct Took {
    seconds: f64,
    cpu: f64,
}

fn took(process: u32, work: impl FnOnce()) -> Took {
    let (start, before) = (Instant::now(), cpu_of(process));
    work();
    Took { seconds: start.elapsed().as_secs_f64(), cpu: cpu_of(process) - before }
}

fn heading(what: &str) {
    println!("\n{what}\n{:<52} {:>12} {:>16}", "", "per second", "CPU s a million");
}

fn show(what: &str, amount: usize, took: &Took) {
    let (rate, cpu) = (amount as f64 / took.seconds, took.cpu / amount as f64 * 1e6);
    println!("{what:<52} {rate:>12.0} {cpu:>16.2}");
}

fn median_and_worst(times: &mut [f64]) -> (f64, f64) {
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() - 1])
}
