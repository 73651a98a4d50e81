//! Tests with three nodes and one copy of each row: without one of the nodes, a third of the rows is
//! unavailable.

use std::time::{Duration, Instant};

use plumbago_cassandra_node::{Options, server};
use plumbago_model::{Aggregation, MetricId, Period, Stage};
use plumbago_store::{Run, WriteBatch};
use plumbago_store_cassandra::CassandraStore;
use plumbago_tests::rounds::seeds;
use plumbago_tests::wait::HANG;
use tokio::time::timeout;

use crate::common::{Keyspace, now};

const RAW: Stage = Stage { resolution: 60, points: 1440 };
const METRICS: usize = 300;
const SLOTS: u32 = 50;
/// Number of writes whose total time is measured.
const WRITES: u32 = 20;

/// The seed decides on the names, and so on the partitions and their nodes.
fn batch(seed: u64) -> WriteBatch {
    let mut batch = WriteBatch::default();
    for metric in 0..METRICS {
        let run = Run {
            id: MetricId::of(&format!("ranges.{seed}.{metric}")),
            stage: RAW,
            stage_index: 0,
            aggregation: Aggregation::Average,
            first_slot: now() / 60 - SLOTS,
            len: 0,
            at: 0,
            whole: false,
        };
        batch.push(run, &[metric as f64; SLOTS as usize], None);
    }
    batch
}

/// Writes the batch [`WRITES`] times. Returns the total time, and the runs that the last write refused.
async fn timed(store: &CassandraStore, batch: &WriteBatch) -> (Duration, Vec<usize>) {
    let (start, writer) = (Instant::now(), store.writer());
    let mut refused = Vec::new();
    for _ in 0..WRITES {
        let written = writer.write_runs_at(batch, writer.next_timestamp_us()).await;
        refused = written.err().map_or_else(Vec::new, |refusal| refusal.runs);
    }
    (start.elapsed(), refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_dead_node_are_refused_at_once() {
    for seed in seeds(1, 1) {
        dead_node(seed).await;
    }
}

async fn dead_node(seed: u64) {
    let options = Options { heap_mib: 320, sasi: false, ..Options::default() };
    let Some(mut cluster) = server::cluster_for_test(3, &options) else { return };
    let mut keyspace = Keyspace::on(&cluster.contact_points()[0], "ranges");
    keyspace.config.contact_points = cluster.contact_points();
    keyspace.config.request_timeout = Period::seconds(3);
    let store = keyspace.store().await;
    keyspace.sync(&store, &["60s:1d"]).await;
    let batch = batch(seed);
    let (_, refused) = timed(&store, &batch).await;
    assert_eq!(refused, [0_usize; 0]);
    let (before, _) = timed(&store, &batch).await;

    cluster.node(2).kill();
    let writer = store.writer();
    let dead = async {
        loop {
            let refusal = writer.write_runs_at(&batch, writer.next_timestamp_us()).await.unwrap_err();
            if refusal.is_known_down {
                break refusal.runs;
            }
        }
    };
    let dead = timeout(HANG, dead).await.unwrap();
    assert!(!dead.is_empty() && dead.len() < METRICS, "{} of {METRICS}", dead.len());
    let (after, refused) = timed(&store, &batch).await;
    assert_eq!(refused, dead, "only rows of the dead node are refused");
    let rate = |metrics: usize, time: Duration| {
        (metrics * SLOTS as usize * WRITES as usize) as f64 / time.as_secs_f64()
    };
    let (all, live) = (rate(METRICS, before), rate(METRICS - dead.len(), after));
    eprintln!("rows a second: {all:.0} with three nodes, {live:.0} to two of them");

    cluster.node(2).start().unwrap();
    let written = async {
        while writer.write_runs_at(&batch, writer.next_timestamp_us()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(HANG, written).await.unwrap();
}
