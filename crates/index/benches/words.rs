//! Searches by words, and pages of directories, with many names. Percentiles are measured and printed.
//!
//! `cargo bench -p plumbago-index --bench words` takes a million names; `PLUMBAGO_BENCH_NAMES=10000000` sets
//! another number.

use std::hint::black_box;
use std::time::{Duration, Instant};

use plumbago_index::Index;
use plumbago_telemetry::Registry;

const METRICS: [&str; 10] =
    ["user", "system", "idle", "wait", "nice", "interrupt", "softirq", "steal", "used", "free"];
const GROUPS: [&str; 7] =
    ["cpu", "memory", "disk-sda", "disk-sdb", "interface-eth0", "tcpconns", "processes"];
const REGIONS: [&str; 4] = ["eu-west-1", "eu-east-1", "us-west-1", "ap-south-1"];
const RESULTS: usize = 100;

/// Hosts with 70 metrics each.
fn names(count: usize) -> Vec<String> {
    let name = |number: usize| {
        let (host, group, metric) = (number / 70, number / 10 % 7, number % 10);
        let region = REGIONS[host % REGIONS.len()];
        format!("servers.{region}.frontend-Host-{host:06}.{}.{}", GROUPS[group], METRICS[metric])
    };
    (0..count).map(name).collect()
}

fn percentiles(label: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("{label}: p50 {:?}, p99 {:?}, slowest {:?}", at(0.5), at(0.99), at(1.0));
}

fn measure(index: &Index, label: &str, queries: &[String]) {
    let mut times = Vec::new();
    for query in queries.iter().cycle().take(300) {
        let start = Instant::now();
        black_box(index.search_words(query, RESULTS, usize::MAX)).ok();
        times.push(start.elapsed());
    }
    percentiles(label, &mut times);
}

fn main() {
    let count = std::env::var("PLUMBAGO_BENCH_NAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let mut names = names(count);
    for order in ["sorted", "as they come"] {
        if order == "sorted" {
            names.sort_unstable();
        } else {
            // Metric by metric: every directory grows all the time.
            names.sort_unstable_by_key(|name| name.bytes().rev().collect::<Vec<u8>>());
        }
        let index = Index::new(&Registry::new());
        index.insert(names.iter().map(String::as_str));
        println!("{count} names, inserted {order}");
        let hosts: Vec<String> = (0..50).map(|n| format!("host-{:06}", n * count / 3500)).collect();
        let pairs: Vec<String> = hosts.iter().map(|host| format!("CPU {host} user")).collect();
        let all = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        measure(&index, "one word that is rare", &hosts);
        measure(&index, "three words", &pairs);
        measure(&index, "one word that is everywhere", &all(&["s", "cpu", "user", "eu"]));
        measure(&index, "words with dots and globs", &all(&["cpu.us*", "host-0000?1 us", "eu-*.*.cpu"]));
        measure(&index, "nothing found", &all(&["zzz", "cpu zzz"]));
        let mut times = Vec::new();
        for _ in 0..100 {
            let start = Instant::now();
            black_box(index.list_children("", "", (0, 200), usize::MAX)).ok();
            times.push(start.elapsed());
        }
        percentiles("the root with its count", &mut times);
    }
    let wide = Index::new(&Registry::new());
    let children: Vec<String> = (0..100_000).map(|n| format!("wide.child-{n:06}.value")).collect();
    wide.insert(children.iter().map(String::as_str));
    let mut times = Vec::new();
    for page in 0..200 {
        let start = Instant::now();
        black_box(wide.list_children("wide", "", (page * 500, 500), usize::MAX)).ok();
        times.push(start.elapsed());
    }
    percentiles("a page of a directory of 100,000", &mut times);
}
