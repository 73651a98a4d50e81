//! Parts of `three_nodes`: one of three replicas misses an hour of rows and gets no hints. The values computed from the
//! rows must not depend on which replica answers.

use plumbago_cassandra_node::Cluster;
use plumbago_model::{Aggregation, MetricId, Period, Stage};
use plumbago_store::{
    Column, PointStore, ReadRequest, RemotePoints, RowCount, Run, SlotRange, WriteBatch, WriterIdentity,
};
use plumbago_store_cassandra::CassandraStore;
use plumbago_store_cassandra::config::Factor;
use plumbago_tests::wait::HANG;
use tokio::time::timeout;

use crate::common::{Keyspace, now};

const RAW: Stage = Stage { resolution: 60, points: 1440 };
const HOURS: Stage = Stage { resolution: 3600, points: 720 };
const METRICS: usize = 60;
/// Number of reads of all metrics. Each read uses other replicas.
const READS: usize = 5;

/// An hour of the metrics of one kind: 60 raw slots with the value 1, or their window.
fn hour(kind: &str, stage_index: u8, hour: u32, sum: f64) -> WriteBatch {
    let mut batch = WriteBatch::default();
    for metric in 0..METRICS {
        let (stage, first_slot) = if stage_index == 0 { (RAW, hour * 60) } else { (HOURS, hour) };
        let id = MetricId::of(&format!("levels.{kind}.{metric}"));
        let aggregation = Aggregation::Sum;
        let run = Run { id, stage, stage_index, aggregation, first_slot, len: 0, at: 0, whole: false };
        match stage_index {
            0 => batch.push(run, &[1.0; 60], None),
            _ => batch.push(run, &[sum], Some(&[RowCount::new(sum as i32)])),
        }
    }
    batch
}

async fn read(store: &CassandraStore, batch: &WriteBatch, include_retained: bool) -> Vec<Column> {
    let ranges = batch.runs.iter().map(|run| SlotRange {
        id: run.id,
        stage: run.stage,
        stage_index: run.stage_index,
        aggregation: run.aggregation,
        from: run.first_slot,
        until: run.first_slot + run.len,
    });
    let request = ReadRequest { ranges: ranges.collect(), include_retained, ..Default::default() };
    store.read(&request).await.unwrap()
}

/// Number of metrics whose column lacks a value.
fn lacking(columns: &[Column]) -> usize {
    columns.iter().filter(|column| column.values.iter().any(|value| value.is_nan())).count()
}

/// Settings for a keyspace with a replica on each node.
fn replicated(cluster: &Cluster, name: &str) -> Keyspace {
    let mut keyspace = Keyspace::on(&cluster.contact_points()[0], name);
    keyspace.config.contact_points = cluster.contact_points();
    keyspace.config.replication.data = Factor::Simple(3);
    keyspace.config.replication.metadata = Factor::Simple(3);
    keyspace
}

/// A replica that lags decides nothing. The seed decides on the names, and so on the partitions and the order of their
/// replicas.
pub async fn lagging_replica(cluster: &mut Cluster, seed: u64) {
    let keyspace = replicated(cluster, "levels");
    let store = keyspace.store_of(WriterIdentity::new(0, 800)).await;
    keyspace.sync(&store, &["60s:1d,3600s:30d"]).await;

    cluster.node(2).kill();
    let past = now() / 3600 - 2;
    let raw: Vec<WriteBatch> = (0..READS).map(|n| hour(&format!("raw{seed}.{n}"), 0, past, 0.0)).collect();
    let ours: Vec<WriteBatch> = (0..READS).map(|n| hour(&format!("sum{seed}.{n}"), 1, past, 40.0)).collect();
    for batch in raw.iter().chain(&ours) {
        let written = async {
            while store.writer().write_at(batch, store.writer().next_timestamp_us()).await.is_err() {}
        };
        timeout(HANG, written).await.unwrap();
    }
    cluster.node(2).start().unwrap();
    cluster.wait_settled().unwrap();
    // Connect after the return of the replica, so that reads can use every node.
    let other = keyspace.store_of(WriterIdentity::new(0, 80)).await;

    // Graphs are read from one replica, so the lag shows.
    let lag = async { while lacking(&read(&other, &raw[0], false).await) == 0 {} };
    timeout(HANG, lag).await.unwrap();
    // A read from several replicas repairs the rows that it finds missing, so each read uses other metrics.
    let mut wrong = 0;
    for (raw, ours) in raw.iter().zip(&ours) {
        wrong += lacking(&read(&other, raw, true).await);
        // The windows of the whole hour. The first writer has 40 slots of it.
        let mut whole = ours.clone();
        whole.values.fill(60.0);
        whole.counts.fill(RowCount::new(60));
        RemotePoints::subtract_other_writers(&other, &mut whole).await.unwrap();
        wrong += whole.values.iter().filter(|value| **value != 20.0).count();
    }
    assert_eq!(wrong, 0, "of {} answers", READS * METRICS * 2);
}

/// A replica that was away cannot bring deleted points back: nothing is deleted while it is away, and afterwards all
/// replicas know of the deletion.
pub async fn all_replicas_confirm_a_deletion(cluster: &mut Cluster) {
    let mut keyspace = replicated(cluster, "deleted");
    keyspace.config.request_timeout = Period::seconds(3);
    let store = keyspace.store().await;
    keyspace.sync(&store, &["60s:1d,3600s:30d"]).await;
    let points = hour("deleted", 0, now() / 3600 - 2, 0.0);
    store.write(&points).await.unwrap();
    let metrics: Vec<(MetricId, Vec<Stage>)> = points.runs.iter().map(|run| (run.id, vec![RAW])).collect();

    cluster.node(2).kill();
    let error = PointStore::delete(&store, &metrics).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    cluster.node(2).start().unwrap();
    cluster.wait_settled().unwrap();
    let deleted = async {
        while PointStore::delete(&store, &metrics).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    timeout(HANG, deleted).await.unwrap();
    // Each read uses one replica. A new connection knows all nodes.
    let other = keyspace.store().await;
    for _ in 0..READS {
        assert_eq!(lacking(&read(&other, &points, false).await), METRICS);
    }
}
