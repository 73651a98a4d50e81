//! Runs some of the other tests on Cassandra 4.1, and tests where it differs from the newest release.

use plumbago_cassandra_node::{Options, Release, server};

use crate::common::Keyspace;
use crate::{conformance, find, names, points, schema};

#[tokio::test(flavor = "multi_thread")]
async fn cassandra_4_1() {
    let options = Options { release: Release::V4_1, ..Options::default() };
    let Some(cluster) = server::cluster_for_test(1, &options) else { return };
    let node = cluster.nodes()[0].contact_point();
    let keyspace = |name: &str| Keyspace::on(&node, name);

    let store = keyspace("release").store().await;
    assert_eq!(store.live_schema().await.unwrap().server.version, (4, 1));
    schema::made_and_checked(keyspace("sync")).await;
    schema::nothing_expires_after_2038(keyspace("expiry")).await;
    conformance::suite(keyspace("suite")).await;
    conformance::directories(keyspace("dirs")).await;
    names::everything(keyspace("names")).await;
    points::several_writers(keyspace("points")).await;
    find::globs(keyspace("find"), 500).await;
}
