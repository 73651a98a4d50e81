//! Tests of the sender: order, grouping, retries, deferral, and replays.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plumbago_model::{Clock, ManualClock, SystemClock};
use plumbago_spool::queue::SpoolStats;
use plumbago_spool::{Sender, SenderConfig, SpooledStore};
use plumbago_store::layer::Faults;
use plumbago_store::{ErrorKind, FlushBatch, FlushStore, PointStore, ReadRequest, RowCount, StateRow};
use plumbago_tests::wait::eventually;
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

use crate::common::{
    COARSE, RAW, TimedRemote, id, open_store, range, run, sender_config, spool_config, values,
};

struct Fixture {
    _dir: tempfile::TempDir,
    remote: Arc<TimedRemote>,
    store: SpooledStore,
    stop: CancellationToken,
}

impl Fixture {
    fn new() -> Self {
        Self::with(TimedRemote::new(Faults::new()), Arc::new(SystemClock))
    }

    fn with(remote: Arc<TimedRemote>, clock: Arc<dyn Clock>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = open_store(dir.path(), spool_config(), clock, remote.clone());
        Self { _dir: dir, remote, store, stop: CancellationToken::new() }
    }

    fn start(&self) -> tokio::task::JoinHandle<()> {
        tokio::spawn(Sender::new(self.store.clone(), sender_config()).run(self.stop.clone()))
    }

    /// Commits one slot and the state row of each metric, as the engine does.
    fn flush(&self, metrics: u32, slot: u32, value: f64) {
        let mut batch = FlushBatch::default();
        for n in 0..metrics {
            batch.rows.push(run(id(n), 0, slot), &[value + f64::from(n)], None);
            batch.states.push(StateRow { id: id(n), bytes: vec![1] });
        }
        self.store.commit(&batch).unwrap();
    }

    async fn sent(&self) {
        let sent = |spool: &SpoolStats| spool.pending_rows == 0 && spool.resend_bytes == 0;
        eventually("all is sent", || sent(&self.store.status().spool)).await;
    }
}

/// Rows that accumulate while the remote store is down are sent in large requests.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_goes_in_large_requests() {
    let fixture = Fixture::new();
    fixture.remote.faults.set_down(true);
    let sender = fixture.start();
    for slot in 0..60 {
        fixture.flush(500, 1000 + slot, f64::from(slot));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    eventually("an error", || fixture.store.status().last_error.is_some()).await;
    let status = fixture.store.status();
    assert_eq!(status.spool.pending_rows, 30_000);
    assert!(status.last_success.is_none() && !status.is_refused, "{status:?}");
    assert_eq!(fixture.remote.rows.load(Ordering::Relaxed), 0);
    fixture.remote.faults.set_down(false);
    fixture.sent().await;
    assert_eq!(fixture.remote.cells().len(), 30_000);
    // Rows that the sender had read before later ones were committed are in smaller runs. The limit allows
    // for a busy machine, where the sender has read more of them.
    let runs = fixture.remote.runs.load(Ordering::Relaxed);
    assert!(runs <= 3000, "{runs} runs for 500 metrics: fewer than ten rows in one");
    assert!(fixture.remote.in_flight_max.load(Ordering::Relaxed) <= 4);
    let status = fixture.store.status();
    assert!(status.last_error.is_none() && status.last_success.is_some());
    fixture.stop.cancel();
    sender.await.unwrap();
}

/// Reads see pending rows and rows in flight, and the newest version of each slot.
#[tokio::test(flavor = "multi_thread")]
async fn readers_see_what_waits() {
    let fixture = Fixture::new();
    fixture.flush(3, 1000, 1.0);
    fixture.flush(3, 1001, 2.0);
    fixture.flush(3, 1000, 5.0);
    assert_eq!(values(&fixture.store, id(1), 1000, 1002).await, [6.0, 3.0]);
    let sender = fixture.start();
    fixture.sent().await;
    fixture.flush(3, 1002, 7.0);
    assert_eq!(values(&fixture.store, id(1), 1000, 1003).await, [6.0, 3.0, 8.0]);
    fixture.remote.faults.set_down(true);
    let request = ReadRequest { ranges: vec![range(id(1), 0, 1000, 1003)], ..Default::default() };
    let error = fixture.store.read(&request).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "half an answer is none");
    fixture.stop.cancel();
    sender.await.unwrap();
}

