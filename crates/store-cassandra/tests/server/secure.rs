//! Tests of passwords, TLS and rights, on a node that only these tests use.

use std::sync::Arc;

use plumbago_cassandra_node::{Node, Options, server};
use plumbago_model::{Aggregation, MetricId, Stage, SystemClock};
use plumbago_store::{
    ErrorKind, MetadataStore, PointStore, ReadRequest, RowCount, Run, SlotRange, WriteBatch, WriterIdentity,
};
use plumbago_store_cassandra::{CassandraStore, Config};
use plumbago_telemetry::Registry;
use plumbago_tests::wait::{HANG, eventually};
use tokio::time::timeout;

use crate::common::{Keyspace, now};

fn connect(config: &Config) -> CassandraStore {
    CassandraStore::connect(config, WriterIdentity::new(0, 0), Arc::new(SystemClock), &Registry::new())
        .unwrap()
}

/// Waits until connecting fails with this reason.
async fn stays_out(config: &Config, reason: &str) {
    let store = connect(config);
    let refused = || store.trouble().is_some_and(|trouble| trouble.contains(reason));
    eventually(&format!("a refusal because of {reason:?}"), refused).await;
    let error = store.get(&["a"]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "points wait until the operator has corrected it");
}

#[tokio::test(flavor = "multi_thread")]
async fn passwords_tls_and_rights() {
    let options = Options {
        heap_mib: 320,
        sasi: false,
        authentication: true,
        tls: true,
        stays_up: true,
        ..Options::default()
    };
    let Some(cluster) = server::cluster_for_test(1, &options) else { return };
    passwords_and_tls(&cluster.nodes()[0]).await;
    a_right_that_is_lost_for_one_table(&cluster.nodes()[0]).await;
}

async fn passwords_and_tls(node: &Node) {
    let mut config = Config { contact_points: vec![node.contact_point()], ..Config::default() };
    config.username = "cassandra".to_owned();
    config.password = "cassandra".to_owned();
    config.tls.enabled = true;
    config.tls.ca = node.certificate();
    let store = connect(&config);
    store.wait().await.unwrap();
    assert!(store.live_schema().await.unwrap().keyspaces.is_empty());

    let wrong = Config { password: "wrong".to_owned(), ..config.clone() };
    stays_out(&wrong, "incorrect").await;
    // The node's certificate is not signed by an authority that this client trusts.
    let mut wrong = config.clone();
    wrong.tls.ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/other-authority.pem").into();
    stays_out(&wrong, "certificate").await;
}

/// A raw slot and a window of a metric.
fn slot_and_window() -> WriteBatch {
    let mut batch = WriteBatch::default();
    for (stage_index, stage) in
        [(0, Stage { resolution: 60, points: 1440 }), (1, Stage { resolution: 3600, points: 720 })]
    {
        let run = Run {
            id: MetricId::of("rights"),
            stage,
            stage_index,
            aggregation: Aggregation::Average,
            first_slot: now() / stage.resolution - 1,
            len: 0,
            at: 0,
            whole: false,
        };
        batch.push(run, &[1.0], Some(&[RowCount::new(1)]));
    }
    batch
}

/// The role loses the right to write one table. Its rows are refused at once and the table is named. It can still be
/// read, and the rows of another table on the same replicas are written.
async fn a_right_that_is_lost_for_one_table(node: &Node) {
    let mut keyspace = Keyspace::on(&node.contact_point(), "rights");
    let points = keyspace.config.keyspace.clone();
    let role = |config: &mut Config, name: &str| {
        (config.username, config.password) = (name.to_owned(), name.to_owned());
    };
    role(&mut keyspace.config, "cassandra");
    keyspace.sync(&keyspace.store().await, &["60s:1d,3600s:30d"]).await;
    let raw = format!("\"{points}\".datapoints_1440p_60s_0");
    let mut cql = node.connect().unwrap();
    for text in [
        "CREATE ROLE limited WITH LOGIN = true AND PASSWORD = 'limited'".to_owned(),
        format!("GRANT SELECT ON KEYSPACE \"{points}\" TO limited"),
        format!("GRANT MODIFY ON TABLE \"{points}\".datapoints_720p_3600s_aggr TO limited"),
        format!("GRANT MODIFY ON TABLE {raw} TO limited"),
    ] {
        cql.query(&text).unwrap();
    }
    role(&mut keyspace.config, "limited");
    let store = keyspace.store().await;
    let (batch, writer) = (slot_and_window(), store.writer());
    let write = || writer.write_runs_at(&batch, writer.next_timestamp_us());
    write().await.unwrap();

    cql.query(&format!("REVOKE MODIFY ON TABLE {raw} FROM limited")).unwrap();
    // The server keeps rights in a cache for a while.
    let revoked = async { while write().await.is_ok() {} };
    timeout(HANG, revoked).await.unwrap();
    // More failures than it takes for replicas to count as dead.
    for _ in 0..20 {
        let refusal = write().await.unwrap_err();
        assert_eq!((refusal.error.kind, refusal.runs.as_slice()), (ErrorKind::Invalid, &[0][..]));
        assert!(!refusal.is_known_down, "{:?}", refusal.error);
    }
    let refused = writer.refused_tables();
    assert!(refused.len() == 1 && refused[0].1.contains("MODIFY"), "{refused:?}");
    let run = batch.runs[0];
    let range = SlotRange {
        id: run.id,
        stage: run.stage,
        stage_index: 0,
        aggregation: run.aggregation,
        from: run.first_slot,
        until: run.first_slot + 1,
    };
    let request = ReadRequest { ranges: vec![range], ..ReadRequest::default() };
    assert_eq!(store.read(&request).await.unwrap()[0].values, [1.0]);

    cql.query(&format!("GRANT MODIFY ON TABLE {raw} TO limited")).unwrap();
    let granted = async {
        while write().await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    timeout(HANG, granted).await.unwrap();
    assert!(writer.refused_tables().is_empty());
}
