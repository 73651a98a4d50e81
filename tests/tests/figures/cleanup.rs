//! Measures the clean-up of a million directories, 99 percent of which are empty.

use std::time::Instant;

use plumbago_cassandra_node::Cluster;
use plumbago_tests::daemon::Setup;

use super::bare::Bare;
use super::creation::metric_config;
use super::{amount, config, large_node, setup};

/// One directory in this many has a metric.
const USED_OF: usize = 100;
const KEYSPACE: &str = "cleanup";

fn directories(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("dc1.app{:05}.instance{:02}", n / USED_OF, n % USED_OF)).collect()
}

#[test]
#[ignore = "a figure"]
fn a_million_directories() {
    let Some(node) = large_node() else { return };
    let mut setup = setup(&node, KEYSPACE, "[all]\npattern = .*\nretentions = 1m:1d\n");
    let directories = directories(amount("DIRECTORIES", 1_000_000));
    let used: Vec<String> = directories.iter().step_by(USED_OF).map(|above| format!("{above}.m")).collect();
    let begun = Instant::now();
    let bare = Bare::connect(&node, config(&node, KEYSPACE));
    bare.directories(&directories);
    bare.names(&used, &metric_config());
    let (all, used) = (directories.len(), used.len());
    println!(
        "\n{all} directories made in {:.0} s, {used} of them with a metric",
        begun.elapsed().as_secs_f64()
    );

    // The directories are younger than `grace`, but nothing else writes here.
    setup.set("maintenance.grace", "0s");
    run(&setup, &["clean", "--dry-run", "--rate", "0"], all);
    assert_eq!(count(&node), all);
    run(&setup, &["clean", "--rate", "0"], all);
    assert_eq!(count(&node), used, "those with a metric, and no others");
    run(&setup, &["clean", "--rate", "0"], used);
    assert_eq!(count(&node), used);
}

fn run(setup: &Setup, arguments: &[&str], directories: usize) {
    let begun = Instant::now();
    let mut child = setup.command(arguments).spawn().unwrap();
    let mut peak = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        peak = peak.max(peak_kib(child.id()).unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    assert!(status.success(), "{status}");
    let seconds = begun.elapsed().as_secs_f64();
    let rate = directories as f64 / seconds;
    println!("{arguments:?}: {seconds:.0} s, {rate:.0} directories/s, at most {} MiB", peak / 1024);
}

fn peak_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.trim().parse().ok())
}

/// Number of directories of three components on the server.
fn count(node: &Cluster) -> usize {
    let mut cql = node.nodes()[0].connect().unwrap();
    let mut found = 0;
    // In parts, so that each answer stays small.
    const PARTS: i128 = 256;
    let edge = |part: i128| i128::from(i64::MIN) + (1_i128 << 64) * part / PARTS;
    for part in 0..PARTS {
        let (first, last) = (edge(part) as i64, (edge(part + 1) - 1) as i64);
        let within = format!("token(name) >= {first} AND token(name) <= {last}");
        let rows =
            cql.query(&format!("SELECT name FROM {KEYSPACE}_metadata.directories WHERE {within}")).unwrap();
        found += rows.texts().iter().filter(|name| name.split('.').count() == 3).count();
    }
    found
}