/// A missing table does not delay rows of other tables. Its own rows are sent once it exists.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_holds_nothing_up() {
    let fixture = Fixture::new();
    fixture.remote.missing.lock().unwrap().insert(COARSE);
    let sender = fixture.start();
    for round in 0..20 {
        let mut batch = FlushBatch::default();
        for n in 0..50 {
            batch.rows.push(run(id(n), 0, 1000 + round), &[f64::from(round)], None);
            batch.rows.push(run(id(n), 1, 100 + round / 4), &[f64::from(round)], Some(&[(round + 1).into()]));
        }
        fixture.store.commit(&batch).unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    eventually("the others are sent", || fixture.remote.cells().len() == 1000).await;
    let request = ReadRequest { ranges: vec![range(id(7), 1, 100, 105)], ..Default::default() };
    let column = fixture.store.read(&request).await.unwrap().remove(0);
    assert_eq!(column.values, [3.0, 7.0, 11.0, 15.0, 19.0], "what was put aside is seen");
    assert_eq!(column.counts, [4, 8, 12, 16, 20]);

    fixture.remote.missing.lock().unwrap().clear();
    fixture.sent().await;
    assert_eq!(fixture.remote.cells().len(), 1250);
    let column = fixture.store.read(&request).await.unwrap().remove(0);
    assert_eq!(column.values, [3.0, 7.0, 11.0, 15.0, 19.0]);
    fixture.stop.cancel();
    sender.await.unwrap();
}

/// A missing table does not delay other rows even if all calls in flight are for that table.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_alone_holds_nothing_up() {
    let mut remote = TimedRemote::new(Faults::new());
    let limits = &mut Arc::get_mut(&mut remote).unwrap().limits;
    (limits.concurrency, limits.slots_per_call) = (2, 1);
    let fixture = Fixture::with(remote, Arc::new(SystemClock));
    fixture.remote.missing.lock().unwrap().insert(COARSE);
    let mut batch = FlushBatch::default();
    for n in 0..20 {
        batch.rows.push(run(id(n), 1, 100), &[1.0], Some(&[RowCount::ONE]));
    }
    fixture.store.commit(&batch).unwrap();
    let sender = fixture.start();
    let is_refused = || {
        let status = fixture.store.status();
        status.last_error.is_some() && status.is_refused
    };
    eventually("a refusal of the missing table", is_refused).await;
    fixture.flush(1, 1000, 1.0);
    eventually("the other is sent", || fixture.remote.cells().len() == 1).await;
    fixture.remote.missing.lock().unwrap().clear();
    fixture.sent().await;
    assert_eq!(fixture.remote.cells().len(), 21);
    fixture.stop.cancel();
    sender.await.unwrap();
}

/// Deferred rows of a missing table do not keep other deferred rows from being retried, however many come
/// first.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_keeps_nothing_else_aside() {
    let mut remote = TimedRemote::new(Faults::new());
    // One call per table and chunk, so that one call in flight always succeeds.
    Arc::get_mut(&mut remote).unwrap().limits.slots_per_call = 1 << 20;
    let fixture = Fixture::with(remote, Arc::new(SystemClock));
    let last = (1..=1500).map(id).max().unwrap();
    fixture.remote.missing.lock().unwrap().insert(COARSE);
    fixture.remote.dead.lock().unwrap().insert(last);
    // Enough rows for several rounds of retries, with the metric of the unreachable range at the end.
    let noise: Vec<f64> = (0..100).map(|n| f64::from(n).sin()).collect();
    let mut batch = FlushBatch::default();
    for n in 1..=1500 {
        batch.rows.push(run(id(n), 1, 100), &noise, Some(&[RowCount::ONE; 100]));
    }
    batch.rows.push(run(last, 0, 1000), &[1.0], None);
    fixture.store.commit(&batch).unwrap();
    let sender = fixture.start();
    let mut slot = 1000;
    while fixture.store.status().spool.deferred_rows < 150_001 {
        slot += 1;
        fixture.flush(1, slot, 1.0);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fixture.remote.dead.lock().unwrap().clear();
    eventually("the dead range is sent", || fixture.remote.cells().contains_key(&(last, RAW, false, 1000)))
        .await;
    fixture.remote.missing.lock().unwrap().clear();
    fixture.sent().await;
    fixture.stop.cancel();
    sender.await.unwrap();
}

