//! Measures a day of flushes: the cost of a commit, the bytes per point in fresh and in merged blocks, and
//! the time of reads.
//!
//! `METRICS=100000 SLOTS=1440 BLOCK=30 cargo bench -p plumbago-store-embedded --bench store`. With
//! `WRITE_ONLY=1` it stops after the flushes, for a profile.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plumbago_model::{Aggregation, ManualClock, MetricId, Stage};
use plumbago_store::{FlushBatch, FlushStore, PointStore, ReadRequest, RowCount, Run, SlotRange, StateRow};
use plumbago_store_embedded::{Config, EmbeddedStore};
use plumbago_telemetry::Registry;

mod common;

/// The daemon's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const RAW: Stage = Stage { resolution: 60, points: 10_080 };
const HOURS: Stage = Stage { resolution: 3600, points: 8760 };
/// The first slot of a day.
const START: u32 = 20_000 * 1440;

struct Metric {
    id: MetricId,
    series: common::Series,
    /// The first slot of the next block.
    next: u32,
    sum: f64,
    state: Vec<u8>,
}

fn main() {
    let number =
        |name: &str, default: u32| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let metrics = number("METRICS", 20_000);
    let slots = number("SLOTS", 1440);
    let block_slots = number("BLOCK", Config::default().block_slots);
    let effort = number("EFFORT", u32::from(Config::default().merge_effort)) as u8;
    let dir = std::env::var_os("DIR")
        .map_or_else(|| std::env::temp_dir().join("plumbago-bench-store"), PathBuf::from);
    let _ = std::fs::remove_dir_all(&dir);
    let clock = Arc::new(ManualClock::at(i64::from(START) * 60));
    let config = Config { block_slots, merge_effort: effort, ..Config::default() };
    let store = EmbeddedStore::open(&dir, config, clock.clone(), &Registry::new()).unwrap();
    println!("{metrics} metrics, {slots} slots, blocks of {block_slots}, pco at {effort}, {}", dir.display());

    let mut all: Vec<Metric> = (0..metrics).map(|n| metric(&store, n)).collect();
    all.sort_by_key(|metric| metric.id);
    write(&store, &clock, &mut all, slots);
    if std::env::var_os("WRITE_ONLY").is_some() {
        return;
    }
    println!("before compaction:");
    report(&store);
    timed("write_tables", || store.write_tables().unwrap());
    report(&store);
    reads(&store, &all, START + slots, "fresh");
    timed("merge", || println!("{:?}", store.merge_all(&mut |_| true).unwrap()));
    report(&store);
    reads(&store, &all, START + slots, "merged");
    store.close().unwrap();
    let _ = std::fs::remove_dir_all(&dir);
}

fn metric(store: &EmbeddedStore, number: u32) -> Metric {
    let id = MetricId::of(&format!("servers.host-{:05}.group{}.metric-{number}", number / 100, number % 7));
    let state = (0..120).map(|i| (number.wrapping_mul(i * 2_654_435_761) >> 13) as u8).collect();
    let next = store.layout().block_start(&id, START) as u32;
    Metric { id, series: common::Series::new(u64::from(number)), next, sum: 0.0, state }
}

