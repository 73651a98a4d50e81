//! A part of `three_nodes`: there is one copy of each row, so without one of the nodes a third of the rows is
//! unavailable.

use std::time::{Duration, Instant};

use plumbago_cassandra_node::Cluster;
use plumbago_model::{Aggregation, MetricId, Period, Stage};
use plumbago_store::{Run, WriteBatch};
use plumbago_store_cassandra::CassandraStore;
use plumbago_tests::wait::HANG;
use tokio::time::timeout;

use crate::common::{Keyspace, now};

const RAW: Stage = Stage { resolution: 60, points: 1440 };
const METRICS: usize = 300;
const SLOTS: u32 = 50;
/// Number of writes whose total time is measured.
const WRITES: u32 = 3;

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

/// The rows of a dead node are refused at once, the others are written.
pub async fn dead_node(cluster: &mut Cluster, seed: u64) {
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