/// Rows of a range without an answering replica are deferred after some time, even if every call contains
/// some.
async fn a_dead_range_holds_nothing_up(is_silent: bool) {
    let fixture = Fixture::new();
    fixture.remote.is_silent.store(is_silent, Ordering::Relaxed);
    fixture.remote.dead.lock().unwrap().insert(id(3));
    let sender = fixture.start();
    for round in 0..10 {
        fixture.flush(20, 1000 + round, f64::from(round));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eventually("the others are sent", || fixture.remote.cells().len() == 190).await;
    let waits = |value: &f64| *value - 3.0;
    let found = values(&fixture.store, id(3), 1000, 1010).await;
    assert_eq!(found.iter().map(waits).collect::<Vec<_>>(), (0..10).map(f64::from).collect::<Vec<_>>());
    eventually("the dead range to be named, and only it", || {
        let status = fixture.store.status();
        status.spool.deferred_rows == 10 && status.last_deferral.is_some() && status.last_error.is_none()
    })
    .await;
    fixture.remote.dead.lock().unwrap().clear();
    fixture.sent().await;
    assert_eq!(fixture.remote.cells().len(), 200);
    fixture.stop.cancel();
    sender.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_range_that_is_named_holds_nothing_up() {
    a_dead_range_holds_nothing_up(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_range_that_nobody_names_holds_nothing_up() {
    a_dead_range_holds_nothing_up(true).await;
}

/// Rows of a range that is known to be down are deferred at once. Without that, the first calls would wait for an hour
/// and delay all others.
#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_is_known_to_be_down_waits_for_nothing() {
    let fixture = Fixture::new();
    fixture.remote.is_known_down.store(true, Ordering::Relaxed);
    fixture.remote.dead.lock().unwrap().insert(id(3));
    let config = SenderConfig { defer_after: Duration::from_secs(3600), ..sender_config() };
    let sender = tokio::spawn(Sender::new(fixture.store.clone(), config).run(fixture.stop.clone()));
    for round in 0..10 {
        fixture.flush(20, 1000 + round, f64::from(round));
        eventually("the others are sent", || fixture.remote.cells().len() == 19 * (round as usize + 1)).await;
    }
    fixture.remote.dead.lock().unwrap().clear();
    fixture.sent().await;
    assert_eq!(fixture.remote.cells().len(), 200);
    fixture.stop.cancel();
    sender.await.unwrap();
}

/// Rows are deferred at once for a while after the last success, even if all ranges are down. Then the status shows an
/// error.
#[tokio::test(flavor = "multi_thread")]
async fn ranges_that_are_all_down_are_not_taken_for_a_few() {
    let fixture = Fixture::new();
    let sender = fixture.start();
    fixture.flush(20, 1000, 0.0);
    fixture.sent().await;
    assert_eq!(fixture.store.status().last_error, None);
    fixture.remote.is_known_down.store(true, Ordering::Relaxed);
    fixture.remote.dead.lock().unwrap().extend((0..20).map(id));
    fixture.flush(20, 1001, 0.0);
    eventually("the rows to be deferred", || fixture.store.status().spool.deferred_rows == 20).await;
    assert!(fixture.store.status().last_error.is_some());
    fixture.remote.dead.lock().unwrap().clear();
    fixture.sent().await;
    assert_eq!(fixture.store.status().last_error, None);
    fixture.stop.cancel();
    sender.await.unwrap();
}

/// A replay sends acknowledged rows again to a server that lost them, with their original timestamps.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_lost_is_sent_again() {
    let fixture = Fixture::new();
    let sender = fixture.start();
    for slot in 0..5 {
        fixture.flush(100, 1000 + slot, f64::from(slot));
        fixture.flush(100, 1000, f64::from(slot) * 10.0);
        fixture.sent().await;
    }
    let before = fixture.remote.cells();
    assert_eq!(before.len(), 500);
    // A replay to a server that lost nothing changes neither values nor timestamps.
    assert!(fixture.store.replay(0).unwrap() > 0);
    fixture.sent().await;
    assert_eq!(fixture.remote.cells(), before);
    fixture.remote.lose_everything();
    assert!(fixture.store.replay(0).unwrap() > 0);
    fixture.sent().await;
    assert_eq!(fixture.remote.cells(), before);
    fixture.stop.cancel();
    sender.await.unwrap();
}

/// Sending rows again comes to an end even if their table was dropped meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_dropped_table_do_not_go_round_for_ever() {
    let fixture = Fixture::new();
    let sender = fixture.start();
    let mut batch = FlushBatch::default();
    for n in 0..20 {
        batch.rows.push(run(id(n), 0, 1000), &[1.0], None);
        batch.rows.push(run(id(n), 1, 100), &[1.0], Some(&[RowCount::ONE]));
    }
    fixture.store.commit(&batch).unwrap();
    fixture.sent().await;
    fixture.remote.missing.lock().unwrap().insert(COARSE);
    fixture.remote.lose_everything();
    assert!(fixture.store.replay(0).unwrap() > 0);
    fixture.sent().await;
    assert_eq!(fixture.remote.cells().len(), 20, "the rows of the other table");
    fixture.stop.cancel();
    sender.await.unwrap();
}

/// Acknowledged rows are kept until they are released, for as long as that takes.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_released_does_not_expire() {
    let clock = Arc::new(ManualClock::at(1_700_000_000));
    let fixture = Fixture::with(TimedRemote::new(Faults::new()), clock.clone());
    let sender = fixture.start();
    fixture.flush(10, 1000, 1.0);
    fixture.sent().await;
    let retained = fixture.store.status().spool.retained_bytes;
    fixture.store.spool().release(clock.now_ms());
    clock.advance(3600);
    // Longer than the housekeeping interval.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(fixture.store.status().spool.retained_bytes, retained);
    fixture.remote.lose_everything();
    assert_eq!(fixture.store.replay(0).unwrap(), retained);
    fixture.sent().await;
    assert_eq!(fixture.remote.cells().len(), 10);
    clock.advance(3600);
    fixture.store.spool().release(clock.now_ms());
    eventually("dropped", || fixture.store.status().spool.retained_bytes == 0).await;
    fixture.stop.cancel();
    sender.await.unwrap();
}

