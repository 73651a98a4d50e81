//! The suite that every store passes: with a sender that sends meanwhile, with none, and with a
//! remote store that fails.
#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{MemoryRemote, TimedRemote, eventually, open_store, sender_config, spool_config};
use plumbago_model::SystemClock;
use plumbago_spooled::{RemotePoints, Sender, SpooledStore};
use plumbago_store::layer::Faults;
use plumbago_store::{FlushStore, testsuite};
use tokio_util::sync::CancellationToken;

const NOW: u32 = 1_760_000_000;

async fn conforms(store: &SpooledStore) {
    testsuite::points::all(store, store.layout(), NOW).await;
    testsuite::flush::all(store, store, NOW).await;
}

fn open(remote: Arc<dyn RemotePoints>) -> (tempfile::TempDir, SpooledStore) {
    let dir = tempfile::tempdir().unwrap();
    let store = open_store(dir.path(), spool_config(), Arc::new(SystemClock), remote);
    (dir, store)
}

/// Everything is read through the spool.
#[tokio::test(flavor = "multi_thread")]
async fn with_nothing_sent() {
    let (_dir, store) = open(TimedRemote::new(Faults::new()));
    conforms(&store).await;
    assert!(store.status().spool.unsent_rows > 1000);
}

async fn conforms_while_sending(remote: Arc<dyn RemotePoints>) {
    let (_dir, store) = open(remote);
    let stop = CancellationToken::new();
    let sender = tokio::spawn(Sender::new(store.clone(), sender_config()).run(stop.clone()));
    conforms(&store).await;
    eventually("all is sent", || store.status().spool.unsent_rows == 0).await;
    stop.cancel();
    sender.await.unwrap();
    // And once more, what was written lies in the remote store.
    conforms(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_memory_store() {
    conforms_while_sending(Arc::new(MemoryRemote::default())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn over_a_store_with_timestamps() {
    conforms_while_sending(TimedRemote::new(Faults::new())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_faults() {
    for seed in 0..3 {
        let faults = Faults::by_chance(seed, 0.3);
        conforms_while_sending(TimedRemote::new(faults.clone())).await;
        assert!(faults.injected() > 100);
    }
}
