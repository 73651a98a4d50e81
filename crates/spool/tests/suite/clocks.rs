//! After a clock was ahead and is corrected, later writes still win, even across restarts. Setting the clock
//! does not change how long rows are retained.

use std::sync::Arc;
use std::time::Duration;

use plumbago_model::{Clock, ManualClock};
use plumbago_spool::{Sender, SpooledStore};
use plumbago_store::layer::Faults;
use plumbago_store::{PointStore, WriteBatch};
use plumbago_tests::wait::eventually;
use tokio_util::sync::CancellationToken;

use crate::common::{COARSE, RAW, TimedRemote, id, open_store, run, sender_config, spool_config};

const NOW: i64 = 1_700_000_000;

async fn write(store: &SpooledStore, value: f64) {
    let mut batch = WriteBatch::default();
    batch.push(run(id(1), 0, 100), &[value], None);
    batch.push(run(id(1), 1, 100), &[value], None);
    store.write(&batch).await.unwrap();
}

/// Sends everything that is pending.
async fn send(store: &SpooledStore) {
    let stop = CancellationToken::new();
    let sender = tokio::spawn(Sender::new(store.clone(), sender_config()).run(stop.clone()));
    assert!(store.drain(Duration::from_secs(240)).await);
    stop.cancel();
    sender.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn later_rows_and_deletions_win_after_a_clock_was_ahead() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(NOW)));
    let remote = TimedRemote::new(Faults::new());
    let open = || open_store(dir.path(), spool_config(), clock.clone(), remote.clone());
    let values = || -> Vec<f64> {
        let cells = remote.cells();
        cells.values().map(|(_, bits, _)| f64::from_bits(*bits)).collect()
    };
    clock.set(NOW + 86_400);
    let store = open();
    write(&store, 1.0).await;
    send(&store).await;
    clock.set(NOW);
    write(&store, 2.0).await;
    send(&store).await;
    assert_eq!(values(), [2.0, 2.0], "in the same process");
    store.spool().clone().close().unwrap();

    let store = open();
    write(&store, 3.0).await;
    send(&store).await;
    assert_eq!(values(), [3.0, 3.0], "after a restart");
    store.spool().clone().close().unwrap();

    let store = open();
    store.delete(&[(id(1), vec![RAW, COARSE])]).await.unwrap();
    assert_eq!(values(), [0.0; 0], "a deletion");
    store.spool().clone().close().unwrap();

    let store = open();
    write(&store, 4.0).await;
    send(&store).await;
    assert_eq!(values(), [4.0, 4.0], "what comes after the deletion");
    store.spool().clone().close().unwrap();
}

/// Rows that servers may still lose are kept for as long as `retain` says, however the clock is set.
#[tokio::test(flavor = "multi_thread")]
async fn rows_are_retained_for_the_time_that_has_passed() {
    let (dir, clock) = (tempfile::tempdir().unwrap(), Arc::new(ManualClock::at(NOW)));
    let remote = TimedRemote::new(Faults::new());
    let store = open_store(dir.path(), spool_config(), clock.clone(), remote.clone());
    let held = || store.status().spool;
    for jump in [86_400, -2 * 86_400] {
        write(&store, 1.0).await;
        send(&store).await;
        clock.jump(jump);
        // Rows are retained for 60 s, and expired ones are dropped every 15 s.
        clock.advance(20);
        store.spool().release(clock.steady_ms());
        // Longer than the housekeeping interval.
        tokio::time::sleep(Duration::from_millis(1200)).await;
        assert!(held().retained_bytes > 0, "after a jump by {jump} s");
        remote.lose_everything();
        assert!(store.replay(0).unwrap() > 0);
        let stop = CancellationToken::new();
        let sender = tokio::spawn(Sender::new(store.clone(), sender_config()).run(stop.clone()));
        eventually("sent again", || held().resend_bytes == 0).await;
        stop.cancel();
        sender.await.unwrap();
        assert_eq!(remote.cells().len(), 2, "after a jump by {jump} s");

        clock.advance(61);
        store.spool().release(clock.steady_ms());
        eventually("dropped", || held().retained_bytes == 0).await;
    }
    store.spool().clone().close().unwrap();
}