/// A metric is deleted while its rows are in flight.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_wins_over_what_is_on_its_way() {
    let fixture = Fixture::new();
    *fixture.remote.delay.lock().unwrap() = Duration::from_millis(30);
    let sender = fixture.start();
    fixture.flush(2, 1000, 1.0);
    eventually("a call is on its way", || fixture.remote.in_flight_max.load(Ordering::Relaxed) > 0).await;
    fixture.flush(2, 1001, 1.0);
    fixture.store.delete(&[(id(0), vec![RAW])]).await.unwrap();
    assert!(values(&fixture.store, id(0), 1000, 1002).await.iter().all(|value| value.is_nan()));
    fixture.sent().await;
    assert!(values(&fixture.store, id(0), 1000, 1002).await.iter().all(|value| value.is_nan()));
    assert_eq!(values(&fixture.store, id(1), 1000, 1002).await, [2.0, 2.0]);
    fixture.flush(1, 1001, 9.0);
    fixture.sent().await;
    assert_eq!(values(&fixture.store, id(0), 1001, 1002).await, [9.0]);
    assert_eq!(fixture.remote.cells().len(), 3);
    fixture.stop.cancel();
    sender.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_spool_is_overloaded_and_a_drain_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let remote = TimedRemote::new(Faults::new());
    remote.faults.set_down(true);
    let mut config = spool_config();
    config.max_bytes = Some(50_000);
    config.linger = Duration::from_secs(3600);
    let store = open_store(dir.path(), config, Arc::new(ManualClock::at(1_700_000_000)), remote.clone());
    let stop = CancellationToken::new();
    let sender = tokio::spawn(Sender::new(store.clone(), sender_config()).run(stop.clone()));
    let mut batch = FlushBatch::default();
    for n in 0..100 {
        batch.rows.push(run(id(n), 0, 1000), &[1.5; 8], None);
    }
    let error = loop {
        if let Err(error) = store.commit(&batch) {
            break error;
        }
    };
    assert_eq!(error.kind, ErrorKind::Overloaded);
    assert!(error.is_transient());
    assert!(!store.drain(Duration::from_millis(50)).await);
    remote.faults.set_down(false);
    assert!(store.drain(Duration::from_secs(120)).await, "an hour of gathering is not waited for");
    assert_eq!(remote.cells().len(), 800);
    stop.cancel();
    sender.await.unwrap();
}

