//! Measures what the relay costs per point and destination: `cargo bench -p plumbago-relay`.

#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plumbago_model::PointBatch;
use plumbago_model::rules::RelayRules;
use plumbago_relay::Protocol;
use plumbago_relay::bench::Lane;

const POINTS: u32 = 1000;

fn batch() -> PointBatch {
    let mut batch = PointBatch::with_capacity(POINTS as usize);
    for n in 0..POINTS {
        let name = format!("servers.web{:03}.cpu.{}.percent", n / 10, n % 10);
        batch.push(&name, 1_700_000_000, f64::from(n) / 8.0);
    }
    batch
}

/// Rules that match no name of the batch, and a default.
fn rules(count: usize) -> RelayRules {
    let section = |n| format!("[r{n}]\npattern = ^no{n}\\.such\ndestinations = a:1\n");
    let sections: String = (0..count).map(section).collect();
    let text = sections + "[default]\ndefault = true\ndestinations = a:1\n";
    let (rules, problems) = RelayRules::parse(&text, &["a:1".to_owned()]);
    assert!(problems.is_empty());
    rules
}

fn relay(c: &mut Criterion) {
    let mut group = c.benchmark_group("relay");
    group.throughput(Throughput::Elements(u64::from(POINTS)));
    let points = batch();
    let mut lane = Lane::default();
    group.bench_function("to_frames", |b| {
        b.iter(|| {
            lane.add(&points);
            lane.seal()
        });
    });
    let mut out = Vec::new();
    for (name, protocol) in [("to_lines", Protocol::Line), ("to_pickles", Protocol::Pickle)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                out.clear();
                lane.write(protocol, &mut out);
                out.len()
            });
        });
    }
    let rules = rules(100);
    group.bench_function("100_rules", |b| {
        b.iter(|| points.points().iter().map(|point| rules.destinations(points.name(point))).sum::<u64>());
    });
    group.finish();
}

criterion_group!(benches, relay);
criterion_main!(benches);
