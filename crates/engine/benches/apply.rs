//! Measures how a shard applies a batch of points: looking up heads, writing the journal, filling slots,
//! folding windows and building flushes.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use plumbago_engine::bench::BenchShard;
use plumbago_model::{MetricConfig, PointBatch};

const METRICS: usize = 200_000;
const BATCH: usize = 4000;

fn batch(first: usize, timestamp: u32) -> PointBatch {
    let mut batch = PointBatch::with_capacity(BATCH);
    for metric in first..first + BATCH {
        let name = format!(
            "servers.dc{}.rack{:02}.host{:05}.cpu.{}.user",
            metric % 4,
            metric / 4000,
            metric / 8,
            metric % 8
        );
        batch.push(&name, timestamp, f64::from((metric as u32 ^ timestamp) % 1000) * 0.5);
    }
    batch
}

fn apply(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let config = MetricConfig {
        retention: "60s:7d,1h:1y".parse().expect("a retention"),
        aggregation: Default::default(),
        x_files_factor: 0.5,
    };
    let mut shard = BenchShard::new(dir.path(), config).expect("a journal");
    let mut now: i64 = 1_700_000_000;
    for first in (0..METRICS).step_by(BATCH) {
        shard.apply(batch(first, now as u32), now);
    }
    let mut group = criterion.benchmark_group("apply");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut first = 0;
    group.bench_function("known metrics in arrival order", |bencher| {
        bencher.iter_batched(
            || {
                first = (first + BATCH) % METRICS;
                if first == 0 {
                    now += 60;
                }
                (batch(first, now as u32), now)
            },
            |(batch, now)| shard.apply(batch, now),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, apply);
criterion_main!(benches);
