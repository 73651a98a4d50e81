//! Passwords and TLS, on a node of its own.

use std::sync::Arc;
use std::time::Duration;

use plumbago_cassandra_node::{Options, server};
use plumbago_model::SystemClock;
use plumbago_store::{ErrorKind, MetadataStore};
use plumbago_store_cassandra::{CassandraStore, Config, Identity};
use plumbago_telemetry::Registry;

fn connect(config: &Config) -> CassandraStore {
    CassandraStore::connect(config, Identity::new(0, 0), Arc::new(SystemClock), &Registry::new()).unwrap()
}

/// Waits a moment for what must not happen.
async fn stays_out(config: &Config) -> String {
    let store = connect(config);
    let waited = tokio::time::timeout(Duration::from_secs(3), store.wait()).await;
    assert!(waited.is_err(), "it was let in");
    let error = store.get(&["a"]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "points wait until somebody puts it right");
    store.trouble().unwrap()
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
    let why = stays_out(&wrong).await;
    assert!(why.contains("incorrect"), "{why}");
    // A certificate that nobody we trust has signed.
    let mut wrong = config.clone();
    wrong.tls.ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/other-authority.pem").into();
    let why = stays_out(&wrong).await;
    assert!(why.contains("certificate"), "{why}");
}
