//! The index with many names: loading, creation, and globs of all sizes.
//!
//! `cargo bench -p plumbago-index` takes a million names; `PLUMBAGO_BENCH_NAMES=10000000` sets another
//! number. Loading, the slowest batch and percentiles have no useful mean, so they are measured once and
//! printed.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use plumbago_index::{FindLimits, Index};
use plumbago_telemetry::Registry;

const GROUPS: [(&str, usize); 9] = [
    ("cpu", 10),
    ("memory", 9),
    ("load", 3),
    ("disk-sda", 8),
    ("disk-sdb", 8),
    ("interface-eth0", 10),
    ("interface-eth1", 10),
    ("tcpconns", 6),
    ("processes", 3),
];
const REGIONS: [&str; 6] = ["eu-west-1", "eu-west-2", "eu-east-1", "us-west-1", "us-east-1", "ap-south-1"];
const METRICS: [&str; 10] =
    ["user", "system", "idle", "wait", "nice", "interrupt", "softirq", "steal", "used", "free"];
const LOADS: [&str; 3] = ["1m", "5m", "15m"];

/// Two thirds of the names belong to hosts with 67 metrics each, one third to applications. Names have about
/// 45 bytes and 5 or 6 components.
fn names(count: usize) -> Vec<String> {
    let mut names = Vec::with_capacity(count);
    let mut host = 0;
    while names.len() < count * 2 / 3 {
        let region = REGIONS[host % REGIONS.len()];
        for (group, metrics) in GROUPS {
            for metric in 0..metrics {
                let metric = if group == "load" { LOADS[metric] } else { METRICS[metric] };
                names.push(format!("servers.{region}.frontend-host-{host:06}.{group}.{metric}"));
            }
        }
        host += 1;
    }
    let mut instance = 0;
    while names.len() < count {
        let app = instance / 20;
        for endpoint in 0..5 {
            for metric in ["count", "errors", "p50", "p90", "p99"] {
                let instance = instance % 20;
                names.push(format!(
                    "apps.app{app:05}.instance-{instance:02}.endpoint{endpoint}.http.{metric}"
                ));
            }
        }
        instance += 1;
    }
    names.truncate(count);
    names.sort_unstable();
    names
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) * 1024
}

/// Shuffles names, in the same way in every run.
fn shuffled(names: &[String]) -> Vec<&str> {
    let mut order: Vec<(u64, &str)> = Vec::with_capacity(names.len());
    for (number, name) in names.iter().enumerate() {
        let mut x = number as u64 ^ 0x9E37_79B9_7F4A_7C15;
        for _ in 0..3 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        order.push((x, name));
    }
    order.sort_unstable();
    order.into_iter().map(|(_, name)| name).collect()
}

/// Prints p50, p99 and the maximum of many calls.
fn percentiles(label: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("{label}: p50 {:?}, p99 {:?}, slowest {:?}", at(0.5), at(0.99), at(1.0));
}

fn timed<T>(times: &mut Vec<Duration>, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    times.push(start.elapsed());
    result
}

fn load(names: &[String]) -> Index {
    let before = resident_bytes();
    let index = Index::new(&Registry::new());
    let start = Instant::now();
    index.load(names.iter().map(String::as_str));
    let seconds = start.elapsed().as_secs_f64();
    let per_name = |bytes: usize| bytes as f64 / names.len() as f64;
    println!(
        "load {} sorted names: {seconds:.2} s; {:.1} B per name by count, {:.1} by resident memory",
        names.len(),
        per_name(index.memory_bytes()),
        per_name(resident_bytes().saturating_sub(before)),
    );
    index
}

fn create(names: &[String]) {
    let index = Index::new(&Registry::new());
    let order = shuffled(names);
    let start = Instant::now();
    let mut times = Vec::new();
    for batch in order.chunks(1000) {
        timed(&mut times, || index.insert(batch.iter().copied()));
    }
    println!("create {} shuffled names: {:.2} s", names.len(), start.elapsed().as_secs_f64());
    percentiles("  batches of 1000", &mut times);
    let bytes = index.memory_bytes() as f64 / names.len() as f64;
    println!("  {bytes:.1} B per name by count");
}

