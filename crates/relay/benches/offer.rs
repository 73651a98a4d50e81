//! What the relay costs per accepted point: `cargo bench -p plumbago-relay`.

#![expect(missing_docs, reason = "the macros of criterion")]
#![expect(clippy::unwrap_used, reason = "a benchmark")]

use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use plumbago_model::{PointBatch, SystemClock};
use plumbago_relay::{Config, Relay, RelayParts};
use plumbago_telemetry::Registry;

const POINTS: u32 = 1000;

fn batch() -> PointBatch {
    let mut batch = PointBatch::with_capacity(POINTS as usize);
    for n in 0..POINTS {
        batch.push(&format!("servers.web{:03}.cpu.{}.percent", n / 10, n % 10), 1_700_000_000, f64::from(n));
    }
    batch
}

fn open(dir: &std::path::Path, rules: &str) -> Relay {
    let mut config = Config { destinations: vec!["line://127.0.0.1:1".to_owned()], ..Config::default() };
    if !rules.is_empty() {
        config.rules = dir.join("rules.conf");
        std::fs::write(&config.rules, rules).unwrap();
    }
    let registry = Registry::new();
    let (dir, clock) = (&dir.join("relay"), Arc::new(SystemClock));
    Relay::open(&config, RelayParts { dir, min_free_bytes: 0, clock, registry: &registry }).unwrap()
}

fn rules(count: usize) -> String {
    let section = |n| format!("[r{n}]\npattern = ^no{n}\\.such\ndestinations = 127.0.0.1:1\n");
    let sections: String = (0..count).map(section).collect();
    sections + "[default]\ndefault = true\ndestinations = 127.0.0.1:1\n"
}

fn offer(c: &mut Criterion) {
    let mut group = c.benchmark_group("relay");
    group.throughput(Throughput::Elements(u64::from(POINTS)));
    let points = batch();
    for (name, rules) in [("all", String::new()), ("100_rules", rules(100))] {
        let dir = tempfile::tempdir().unwrap();
        let relay = open(dir.path(), &rules);
        group.bench_function(name, |b| {
            b.iter_batched(|| (), |()| relay.offer(&points), BatchSize::SmallInput)
        });
    }
    group.finish();
}

criterion_group!(benches, offer);
criterion_main!(benches);