#[derive(Debug, Clone)]
enum Step {
    Flush { metric: u32, stage_index: u8, slot: u32, len: u32 },
    Send,
    Replay,
    Fail(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..4_u32, 0..2_u8, 0..200_u32, 1..40_u32)
            .prop_map(|(metric, stage_index, slot, len)| Step::Flush { metric, stage_index, slot, len }),
        2 => Just(Step::Send),
        1 => Just(Step::Replay),
        1 => (1..5_u32).prop_map(Step::Fail),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// For any sequence of commits, sends, replays and failures, reads return the last version of each slot,
    /// and the remote store ends up with it.
    #[test]
    fn the_last_version_stays(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new();
            let sender = fixture.start();
            let mut wanted = std::collections::BTreeMap::new();
            // Values decrease, because with equal timestamps the larger value wins, which is then the older
            // one.
            let mut next = 1e9;
            for step in steps {
                match step {
                    Step::Flush { metric, stage_index, slot, len } => {
                        let mut values = Vec::new();
                        for i in 0..len {
                            let value = if i % 5 == 3 { f64::NAN } else { next };
                            next -= 1.0;
                            values.push(value);
                            if !value.is_nan() {
                                wanted.insert((metric, stage_index, slot + i), value);
                            }
                        }
                        let counts = vec![RowCount::new(7); len as usize];
                        let mut batch = FlushBatch::default();
                        let counts = (stage_index > 0).then_some(&counts[..]);
                        batch.rows.push(run(id(metric), stage_index, slot), &values, counts);
                        fixture.store.commit(&batch).unwrap();
                    }
                    Step::Send => fixture.sent().await,
                    Step::Replay => drop(fixture.store.replay(0).unwrap()),
                    Step::Fail(calls) => fixture.remote.faults.fail_next(calls),
                }
            }
            fixture.remote.faults.fail_next(0);
            fixture.sent().await;
            let cells = fixture.remote.cells();
            assert_eq!(cells.len(), wanted.len());
            for ((metric, stage_index, slot), value) in wanted {
                let Run { stage, .. } = run(id(metric), stage_index, 0);
                let (_, bits, count) = cells[&(id(metric), stage, stage_index > 0, slot)];
                assert_eq!((f64::from_bits(bits), count.of_window()), (value, if stage_index > 0 { 7 } else { 1 }));
                let request = ReadRequest { ranges: vec![range(id(metric), stage_index, slot, slot + 1)], ..Default::default() };
                assert_eq!(fixture.store.read(&request).await.unwrap()[0].values, [value]);
            }
            fixture.stop.cancel();
            sender.await.unwrap();
        });
    }
}

use plumbago_store::Run;