/// Measures finds while another thread creates names without a pause.
fn finds_beside_creation(names: &[String]) {
    let index = Index::new(&Registry::new());
    let limits = FindLimits::default();
    let order = shuffled(names);
    let created = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (index, created) = (&index, &created);
        scope.spawn(move || {
            index.insert(order.iter().copied());
            created.store(true, Ordering::Release);
        });
        let (mut exact, mut wide) = (Vec::new(), Vec::new());
        while !created.load(Ordering::Acquire) {
            for name in names.iter().step_by(names.len() / 100) {
                timed(&mut exact, || black_box(index.find(name, &limits)).is_ok());
            }
            timed(&mut wide, || black_box(index.find("servers.*.*.load.1m", &limits)).is_ok());
        }
        percentiles("exact name while names are created", &mut exact);
        percentiles("servers.*.*.load.1m while names are created", &mut wide);
    });
}

fn single_calls(index: &Index, names: &[String]) {
    let limits = FindLimits::default();
    let order = shuffled(names);
    let mut times = Vec::new();
    for name in order.iter().take(100_000) {
        timed(&mut times, || black_box(index.find(name, &limits)).is_ok());
    }
    percentiles("exact name, random", &mut times);
    times.clear();
    for name in order.iter().take(100_000) {
        let parent = name.rsplit_once('.').map_or("", |(parent, _)| parent);
        let pattern = format!("{parent}.*");
        timed(&mut times, || black_box(index.find(&pattern, &limits)).is_ok());
    }
    percentiles("children of a directory, random", &mut times);
    times.clear();
    for round in 0..100 {
        let new: Vec<String> =
            (0..1000).map(|n| format!("servers.eu-west-1.new-{round}-{}.cpu.m{}", n / 50, n % 50)).collect();
        timed(&mut times, || index.insert(new.iter().map(String::as_str)));
        for name in &new {
            index.remove(name);
        }
    }
    percentiles("1000 new names, host by host", &mut times);
    times.clear();
    for (round, names) in order.chunks(1000).take(100).enumerate() {
        let new: Vec<String> = names.iter().map(|name| format!("{name}-{round}")).collect();
        timed(&mut times, || index.insert(new.iter().map(String::as_str)));
        for name in &new {
            index.remove(name);
        }
    }
    percentiles("1000 new names, anywhere", &mut times);
}

fn globs(criterion: &mut Criterion) {
    let count = std::env::var("PLUMBAGO_BENCH_NAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let names = names(count);
    let bytes: usize = names.iter().map(String::len).sum();
    println!("{count} names of {:.1} bytes", bytes as f64 / count as f64);
    let index = load(&names);
    single_calls(&index, &names);
    create(&names);
    finds_beside_creation(&names);
    let limits = FindLimits { results_max: usize::MAX, visited_max: usize::MAX };
    let exact = &names[count / 3];
    let mut group = criterion.benchmark_group("find");
    for pattern in [
        "*",
        "servers.*",
        exact.as_str(),
        "servers.eu-west-1.frontend-host-000006.*",
        "servers.eu-west-1.frontend-host-00*.cpu.user",
        "servers.*.frontend-host-0000[0-9]?.load.1m",
        "apps.app00[12]*.*.endpoint?.http.p99",
        "servers.*.*.load.1m",
        "*.*.*.load.1m",
        "*.*.*.*.p99",
        "{servers,apps}.*.*.{load,cpu}.{1m,user}",
        "servers.{eu-west-1,eu-west-2}.*.*.*",
        "servers.*.*.{cpu,memory,load}.*",
        "servers.**.1m",
    ] {
        let hits = index.find(pattern, &limits).map_or(0, |nodes| nodes.len());
        let mut times = Vec::new();
        for _ in 0..31 {
            let _ = timed(&mut times, || black_box(index.find(pattern, &limits)));
        }
        // The fastest run is the best measure if other programs use the processor.
        let fastest = times.iter().min().copied().unwrap_or_default();
        println!("{pattern}: {hits} hits, fastest of {} {fastest:?}", times.len());
        group.bench_function(pattern, |bencher| bencher.iter(|| index.find(black_box(pattern), &limits)));
        if hits > 1000 {
            let name = format!("{pattern} (streamed)");
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    let mut bytes = 0;
                    let result = index.find_each(pattern, &limits, &mut |node| bytes += node.path.len());
                    result.map(|()| bytes)
                });
            });
        }
    }
    group.finish();
    criterion.bench_function("for_each", |bencher| {
        bencher.iter(|| {
            let mut bytes = 0;
            index.for_each(&mut |name| bytes += name.len());
            bytes
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    targets = globs
}
criterion_main!(benches);
