//! Measures the cost of a point in the journal: appending, writing and replaying.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plumbago_journal::{Config, Journal, JournalWriter, Record};
use plumbago_model::ManualClock;
use plumbago_telemetry::Registry;

/// Number of points in a full frame.
const FRAME: u32 = 4094;
/// Number of points in a frame at 50,000 points a second and a write every 10 ms.
const PACED: u32 = 500;
const REPLAYED: u32 = 8_000_000;
const DROP_EVERY: u32 = 20_000_000;

struct Bench {
    _dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    journal: Journal,
    written: u32,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(1_700_000_100));
        let journal = Journal::open(dir.path(), Config::default(), clock.clone(), &Registry::new()).unwrap();
        Self { _dir: dir, clock, journal, written: 0 }
    }

    fn write_out(&mut self, writer: &mut JournalWriter) {
        self.written += writer.write_out().unwrap() as u32;
        if self.written > DROP_EVERY {
            self.written = 0;
            self.clock.advance(300);
            writer.write_out().unwrap();
            self.journal.drop_before(self.journal.current_segment()).unwrap();
        }
    }
}

#[inline]
fn append(writer: &mut JournalWriter, points: u32) {
    for i in 0..points {
        writer.point(i.wrapping_mul(2_654_435_761), 1_700_000_000 + i, f64::from(i) * 0.1);
    }
}

fn appending(c: &mut Criterion) {
    let mut group = c.benchmark_group("journal");
    group.measurement_time(Duration::from_secs(4)).sample_size(20);
    group.throughput(Throughput::Elements(u64::from(FRAME)));
    let mut bench = Bench::new();
    let mut writer = bench.journal.writer();
    group.bench_function("append only", |b| {
        b.iter_custom(|rounds| {
            let mut spent = Duration::ZERO;
            for _ in 0..rounds {
                let start = Instant::now();
                append(&mut writer, FRAME);
                spent += start.elapsed();
                bench.write_out(&mut writer);
            }
            spent
        });
    });
    for (name, points) in
        [("append and write, full frames", FRAME), ("append and write, paced frames", PACED)]
    {
        group.throughput(Throughput::Elements(u64::from(points)));
        group.bench_function(name, |b| {
            b.iter(|| {
                append(&mut writer, points);
                bench.write_out(&mut writer);
            });
        });
    }
    group.finish();
}

fn replaying(c: &mut Criterion) {
    let mut group = c.benchmark_group("journal");
    group.sample_size(10);
    let bench = Bench::new();
    let mut writers = [bench.journal.writer(), bench.journal.writer()];
    for round in 0..REPLAYED / PACED {
        let writer = &mut writers[round as usize % 2];
        append(writer, PACED);
        writer.write_out().unwrap();
        if round % 4000 == 0 {
            bench.clock.advance(300);
        }
    }
    group.throughput(Throughput::Elements(u64::from(REPLAYED)));
    group.bench_function("replay", |b| {
        b.iter(|| {
            let mut sum = 0.0;
            let report = bench
                .journal
                .replay(&mut |record| {
                    if let Record::Point { metric, value, .. } = record {
                        sum += value + f64::from(metric);
                    }
                })
                .unwrap();
            assert_eq!(report.points, u64::from(REPLAYED));
            black_box(sum)
        });
    });
    group.finish();
}

criterion_group!(benches, appending, replaying);
criterion_main!(benches);
