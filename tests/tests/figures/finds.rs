//! Measures globs that use the server's indexes: the daemon and BigGraphite on the same names.

use std::time::Instant;

use plumbago_cassandra_node::Cluster;
use plumbago_model::Pattern;
use plumbago_store_cassandra::find::{Limits, Want};
use plumbago_tests::biggraphite::{BigGraphite, ONE};
use plumbago_tests::daemon::Setup;
use plumbago_tests::wait::wait_until;

use super::creation::{at_rest, create, runtime, store};
use super::{amount, large_node, median_and_worst, setup};

const METRICS_PER_HOST: usize = 100;
const TRIES: usize = 15;
const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 1m:1d,1h:30d\n";

/// Metrics per host: 4 data centres, 20 racks, 5 kinds, 4 numbers, 5 values.
fn names(hosts: usize) -> Vec<String> {
    let of_host = |host: usize| {
        (0..METRICS_PER_HOST).map(move |n| {
            let (kind, number, value) = (["cpu", "disk", "net", "mem", "load"][n / 20], n / 5 % 4, n % 5);
            format!("dc{}.rack{:02}.host{host:04}.{kind}.{number}.m{value}", host % 4, host / 4 % 20)
        })
    };
    (0..hosts).flat_map(of_host).collect()
}

const GLOBS: [&str; 20] = [
    "dc1.rack02.host0009.cpu.3.m3",
    "dc1.rack02.host0009.cpu.3.*",
    "dc1.rack02.host0009.**",
    "dc1.rack02.host0009.{cpu,net}.*.m1",
    "*.*.host0009.*.*.m3",
    "*.*.host0009.cpu.*.*",
    "dc1.rack02.*.cpu.3.m3",
    "dc1.*.*.cpu.3.m3",
    "dc1.rack0*.host00*.cpu.3.m3",
    "dc1.*.host001*.cpu.3.m3",
    "*.*.host001*.cpu.3.*",
    "*.rack02.host00*.cpu.*.*",
    "dc1.*.host0*.*.*.m3",
    "*.*.*.cpu.3.m3",
    "*.rack02.*.cpu.3.m3",
    "dc1.*.host0*.{cpu,net}.3.m3",
    "*.*.host0009.**",
    "dc1.rack02.**",
    "*.*.*.*.3.m3",
    "*.rack0?.*9.*.*.m3",
];

#[test]
#[ignore = "a figure"]
fn globs_by_index_beside_biggraphite() {
    let Some(mut node) = large_node() else { return };
    let metrics = amount("FINDS", 100_000);
    let tries = (TRIES * 100_000 / metrics).clamp(3, TRIES);
    let Some(mut biggraphite) = BigGraphite::start(node.nodes()[0].socket(), "finds", 64) else { return };
    let setup = setup(&node, "finds", SCHEMAS);
    let runtime = runtime();
    let ours = store(&runtime, &node, "finds");
    create(&runtime, &ours, &names(metrics / METRICS_PER_HOST));
    // The names must be in files of the server, not in its memory, as after a long run.
    drop(ours);
    node.node(0).stop();
    node.start_all().unwrap();
    let ours = store(&runtime, &node, "finds");
    biggraphite.open(ONE, 0, None);
    println!("\n{:<36} {:>8} {:>20} {:>20}", "ms, p50 / worst", "found", "ours", "BigGraphite");
    for _ in 0..2 {
        let mut slower = Vec::new();
        for glob in GLOBS {
            let pattern = Pattern::parse(glob).unwrap();
            let mut found = 0;
            let mut times: Vec<f64> = (0..tries)
                .map(|_| {
                    let start = Instant::now();
                    let nodes = ours.find(&pattern, Want::Metrics, Limits::default());
                    found = runtime.block_on(nodes).unwrap().len();
                    start.elapsed().as_secs_f64() * 1000.0
                })
                .collect();
            let (theirs, mut their_times) = biggraphite.time_globs(ONE, &[glob], tries).remove(0);
            let (our, their) = (median_and_worst(&mut times), median_and_worst(&mut their_times));
            let differs = if theirs == found { "" } else { "  BigGraphite finds other metrics" };
            println!(
                "{glob:<36} {found:>8} {:>11.1} /{:>7.1} {:>11.1} /{:>7.1}{differs}",
                our.0, our.1, their.0, their.1
            );
            if our.0 > their.0 {
                slower.push(glob);
            }
        }
        println!("slower than BigGraphite: {slower:?}");
    }
    at_rest(&node);
    by_memory(&setup, metrics, &node);
}

/// The same globs with the index in memory, over one connection. The server is not needed for this and is paused,
/// because its threads would use the same cores.
fn by_memory(setup: &Setup, metrics: usize, server: &Cluster) {
    let daemon = setup.start();
    wait_until("the names", || daemon.counters().sum("plumbago_index_names") >= metrics as u64);
    let address = daemon.api().to_string();
    server.nodes()[0].pause();
    let ended = setup.run(&[&["bench", "find", "--addr", &address][..], &GLOBS].concat());
    server.nodes()[0].resume();
    println!("\nby the daemon's index in memory\n{}", ended.output);
    daemon.stop_well();
}
