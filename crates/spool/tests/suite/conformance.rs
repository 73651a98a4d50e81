//! Runs the conformance suite for stores on the spool: with a sender, without one, and with a failing remote
//! store.

use std::sync::Arc;

use plumbago_model::SystemClock;
use plumbago_spool::{Sender, SpooledStore};
use plumbago_store::RemotePoints;
use plumbago_store::layer::Faults;
use plumbago_store::{FlushStore, testsuite};
use plumbago_tests::wait::eventually;
use tokio_util::sync::CancellationToken;

use crate::common::{MemoryRemote, TimedRemote, open_store, sender_config, spool_config};

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

/// Without a sender, every read is answered from the spool.
#[tokio::test(flavor = "multi_thread")]
async fn with_nothing_sent() {
    let (_dir, store) = open(TimedRemote::new(Faults::new()));
    conforms(&store).await;
    assert!(store.status().spool.pending_rows > 1000);
}

async fn conforms_while_sending(remote: Arc<dyn RemotePoints>) {
    let (_dir, store) = open(remote);
    let stop = CancellationToken::new();
    let sender = tokio::spawn(Sender::new(store.clone(), sender_config()).run(stop.clone()));
    conforms(&store).await;
    eventually("all is sent", || store.status().spool.pending_rows == 0).await;
    stop.cancel();
    sender.await.unwrap();
    // Run the suite again, now that everything is in the remote store.
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
