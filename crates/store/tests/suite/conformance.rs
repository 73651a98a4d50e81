//! The conformance suite on the memory store, without and with injected faults.

use plumbago_store::layer::{Faults, Faulty};
use plumbago_store::memory::MemoryStore;
use plumbago_store::{FlushStore, MetadataStore, PointStore, testsuite};

const NOW: u32 = 1_760_000_000;

async fn conforms<S: PointStore + FlushStore + MetadataStore>(store: &S) {
    testsuite::points::all(store, store.layout(), NOW).await;
    testsuite::flush::all(store, store, NOW).await;
    testsuite::metadata::all(store).await;
}

#[tokio::test]
async fn memory() {
    conforms(&MemoryStore::default()).await;
    conforms(&MemoryStore::new(7)).await;
    let store = MemoryStore::default();
    store.set_time_us(10);
    testsuite::directories::rows(&store, || 10).await;
    testsuite::directories::all(&store, || 10).await;
}

#[tokio::test]
async fn memory_under_faults() {
    for seed in 0..5 {
        let faults = Faults::by_chance(seed, 0.3);
        conforms(&Faulty::new(MemoryStore::default(), faults.clone())).await;
        assert!(faults.injected() > 100);
    }
}

#[tokio::test]
async fn faults_come_on_command() {
    let faults = Faults::new();
    let store = Faulty::new(MemoryStore::default(), faults.clone());
    assert!(store.sync().is_ok());
    faults.fail_next(2);
    assert!(store.sync().unwrap_err().is_transient());
    assert!(store.get(&["a"]).await.unwrap_err().is_transient());
    assert!(store.sync().is_ok());
    faults.set_down(true);
    assert!((0..10).all(|_| store.sync().is_err()));
    faults.set_down(false);
    assert!(store.sync().is_ok());
    assert_eq!(faults.injected(), 12);
}
