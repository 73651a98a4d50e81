//! Passwords and TLS, on a separate node.

use std::sync::Arc;

use plumbago_cassandra_node::{Options, server};
use plumbago_model::SystemClock;
use plumbago_store::{ErrorKind, MetadataStore, WriterIdentity};
use plumbago_store_cassandra::{CassandraStore, Config};
use plumbago_telemetry::Registry;
use plumbago_tests::wait::eventually;

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
async fn passwords_and_tls() {
    let options = Options { authentication: true, tls: true, ..Options::default() };
    let Some(cluster) = server::cluster_for_test(1, &options) else { return };
    let node = &cluster.nodes()[0];
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
