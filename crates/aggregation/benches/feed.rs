//! What aggregation costs per point: `cargo bench -p plumbago-aggregation`.

#![allow(missing_docs, clippy::unwrap_used)]

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plumbago_aggregation::{Aggregation, AggregationParts, Config};
use plumbago_model::{ManualClock, PointBatch};
use plumbago_telemetry::Registry;

const POINTS: u32 = 1000;
const NOW: u32 = 1_700_000_000;

fn batch() -> PointBatch {
    let mut batch = PointBatch::with_capacity(POINTS as usize);
    for n in 0..POINTS {
        let name = format!("servers.web{:03}.cpu.{}.percent", n / 10, n % 10);
        batch.push(&name, NOW, f64::from(n) / 8.0);
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

fn feed(c: &mut Criterion) {
    let mut group = c.benchmark_group("aggregation");
    group.throughput(Throughput::Elements(u64::from(POINTS)));
    let points = batch();
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

criterion_group!(benches, feed);
criterion_main!(benches);
