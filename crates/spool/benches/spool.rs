//! Measures the cost of a row in the spool: committing it, reading it, and dividing rows into calls. The
//! remote store does nothing, so its cost is not included. Run it with `cargo bench -p plumbago-spool`.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Aggregation, MetricId, Stage, SystemClock};
use plumbago_spool::{Sender, SenderConfig, Spool, SpoolConfig, SpooledStore};
use plumbago_store::{
    BlockLayout, Column, FlushBatch, FlushStore, PointStore, ReadRequest, RemotePoints, Run, SlotRange,
    StateRow, StoreError, WriteBatch, WriteLimits, WriteRefusal,
};
use plumbago_telemetry::Registry;
use tokio_util::sync::CancellationToken;

const METRICS: usize = 100_000;
const METRICS_PER_COMMIT: usize = 500;
const STATE_BYTES: usize = 150;
const STAGE: Stage = Stage { resolution: 60, points: 10_080 };

/// A remote store that only counts rows and runs.
#[derive(Debug, Default)]
struct Counting {
    rows: AtomicU64,
    runs: AtomicU64,
}

#[boxed_futures]
impl RemotePoints for Counting {
    async fn write_at(&self, batch: &WriteBatch, _: i64) -> Result<(), WriteRefusal> {
        self.rows.fetch_add(batch.known(), Ordering::Relaxed);
        self.runs.fetch_add(batch.runs.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    async fn read_own(&self, request: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let unknown = |range: &SlotRange| Column::unknown((range.until - range.from) as usize, false);
        Ok(request.ranges.iter().map(unknown).collect())
    }

    async fn delete_at(
        &self,
        _: &[(MetricId, Vec<Stage>)],
        _: &[SlotRange],
        _: i64,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn delete_ranges_at(&self, _: &[SlotRange], _: &[SlotRange], _: i64) -> Result<(), StoreError> {
        Ok(())
    }

    async fn subtract_other_writers(&self, _: &mut WriteBatch) -> Result<(), StoreError> {
        Ok(())
    }

    fn write_limits(&self) -> WriteLimits {
        WriteLimits { concurrency: 16, slots_per_call: 6000 }
    }
}

fn cpu() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

struct Bench {
    _dir: tempfile::TempDir,
    remote: Arc<Counting>,
    store: SpooledStore,
    ids: Vec<MetricId>,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let registry = Registry::new();
        let config = SpoolConfig { linger: Duration::ZERO, ..SpoolConfig::default() };
        let spool = Spool::open(dir.path(), config, Arc::new(SystemClock), &registry).unwrap();
        let remote = Arc::new(Counting::default());
        let store = SpooledStore::new(spool, remote.clone(), BlockLayout { raw_slots: 60 }, &registry);
        let mut ids: Vec<MetricId> = (0..METRICS).map(|n| MetricId::of(&format!("bench.m{n}"))).collect();
        ids.sort_unstable();
        Self { _dir: dir, remote, store, ids }
    }

    /// Commits `len` slots of every metric from the slot `first` on, in the order of ids, as the engine does.
    fn commit(&self, first: u32, len: usize) {
        for ids in self.ids.chunks(METRICS_PER_COMMIT) {
            let mut batch = FlushBatch::default();
            for id in ids {
                let values: Vec<f64> =
                    (0..len).map(|i| f64::from(first) + (i * 7 % 50) as f64 / 10.0).collect();
                let run = Run {
                    id: *id,
                    stage: STAGE,
                    stage_index: 0,
                    aggregation: Aggregation::Average,
                    first_slot: first,
                    len: 0,
                    at: 0,
                    whole: false,
                };
                batch.rows.push(run, &values, None);
                batch.states.push(StateRow { id: *id, bytes: vec![first as u8; STATE_BYTES] });
            }
            // At full speed the disk falls behind and some commits are refused for a moment. Retry, as the
            // engine does.
            while let Err(error) = self.store.commit(&batch) {
                assert!(error.is_transient(), "{error}");
            }
        }
    }

    async fn drain(&self) {
        let stop = CancellationToken::new();
        let sender = tokio::spawn(Sender::new(self.store.clone(), SenderConfig::default()).run(stop.clone()));
        while self.store.status().spool.pending_rows > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        sender.await.unwrap();
    }

    async fn read(&self, metrics: usize, slots: u32) {
        let range = |id: &MetricId| SlotRange {
            id: *id,
            stage: STAGE,
            stage_index: 0,
            aggregation: Aggregation::Average,
            from: 0,
            until: slots,
        };
        let every = METRICS / metrics;
        let request =
            ReadRequest { ranges: self.ids.iter().step_by(every).map(range).collect(), ..Default::default() };
        let known: usize = self.store.read(&request).await.unwrap().iter().map(|c| c.values.len()).sum();
        assert!(known > 0);
    }
}

async fn measure(what: &str, rows: usize, work: impl Future<Output = ()>) {
    let (start, cpu_before) = (Instant::now(), cpu());
    work.await;
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu() - cpu_before);
    let millions = rows as f64 / 1e6;
    println!(
        "{what}: {:.2} s, {:.0} rows/s, {:.3} CPU s per million rows",
        seconds,
        rows as f64 / seconds,
        cpu / millions
    );
}

async fn scenario(name: &str, rounds: u32, len: usize) {
    let bench = Bench::new();
    let rows = METRICS * len * rounds as usize;
    println!("{name}: {METRICS} metrics, {rounds} commits of {len} rows for each");
    measure("  commit", rows, async {
        for round in 0..rounds {
            bench.commit(round * len as u32, len);
        }
    })
    .await;
    let stats = bench.store.status().spool;
    println!("  {:.1} bytes a row", stats.pending_bytes as f64 / rows as f64);
    measure("  read 1000 metrics", 1000 * rounds as usize * len, bench.read(1000, rounds * len as u32)).await;
    measure("  drain", rows, bench.drain()).await;
    let (rows, runs) = (bench.remote.rows.load(Ordering::Relaxed), bench.remote.runs.load(Ordering::Relaxed));
    println!("  {:.1} rows a request", rows as f64 / runs as f64);
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        scenario("one second, flushed every minute", 2, 60).await;
        scenario("one minute, flushed every minute, an hour behind", 60, 1).await;
    });
}
