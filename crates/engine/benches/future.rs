//! Measures how long it takes to build state rows while the list of future points is full, which a sender
//! with a wrong clock can cause.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plumbago_engine::bench::BenchShard;
use plumbago_model::{MetricConfig, PointBatch};

/// Number of future points that one shard keeps.
const FUTURE_POINTS: usize = 65_536;
const METRICS: usize = 8192;
/// Number of metrics flushed in one round.
const FLUSHED: usize = 1000;

/// A batch with one point of each metric.
fn batch(timestamp: i64) -> PointBatch {
    let mut batch = PointBatch::with_capacity(METRICS);
    for metric in 0..METRICS {
        batch.push(&format!("servers.host{metric:05}.cpu.user"), timestamp as u32, 1.0);
    }
    batch
}

fn future(criterion: &mut Criterion) {
    let now: i64 = 1_700_000_000;
    let mut group = criterion.benchmark_group("state rows");
    group.throughput(Throughput::Elements(FLUSHED as u64));
    for future_points in [0, FUTURE_POINTS] {
        let dir = tempfile::tempdir().expect("a directory");
        let config = MetricConfig {
            retention: "60s:7d,1h:1y".parse().expect("a retention"),
            aggregation: Default::default(),
            x_files_factor: 0.5,
        };
        let mut shard = BenchShard::new(dir.path(), config).expect("a journal");
        shard.apply(batch(now), now);
        for hour in 1..=future_points / METRICS {
            shard.apply(batch(now + 3600 * hour as i64), now);
        }
        group.bench_function(format!("with {future_points} future points"), |bencher| {
            bencher.iter(|| shard.checkpoint(FLUSHED as u32));
        });
    }
    group.finish();
}

criterion_group!(benches, future);
criterion_main!(benches);
