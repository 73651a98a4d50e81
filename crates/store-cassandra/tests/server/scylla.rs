//! The store on the stand-in for ScyllaDB, which accepts only the statements that ScyllaDB accepts and answers in the
//! same form.

use plumbago_cassandra_node::NodeError;
use plumbago_cassandra_node::cql::Connection;
use plumbago_cassandra_node::scylla::StandIn;
use plumbago_store_cassandra::config::Indexes;
use plumbago_store_cassandra::schema::Compression;
use plumbago_store_cassandra::schema::ddl::Engine;

use crate::common::{Keyspace, tables};
use crate::{conformance, names, points};

#[tokio::test(flavor = "multi_thread")]
async fn every_statement_suits_scylladb() {
    let Some(started) = StandIn::for_test() else { return };
    let stand_in = started.unwrap();
    let refused = Connection::open(stand_in.address(), None)
        .and_then(|mut cql| cql.query("ALTER TABLE system.local WITH read_repair = 'NONE'"))
        .unwrap_err();
    assert!(matches!(&refused, NodeError::Cql { code: 0x2000, .. }), "the stand-in is in place: {refused}");

    let node = stand_in.address().to_string();
    made_without_sasi(Keyspace::on(&node, "sync")).await;
    conformance::suite(Keyspace::on(&node, "suite")).await;
    names::everything(Keyspace::on(&node, "names")).await;
    points::several_writers(Keyspace::on(&node, "points")).await;
}

async fn made_without_sasi(mut keyspace: Keyspace) {
    keyspace.config.indexes = Indexes::Sasi;
    let store = keyspace.store().await;
    let server = store.live_schema().await.unwrap().server;
    assert_eq!((server.engine, server.version), (Engine::Scylla, (3, 0)));

    let wanted = tables(&["60s:7d,900s:2y"]);
    let plan = store.plan_sync(&wanted, None).await.unwrap();
    assert!(plan.notes.iter().any(|note| note.contains("SASI")), "{:?}", plan.notes);
    store.sync(&plan, &mut |_| {}).await.unwrap();
    let report = store.check(&wanted).await.unwrap();
    assert_eq!(report.fatal().count(), 0, "{:?}", report.differences);
    assert!(report.features.leases && report.features.changes && !report.features.sasi);
    let refused = store.plan_sync(&wanted, Some(Compression::Zstd)).await.unwrap_err();
    assert!(refused.source.as_ref().unwrap().to_string().contains("cqlsh"), "{refused:?}");
    keyspace.drop().await;
}
