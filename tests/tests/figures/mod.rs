//! Figures, not tests: how fast and how cheap, on one real node and its clients on this machine, beside
//! BigGraphite and beside a bare loop over the driver. Each takes minutes and wants the machine for
//! itself, so ordinary runs leave them out:
//!
//! ```sh
//! cargo build --release --locked -p plumbago
//! PLUMBAGO_BIN=$PWD/target/release/plumbago cargo test --workspace --profile ci --locked \
//!     --test system -- figures --ignored --nocapture --test-threads 1
//! ```
//!
//! `PLUMBAGO_FIGURES_NAMES` and `PLUMBAGO_FIGURES_DIRECTORIES` ask for other amounts than a million,
//! `PLUMBAGO_FIGURES_FINDS` for other names to find than a hundred thousand.
//! `docs/measurements.md` has what came out. The daemon is the binary named; what is measured of the
//! store as a library has the optimisation of the tests.

mod bare;
mod cleanup;
mod creation;
mod finds;
mod points;
mod reads;

use std::time::Instant;

use plumbago_cassandra_node::server;
use plumbago_cassandra_node::{Cluster, Options};
use plumbago_store_cassandra::Config;
use plumbago_tests::daemon::{Daemon, Setup};

/// A node as for production, but for its size.
fn node() -> Option<Cluster> {
    node_of(2048)
}

/// One that can hold the indexes of a million new names: with less it runs out of memory.
fn large_node() -> Option<Cluster> {
    node_of(6144)
}

fn node_of(heap_mib: u32) -> Option<Cluster> {
    server::cluster_for_test(1, &Options { heap_mib, quick: false, ..Options::default() })
}

/// A daemon's set-up on a keyspace of the node, whose tables are made.
fn setup(node: &Cluster, keyspace: &str, schemas: &str) -> Setup {
    let mut setup = Setup::alone();
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

/// What the environment says, or so many.
fn amount(of: &str, usual: usize) -> usize {
    std::env::var(format!("PLUMBAGO_FIGURES_{of}")).map_or(usual, |given| given.parse().unwrap())
}

/// Rows that the server has still to get.
fn unsent(daemon: &Daemon) -> u64 {
    daemon.counters().sum("plumbago_spool_unsent_rows")
}

/// Processor seconds of a process so far.
fn cpu_of(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// What some work took: wall time, and the processor time of a process.
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
