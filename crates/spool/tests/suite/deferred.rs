//! Reads of slots of which the spool and the server have different values: the later one is seen, even if the
//! other was deferred.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plumbago_model::{Clock, ManualClock};
use plumbago_spool::{Sender, SenderConfig, SpooledStore};
use plumbago_store::layer::Faults;
use plumbago_store::{PointStore, ReadRequest, RemotePoints, WriteBatch};
use plumbago_tests::wait::eventually;
use tokio_util::sync::CancellationToken;

use crate::common::{RAW, TimedRemote, id, open_store, range, run, sender_config, spool_config, values};

const SLOT: u32 = 1000;

fn of(metric: u32, value: f64) -> WriteBatch {
    let mut batch = WriteBatch::default();
    batch.push(run(id(metric), 0, SLOT), &[value], None);
    batch
}

async fn seen(store: &SpooledStore, metric: u32) -> f64 {
    values(store, id(metric), SLOT, SLOT + 1).await[0]
}

/// Writes rows that the remote store acknowledges, until `rows` others are deferred. Rows are deferred only
/// once others are acknowledged.
async fn until_deferred(store: &SpooledStore, rows: u64) {
    while store.status().spool.deferred_rows < rows {
        store.write(&of(9, 0.0)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn until_sent(store: &SpooledStore) {
    let is_sent = || {
        let spool = store.status().spool;
        spool.pending_rows == spool.deferred_rows
    };
    eventually("all but the deferred rows to be sent", is_sent).await;
}

/// Metrics 1 to 3 have deferred rows, which are not sent again in this test.
#[tokio::test(flavor = "multi_thread")]
async fn a_deferred_row_hides_no_later_value() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(1_700_000_000)));
    let remote = TimedRemote::new(Faults::new());
    let store = open_store(dir.path(), spool_config(), clock.clone(), remote.clone());
    let config = SenderConfig { retry_deferred_every: Duration::from_secs(3600), ..sender_config() };
    let stop = CancellationToken::new();
    let sender = tokio::spawn(Sender::new(store.clone(), config).run(stop.clone()));
    // This value is older than the deferred one.
    remote.write_at(&of(3, 30.0), 1).await.unwrap();
    remote.dead.lock().unwrap().extend([1, 2, 3].map(id));
    for metric in 1..=3 {
        store.write(&of(metric, f64::from(metric))).await.unwrap();
    }
    until_deferred(&store, 3).await;
    remote.dead.lock().unwrap().clear();

    // The later value of metric 1 is our own, and that of metric 2 comes from another writer.
    clock.advance(1);
    store.write(&of(1, 10.0)).await.unwrap();
    remote.write_at(&of(2, 20.0), clock.now_ms() * 1000).await.unwrap();
    until_sent(&store).await;
    assert_eq!(seen(&store, 1).await, 10.0);
    // Reads include acknowledged slices for a minute.
    clock.advance(61);
    assert_eq!(store.status().spool.deferred_rows, 3);
    let all = async || [seen(&store, 1).await, seen(&store, 2).await, seen(&store, 3).await];
    assert_eq!(all().await, [10.0, 20.0, 3.0]);
    let for_peers = async || {
        let ranges = (1..=3).map(|metric| range(id(metric), 0, SLOT, SLOT + 1)).collect();
        let columns = store.read_pending(&ReadRequest { ranges, ..Default::default() }).await.unwrap();
        columns.iter().map(|column| column.values[0]).collect::<Vec<f64>>()
    };
    let answer = for_peers().await;
    assert!(answer[0].is_nan() && answer[1].is_nan() && answer[2] == 3.0, "{answer:?}");

    // Points can be read, but it is not known which are later: the pending ones stay.
    remote.hides_times.store(true, Ordering::Relaxed);
    assert_eq!(all().await, [1.0, 2.0, 3.0]);
    assert_eq!(for_peers().await, [1.0, 2.0, 3.0]);
    let ranges = vec![range(id(2), 0, SLOT, SLOT + 1)];
    let decisive = ReadRequest { ranges, include_retained: true, ..Default::default() };
    assert!(store.read(&decisive).await.is_err());
    stop.cancel();
    sender.await.unwrap();
}

