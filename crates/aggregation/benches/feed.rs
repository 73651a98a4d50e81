//! What aggregation costs per point: `cargo bench -p plumbago-aggregation`.

#![allow(missing_docs, clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use plumbago_aggregation::{Aggregation, AggregationParts, Config};
use plumbago_model::{ManualClock, PointBatch};
use plumbago_telemetry::Registry;

const POINTS: u32 = 1000;
/// How often the points are fed.
const ROUNDS: u32 = 20;
const NOW: u32 = 1_700_000_000;

/// Points of a thousand names, whose times lie within this many seconds.
fn batch(seconds: u32) -> PointBatch {
    let mut batch = PointBatch::with_capacity(POINTS as usize);
    for n in 0..POINTS {
        let name = format!("servers.web{:03}.cpu.{}.percent", n / 10, n % 10);
        batch.push(&name, NOW - n * 37 % seconds, f64::from(n) / 8.0);
    }
    batch
}

fn open(dir: &Path, rules: &str) -> Aggregation {
    let file = dir.join("aggregation-rules.conf");
    std::fs::write(&file, rules).unwrap();
    let config = Config { rules: file, ..Config::default() };
    let parts = AggregationParts {
        dir: &dir.join("log"),
        journal: &plumbago_journal::Config::default(),
        clock: Arc::new(ManualClock::at(i64::from(NOW))),
        registry: &Registry::new(),
    };
    Aggregation::open(&config, parts).unwrap()
}

fn rules(count: usize, input: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "out{n}.<host> (60) = sum {}", input(n));
        text
    })
}

/// Rules of all methods that take every point. One half makes a metric for all hosts, one half a metric for each.
fn rules_of_all_methods(count: usize) -> String {
    let methods = ["sum", "avg", "min", "max", "count", "p50", "p75", "p80", "p90", "p95", "p99", "p999"];
    (0..count).fold(String::new(), |mut text, n| {
        let method = methods[n / 2 % methods.len()];
        let output = if n % 2 == 0 { "all" } else { "by.<host>" };
        let _ = writeln!(text, "{output}.{method}{n} (10) = {method} servers.<host>.cpu.*.percent");
        text
    })
}

fn feed(c: &mut Criterion) {
    let mut group = c.benchmark_group("aggregation");
    group.throughput(Throughput::Elements(u64::from(POINTS)));
    let points = batch(1);
    for (name, rules) in [
        ("100_rules_of_other_beginnings", rules(100, |n| format!("no{n}.<host>.cpu.*.percent"))),
        ("100_rules_of_the_same_beginning", rules(100, |n| format!("servers.<host>.no{n}.*"))),
        ("1_rule_that_matches", rules(1, |_| "servers.<host>.cpu.*.percent".to_owned())),
        ("50_rules_that_match", rules(50, |_| "servers.<host>.cpu.*.percent".to_owned())),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let aggregation = open(dir.path(), &rules);
        group.bench_function(name, |b| b.iter(|| aggregation.feed(&points)));
    }
    group.finish();
}

/// Each round begins with an empty aggregation, because percentiles keep all values.
fn feed_all_methods(c: &mut Criterion) {
    let mut group = c.benchmark_group("aggregation");
    group.sample_size(20);
    group.throughput(Throughput::Elements(u64::from(POINTS * ROUNDS)));
    let (points, rules) = (batch(100), rules_of_all_methods(50));
    let fresh = || {
        let dir = tempfile::tempdir().unwrap();
        let aggregation = open(dir.path(), &rules);
        // All names are known afterwards.
        aggregation.feed(&points);
        (dir, aggregation)
    };
    group.bench_function("50_rules_of_all_methods", |b| {
        b.iter_batched_ref(
            fresh,
            |(_, aggregation)| (0..ROUNDS).for_each(|_| drop(aggregation.feed(&points))),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, feed, feed_all_methods);
criterion_main!(benches);
