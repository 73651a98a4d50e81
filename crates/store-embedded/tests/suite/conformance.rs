//! Runs the conformance suite for stores on the embedded store: on a new store, after a merge, and after a
//! restart.

use std::sync::Arc;

use plumbago_model::{ByteSize, ManualClock};
use plumbago_store::{FlushStore, testsuite};
use plumbago_store_embedded::{Config, EmbeddedStore};
use plumbago_telemetry::Registry;

const NOW: u32 = 1_760_000_000;

/// Runs the suite without columns in memory, so that every read decodes blocks.
#[tokio::test]
async fn embedded_that_keeps_no_columns() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(i64::from(NOW)));
    let config = Config { columns_bytes: ByteSize(0), ..config(30) };
    let store = EmbeddedStore::open(dir.path(), config, clock, &Registry::new()).unwrap();
    conforms(&store).await;
}

fn config(block_slots: u32) -> Config {
    Config { block_slots, ..Config::default() }
}

fn open(dir: &std::path::Path, block_slots: u32) -> EmbeddedStore {
    let clock = Arc::new(ManualClock::at(i64::from(NOW)));
    EmbeddedStore::open(dir, config(block_slots), clock, &Registry::new()).unwrap()
}

async fn conforms(store: &EmbeddedStore) {
    testsuite::points::all(store, store.layout(), NOW).await;
    testsuite::flush::all(store, store, NOW).await;
    testsuite::metadata::all(store).await;
    testsuite::directories::rows(store, || i64::from(NOW) * 1_000_000).await;
}

#[tokio::test]
async fn embedded() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 30);
    conforms(&store).await;
    // Run the suite again over existing rows and merged layers.
    conforms(&store).await;
    store.merge_all(&mut |_| true).unwrap();
    conforms(&store).await;
    store.close().unwrap();
    drop(store);
    // With another block length, older layers keep their block length.
    let store = open(dir.path(), 11);
    conforms(&store).await;
}