/// The value before a deferred one was acknowledged less than a minute ago, so the spool still has both.
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_row_hides_no_deferred_one() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(1_700_000_000)));
    let remote = TimedRemote::new(Faults::new());
    let store = open_store(dir.path(), spool_config(), clock.clone(), remote.clone());
    let config = SenderConfig { retry_deferred_every: Duration::from_secs(3600), ..sender_config() };
    let stop = CancellationToken::new();
    let sender = tokio::spawn(Sender::new(store.clone(), config).run(stop.clone()));
    store.write(&of(1, 1.0)).await.unwrap();
    until_sent(&store).await;
    remote.dead.lock().unwrap().insert(id(1));
    store.write(&of(1, 2.0)).await.unwrap();
    until_deferred(&store, 1).await;
    assert_eq!(seen(&store, 1).await, 2.0);
    stop.cancel();
    sender.await.unwrap();
}

/// If another writer has replaced a value, no window is folded from the old value, even if this writer's row was
/// acknowledged just now.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_decides_on_a_write_sees_later_values_of_others_at_once() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(1_700_000_000)));
    let remote = TimedRemote::new(Faults::new());
    let store = open_store(dir.path(), spool_config(), clock.clone(), remote.clone());
    let stop = CancellationToken::new();
    let sender = tokio::spawn(Sender::new(store.clone(), sender_config()).run(stop.clone()));
    let decisive = async || {
        let ranges = vec![range(id(1), 0, SLOT, SLOT + 1)];
        let request = ReadRequest { ranges, include_retained: true, ..Default::default() };
        store.read(&request).await.unwrap().remove(0).values[0]
    };
    store.write(&of(1, 1.0)).await.unwrap();
    until_sent(&store).await;
    clock.advance(1);
    remote.write_at(&of(1, 2.0), clock.now_ms() * 1000).await.unwrap();
    assert_eq!(decisive().await, 2.0);
    // A value of our own that is pending, or was just sent, is now the later one.
    clock.advance(1);
    store.write(&of(1, 3.0)).await.unwrap();
    assert_eq!(decisive().await, 3.0);
    stop.cancel();
    sender.await.unwrap();
}

/// The remote store, which would return whole ranges, is not asked.
#[tokio::test(flavor = "multi_thread")]
async fn only_parts_with_pending_rows_are_named() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(1_700_000_000)));
    let store = open_store(dir.path(), spool_config(), clock, TimedRemote::new(Faults::new()));
    store.write(&of(1, 1.0)).await.unwrap();
    let of_all = |metric| range(id(metric), 0, 0, u32::MAX);
    let parts = store.occupied_pending(&[of_all(1), of_all(2)]).await.unwrap();
    assert_eq!(parts, [vec![std::ops::Range { start: SLOT, end: SLOT + 1 }], Vec::new()]);
}

/// The remote store fails, and the deletion is repeated, while a row is on its way.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_deletion_still_wins_over_what_is_on_its_way() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(1_700_000_000)));
    let remote = TimedRemote::new(Faults::new());
    let store = open_store(dir.path(), spool_config(), clock, remote.clone());
    store.write(&of(1, 1.0)).await.unwrap();
    let on_its_way_us = store.spool().timestamp().unwrap();
    remote.faults.set_down(true);
    store.delete(&[(id(1), vec![RAW])]).await.unwrap_err();
    remote.faults.set_down(false);
    store.delete(&[(id(1), vec![RAW])]).await.unwrap();
    remote.write_at(&of(1, 1.0), on_its_way_us).await.unwrap();
    assert!(remote.cells().is_empty());
}

/// Another daemon deletes a metric while rows of it wait here. That deletion does not delete rows that arrive
/// later.
#[tokio::test(flavor = "multi_thread")]
async fn rows_from_before_a_deletion_by_another_daemon_are_not_sent() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(1_700_000_000)));
    let remote = TimedRemote::new(Faults::new());
    let store = open_store(dir.path(), spool_config(), clock, remote.clone());
    for metric in [1, 2] {
        store.write(&of(metric, 1.0)).await.unwrap();
    }
    let deleted_us = store.spool().timestamp().unwrap();
    store.write(&of(2, 3.0)).await.unwrap();
    store.forget_before(&[(id(1), deleted_us), (id(2), deleted_us)]).unwrap();
    let stop = CancellationToken::new();
    let sender = tokio::spawn(Sender::new(store.clone(), sender_config()).run(stop.clone()));
    store.write(&of(9, 9.0)).await.unwrap();
    until_sent(&store).await;
    assert_eq!(remote.cells().len(), 2, "those of metrics 2 and 9");
    assert_eq!(seen(&store, 2).await, 3.0, "it is younger than the deletion");
    assert!(seen(&store, 1).await.is_nan());
    stop.cancel();
    sender.await.unwrap();
}