/// Flushes metrics as the engine does: each when its block is full, which is in id order over the period.
fn write(store: &EmbeddedStore, clock: &ManualClock, all: &mut [Metric], slots: u32) {
    let block_slots = store.layout().raw_slots;
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let mut batch = FlushBatch::default();
    let (mut points, mut commits, mut worst) = (0_u64, 0, Duration::ZERO);
    let mut values = Vec::new();
    let end = START + slots;
    for round in 0..=slots.div_ceil(block_slots) {
        clock.set(i64::from(START + (round + 1) * block_slots) * 60);
        for chunk in all.chunks_mut(500) {
            batch.rows.clear();
            batch.states.clear();
            for metric in chunk {
                values.clear();
                values.extend((metric.next..metric.next + block_slots).map(|slot| {
                    // Only whole days are written, because partial blocks at the ends would count as rows.
                    if (START..end).contains(&slot) { metric.series.next() } else { f64::NAN }
                }));
                points += values.iter().filter(|v| !v.is_nan()).count() as u64;
                flush(metric, &values, &mut batch);
            }
            let start = Instant::now();
            store.commit(&batch).unwrap();
            worst = worst.max(start.elapsed());
            commits += 1;
        }
    }
    store.sync().unwrap();
    let (wall, cpu) = (wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    println!(
        "{points} raw points in {commits} commits: {wall:.1} s, {:.1} M points/s, {:.3} CPU s per M points (values \
         included), worst commit {worst:?}",
        points as f64 / wall / 1e6,
        cpu / (points as f64 / 1e6)
    );
}

fn flush(metric: &mut Metric, values: &[f64], batch: &mut FlushBatch) {
    let run = |stage: Stage, stage_index, first_slot| Run {
        id: metric.id,
        stage,
        stage_index,
        aggregation: Aggregation::Average,
        first_slot,
        len: 0,
        at: 0,
        whole: true,
    };
    if values.iter().any(|v| !v.is_nan()) {
        batch.rows.push(run(RAW, 0, metric.next), values, None);
    }
    let before = metric.next / 60;
    metric.sum += values.iter().filter(|v| !v.is_nan()).sum::<f64>();
    metric.next += values.len() as u32;
    if metric.next / 60 > before {
        batch.rows.push(run(HOURS, 1, before), &[metric.sum], Some(&[RowCount::new(60)]));
        metric.sum = 0.0;
    }
    batch.states.push(StateRow { id: metric.id, bytes: metric.state.clone() });
}

fn report(store: &EmbeddedStore) {
    let usage = store.usage().unwrap();
    for stage in &usage.stages {
        let merged = stage.merged_bytes as f64 / stage.merged_points.max(1) as f64;
        let fresh = stage.fresh_bytes as f64 / stage.fresh_points.max(1) as f64;
        println!(
            "  {}: {} fresh rows, {} points, {fresh:.3} B/pt; {} merged rows, {} points, {merged:.3} B/pt",
            stage.stage, stage.fresh_rows, stage.fresh_points, stage.merged_rows, stage.merged_points
        );
    }
    println!("  state rows {} MiB, logs {} MiB", usage.state_bytes >> 20, usage.log_bytes >> 20);
}

fn reads(store: &EmbeddedStore, all: &[Metric], last: u32, what: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    let range = |metric: &Metric, stage: Stage, stage_index, until: u32, len: u32| SlotRange {
        id: metric.id,
        stage,
        stage_index,
        aggregation: Aggregation::Average,
        from: until - len,
        until,
    };
    for (name, metrics, len) in [("1 h", 1, 60), ("24 h", 1, 1440), ("24 h", 1000, 1440)] {
        let mut times = Vec::new();
        let mut known = 0;
        for round in 0..200 / usize::min(metrics, 10) {
            let pick = |i: usize| &all[(round * 7919 + i * 104_729) % all.len()];
            let ranges = (0..metrics).map(|i| range(pick(i), RAW, 0, last, len)).collect();
            let request = ReadRequest { ranges, ..Default::default() };
            // Run twice: the first run warms the caches.
            for warm in [false, true] {
                let start = Instant::now();
                let columns = runtime.block_on(store.read(&request)).unwrap();
                if warm {
                    times.push(start.elapsed());
                    known = columns[0].values.iter().filter(|v| !v.is_nan()).count();
                }
            }
        }
        times.sort();
        let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("  {what}: {name} of {metrics} metrics ({known} points each): p50 {p50:?}, p99 {p99:?}");
    }
}

fn timed(what: &str, work: impl FnOnce()) {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    work();
    println!("{what}: {:.1} s, {:.1} CPU s", wall.elapsed().as_secs_f64(), cpu_seconds() - cpu);
}

/// CPU time of this process in user and system mode; Linux counts hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}
