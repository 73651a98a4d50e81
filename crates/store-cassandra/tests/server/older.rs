//! Runs some of the other tests on Cassandra 4.1 and 3.11, and tests where they differ from the newest release.

use plumbago_cassandra_node::{Options, Release, server};

use crate::common::Keyspace;
use crate::{conformance, find, names, points, schema};

#[tokio::test(flavor = "multi_thread")]
async fn cassandra_4_1() {
    all_works_on(Release::V4_1, (4, 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cassandra_3_11() {
    all_works_on(Release::V3_11, (3, 11)).await;
}

async fn all_works_on(release: Release, version: (u32, u32)) {
    let options = Options { release, stays_up: true, ..Options::default() };
    let Some(cluster) = server::cluster_for_test(1, &options) else { return };
    let node = cluster.nodes()[0].contact_point();
    let keyspace = |name: &str| Keyspace::on(&node, name).kept();

    let store = keyspace("release").store().await;
    assert_eq!(store.live_schema().await.unwrap().server.version, version);
    schema::made_and_checked(keyspace("sync")).await;
    schema::nothing_expires_after_2038(keyspace("expiry")).await;
    conformance::suite(keyspace("suite")).await;
    conformance::directories(keyspace("dirs")).await;
    names::everything(keyspace("names")).await;
    points::several_writers(keyspace("points")).await;
    find::globs(keyspace("find"), 100).await;
}
