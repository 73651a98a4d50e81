//! Tests of the queue: order, acknowledgement, retention, the size limit, and restarts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use plumbago_model::{Clock, ManualClock};
use plumbago_spool::queue::{Chunk, Edit, Id, Position, Slice, State};
use plumbago_spool::{Spool, SpoolConfig, SpoolError};
use plumbago_telemetry::Registry;
use plumbago_tests::wait::wait_until;
use uuid::Uuid;

const NOW: i64 = 1_700_000_000;

struct Fixture {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    registry: Registry,
    config: SpoolConfig,
}

impl Fixture {
    fn new() -> Self {
        let config = SpoolConfig {
            min_free_bytes: 0,
            linger: Duration::ZERO,
            retain: Some(Duration::from_secs(60)),
            ..SpoolConfig::default()
        };
        Self {
            dir: tempfile::tempdir().unwrap(),
            clock: Arc::new(ManualClock::at(NOW)),
            registry: Registry::new(),
            config,
        }
    }

    fn open(&mut self) -> Spool {
        self.registry = Registry::new();
        Spool::open(self.dir.path(), self.config.clone(), self.clock.clone(), &self.registry).unwrap()
    }
}

fn id(n: u32) -> Id {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&n.wrapping_mul(2_654_435_761).to_be_bytes());
    id[12..].copy_from_slice(&n.to_be_bytes());
    id
}

/// Commits one slice per metric, which contains the metric's number and `text`. Returns the commit's
/// timestamp.
fn put(spool: &Spool, metrics: std::ops::Range<u32>, text: &str) -> i64 {
    let texts: Vec<String> = metrics.clone().map(|n| format!("{n} {text}")).collect();
    let slices: Vec<Slice<'_>> =
        metrics.zip(&texts).map(|(n, text)| Slice { id: id(n), rows: 1, bytes: text.as_bytes() }).collect();
    spool.commit(&slices, &[]).unwrap()
}

fn texts(chunk: &Chunk) -> Vec<String> {
    chunk.slices.iter().map(|slice| String::from_utf8(slice.bytes().to_vec()).unwrap()).collect()
}

/// Reads and acknowledges all pending slices in chunks of at most `most_bytes`.
fn drain(spool: &Spool, most_bytes: usize) -> Vec<(i64, String)> {
    let mut all = Vec::new();
    while let Some(chunk) = spool.next_chunk(None, most_bytes).unwrap() {
        all.extend(chunk.slices.iter().map(|slice| slice.timestamp_us).zip(texts(&chunk)));
        spool.acknowledge(&chunk).unwrap();
    }
    all
}

/// Reads all slices that are to be sent again, and notes that they were.
fn drain_again(spool: &Spool, most_bytes: usize) -> Vec<(i64, String)> {
    let mut all = Vec::new();
    while let Some(chunk) = spool.next_resend(most_bytes).unwrap() {
        all.extend(chunk.chunk.slices.iter().map(|slice| slice.timestamp_us).zip(texts(&chunk.chunk)));
        spool.resent(&chunk, true).unwrap();
    }
    all
}

/// Reads all slices that would be sent again.
fn look_again(spool: &Spool, since_us: i64) -> Vec<(i64, String)> {
    let (mut all, mut at) = (Vec::new(), Position::default());
    while let Some(chunk) = spool.look_again(since_us, at, 300).unwrap() {
        assert!(chunk.chunk.bytes() > 0);
        all.extend(chunk.chunk.slices.iter().map(|slice| slice.timestamp_us).zip(texts(&chunk.chunk)));
        at = chunk.chunk.end;
    }
    all
}

fn seen(spool: &Spool, n: u32) -> Vec<String> {
    let mut seen = Vec::new();
    spool.read(&[id(n)], &mut |_, _, bytes| seen.push(String::from_utf8(bytes.to_vec()).unwrap())).unwrap();
    seen
}

#[test]
fn what_waits_comes_by_metric_and_then_by_time() {
    let mut fixture = Fixture::new();
    let spool = fixture.open();
    for round in 0..5 {
        put(&spool, 0..40, &format!("round {round}"));
    }
    assert_eq!(spool.stats().pending_rows, 200);
    let all = drain(&spool, 500);
    assert_eq!(all.len(), 200);
    let mut by_metric: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (_, text) in &all {
        let (metric, round) = text.split_once(' ').unwrap();
        by_metric.entry(metric.to_owned()).or_default().push(round.to_owned());
    }
    let rounds: Vec<String> = (0..5).map(|round| format!("round {round}")).collect();
    assert!(by_metric.len() == 40 && by_metric.values().all(|found| *found == rounds));
    // All slices of a metric are next to each other.
    let metrics: Vec<&str> = all.iter().map(|(_, text)| text.split_once(' ').unwrap().0).collect();
    assert_eq!(metrics.chunk_by(|a, b| a == b).count(), 40);
    let stats = spool.stats();
    assert_eq!((stats.pending_rows, stats.pending_bytes, stats.oldest), (0, 0, None));
    assert!(stats.retained_bytes > 0);
}

#[test]
fn timestamps_rise_although_the_clock_falls_and_over_restarts() {
    let mut fixture = Fixture::new();
    let spool = fixture.open();
    let first = put(&spool, 0..1, "a");
    assert_eq!(first, NOW * 1_000_000);
    let second = put(&spool, 0..1, "b");
    assert_eq!(second, first + 1);
    fixture.clock.set(NOW - 3600);
    let third = put(&spool, 0..1, "c");
    assert_eq!(third, second + 1);
    drain(&spool, 100);
    spool.close().unwrap();
    let spool = fixture.open();
    assert_eq!(put(&spool, 0..1, "d"), third + 1);
    assert_eq!(spool.timestamp().unwrap(), third + 2);
    fixture.clock.set(NOW + 5);
    assert_eq!(put(&spool, 0..1, "e"), (NOW + 5) * 1_000_000);
}

#[test]
fn chunks_ahead_of_the_acknowledgement_and_after_a_restart() {
    let mut fixture = Fixture::new();
    let spool = fixture.open();
    put(&spool, 0..100, "x");
    let first = spool.next_chunk(None, 500).unwrap().unwrap();
    let second = spool.next_chunk(Some(first.end), 500).unwrap().unwrap();
    let third = spool.next_chunk(Some(second.end), 500).unwrap().unwrap();
    assert!(texts(&first).iter().all(|text| !texts(&second).contains(text)));
    assert_eq!(first.timestamp_us, third.timestamp_us);
    // The process ends before it has acknowledged all chunks. No pending slice is lost, and no acknowledged
    // slice is sent again.
    spool.acknowledge(&first).unwrap();
    drop(spool);
    let spool = fixture.open();
    let again = spool.next_chunk(None, 500).unwrap().unwrap();
    assert_eq!(texts(&again), texts(&second));
    assert_eq!(first.slices[0].timestamp_us, again.slices[0].timestamp_us);
    spool.acknowledge(&again).unwrap();
    assert_eq!(drain(&spool, 500).len(), 100 - first.slices.len() - second.slices.len());
    assert!(!third.slices.is_empty());
    drop(spool);
    let spool = fixture.open();
    assert!(spool.next_chunk(None, 500).unwrap().is_none());
    assert_eq!(spool.stats().pending_rows, 0);
}

/// Lingering uses the monotonic clock, because the wall clock may stand still or jump.
#[test]
fn new_slices_gather_for_a_while() {
    let mut fixture = Fixture::new();
    fixture.config.linger = Duration::from_secs(3600);
    let spool = fixture.open();
    put(&spool, 0..3, "a");
    assert!(spool.next_chunk(None, 500).unwrap().is_none());
    fixture.clock.advance(86_400);
    put(&spool, 0..3, "b");
    assert!(spool.next_chunk(None, 500).unwrap().is_none());
    assert_eq!(spool.stats().oldest, Some(Duration::from_secs(86_400)));
    spool.hurry();
    assert_eq!(spool.next_chunk(None, 500).unwrap().unwrap().slices.len(), 6);

    let mut fixture = Fixture::new();
    fixture.config.linger = Duration::from_millis(20);
    let spool = fixture.open();
    put(&spool, 0..3, "a");
    wait_until("the chunk", || spool.next_chunk(None, 500).unwrap().is_some());
}

#[test]
fn acknowledged_slices_are_retained_sent_again_and_dropped() {
    let mut fixture = Fixture::new();
    let spool = fixture.open();
    put(&spool, 0..10, "old");
    let old = drain(&spool, 1 << 20);
    fixture.clock.advance(30);
    put(&spool, 0..10, "new");
    let new = drain(&spool, 1 << 20);
    assert_eq!(seen(&spool, 3), ["3 old", "3 new"]);

    // A preview returns the slices that would be sent again, and changes nothing.
    assert!(look_again(&spool, (NOW + 31) * 1_000_000).is_empty());
    assert_eq!(look_again(&spool, (NOW + 30) * 1_000_000), new);
    assert_eq!(look_again(&spool, 0), [old.clone(), new.clone()].concat());
    assert!(spool.stats().resend_bytes == 0 && drain_again(&spool, 1 << 20).is_empty());

    assert_eq!(spool.resend_since((NOW + 31) * 1_000_000).unwrap(), 0);
    assert!(drain_again(&spool, 1 << 20).is_empty());
    assert!(spool.resend_since((NOW + 30) * 1_000_000).unwrap() > 0);
    assert_eq!(drain_again(&spool, 1 << 20), new);
    assert!(spool.resend_since(0).unwrap() > 0);
    assert_eq!(drain_again(&spool, 300), [old.clone(), new.clone()].concat());
    assert!(drain(&spool, 1 << 20).is_empty() && spool.stats().resend_bytes == 0);

    // Slices in flight are sent again after they are acknowledged.
    put(&spool, 0..10, "newest");
    let chunk = spool.next_chunk(None, 1 << 20).unwrap().unwrap();
    spool.resend_since(0).unwrap();
    assert_eq!(drain_again(&spool, 1 << 20), [old, new].concat());
    assert!(spool.stats().resend_bytes > 0);
    spool.acknowledge(&chunk).unwrap();
    assert_eq!(drain_again(&spool, 1 << 20).len(), 10);
    assert_eq!(spool.stats().resend_bytes, 0);

    fixture.clock.advance(61);
    // Reads skip expired slices, because every replica has received them by now.
    assert!(seen(&spool, 3).is_empty());
    spool.release(fixture.clock.now_ms());
    wait_until("dropped", || spool.stats().retained_bytes == 0);
    assert_eq!(spool.resend_since(0).unwrap(), 0);
    assert!(drain_again(&spool, 1 << 20).is_empty());
    drop(spool);
    assert!(drain(&fixture.open(), 1 << 20).is_empty());
}

/// A server returns, and returns again before everything is sent. New slices are not delayed, and sending
/// again continues where it was, even after a restart of this process.
#[test]
fn what_is_sent_again_goes_on_over_returns_and_restarts() {
    let server = Uuid::from_u128(1);
    let mut fixture = Fixture::new();
    let spool = fixture.open();
    for text in ["a", "b", "c"] {
        put(&spool, 0..4, text);
        drain(&spool, 1 << 20);
    }
    let step = |spool: &Spool, is_complete: bool| {
        let chunk = spool.next_resend(1 << 20).unwrap().unwrap();
        assert_eq!(chunk.servers, [server]);
        spool.resent(&chunk, is_complete).unwrap();
        texts(&chunk.chunk)[0].clone().split_off(2)
    };
    spool.resend(&[server]).unwrap();
    assert_eq!(step(&spool, true), "a");
    put(&spool, 0..4, "d");
    assert_eq!(drain(&spool, 1 << 20).len(), 4);
    spool.resend(&[server]).unwrap();
    assert_eq!(step(&spool, true), "b");
    drop(spool);
    let spool = fixture.open();
    assert_eq!([step(&spool, true), step(&spool, true), step(&spool, false)], ["c", "d", "a"]);
    assert_eq!([(); 4].map(|()| step(&spool, true)), ["b", "c", "d", "a"]);
    assert!(spool.next_resend(1 << 20).unwrap().is_none());
    assert_eq!(spool.stats().resend_bytes, 0);
    // A read skips acknowledged slices once they are not to be sent again; until then it includes all of them.
    fixture.clock.advance(61);
    assert!(seen(&spool, 3).is_empty());
    spool.resend(&[server]).unwrap();
    assert_eq!(seen(&spool, 3), ["3 a", "3 b", "3 c", "3 d"]);
}

#[test]
fn a_full_spool_refuses_and_gives_up_what_is_only_retained() {
    let mut fixture = Fixture::new();
    fixture.config.max_bytes = Some(100_000);
    let spool = fixture.open();
    let text = "x".repeat(900);
    let slice = |n: u32| Slice { id: id(n), rows: 1, bytes: text.as_bytes() };
    let mut taken = 0;
    let error = loop {
        match spool.commit(&[slice(taken)], &[]) {
            Ok(_) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(
        matches!(error, SpoolError::Full { max_bytes: 100_000, held_bytes } if held_bytes > 98_000),
        "{error}"
    );
    assert!(error.is_transient() && spool.trouble().unwrap().contains("full"));
    assert_eq!(spool.stats().pending_rows, u64::from(taken));
    // State rows are still accepted, because they do not count towards the limit.
    spool.commit(&[], &[State { id: id(1), bytes: b"state" }]).unwrap();

    assert_eq!(drain(&spool, 10_000).len(), taken as usize);
    for n in 0..taken {
        spool.commit(&[slice(n)], &[]).unwrap();
        assert!(spool.stats().pending_bytes + spool.stats().retained_bytes <= 100_000);
    }
    assert!(spool.trouble().is_none());
    assert!(spool.commit(&[slice(0)], &[]).is_err());
    drop(spool);
    let spool = fixture.open();
    assert!(spool.commit(&[slice(0)], &[]).is_err(), "the ceiling holds over a restart");
    assert_eq!(drain(&spool, 10_000).len(), taken as usize);
}

#[test]
fn state_rows_are_replaced_deleted_and_visited_in_order() {
    let mut fixture = Fixture::new();
    let spool = fixture.open();
    let mut wanted = BTreeMap::new();
    for round in 0..4_u32 {
        let bytes = round.to_le_bytes();
        for n in (0..200).filter(|n| n % (round + 1) == 0) {
            let gone = round == 3 && n % 8 == 0;
            let bytes: &[u8] = if gone { &[] } else { &bytes };
            spool.commit(&[], &[State { id: id(n), bytes }]).unwrap();
            wanted.insert(id(n), bytes.to_vec());
        }
    }
    wanted.retain(|_, bytes| !bytes.is_empty());
    for _ in 0..2 {
        let mut found = Vec::new();
        let spool = fixture.open_or(&spool);
        spool.scan_states(&mut |id, bytes| found.push((id, bytes.to_vec()))).unwrap();
        assert_eq!(found, wanted.clone().into_iter().collect::<Vec<_>>());
    }
}

impl Fixture {
    /// Checks that the directory cannot be opened a second time, and returns the open spool.
    fn open_or(&self, spool: &Spool) -> Spool {
        let again = Spool::open(self.dir.path(), self.config.clone(), self.clock.clone(), &Registry::new());
        assert!(matches!(again, Err(SpoolError::Open(_))), "it is locked");
        spool.clone()
    }
}

#[test]
fn what_is_put_aside_holds_nothing_up_and_stays() {
    let mut fixture = Fixture::new();
    let spool = fixture.open();
    put(&spool, 0..10, "a");
    let chunk = spool.next_chunk(None, 1 << 20).unwrap().unwrap();
    let stuck: Vec<_> = chunk
        .slices
        .iter()
        .filter(|slice| slice.bytes() < &b"3"[..])
        .map(|slice| (chunk.timestamp_us, Slice { id: slice.id, rows: 1, bytes: slice.bytes() }))
        .collect();
    assert_eq!(stuck.len(), 3);
    spool.defer(&stuck).unwrap();
    spool.acknowledge(&chunk).unwrap();
    put(&spool, 0..10, "b");
    assert_eq!(drain(&spool, 1 << 20).len(), 10);
    assert_eq!((spool.stats().pending_rows, spool.stats().deferred_rows), (3, 3));
    fixture.clock.advance(120);
    spool.release(fixture.clock.now_ms());
    wait_until("dropped", || spool.stats().retained_bytes == 0);
    assert_eq!(seen(&spool, 1), ["1 a"]);
    drop(spool);

    let spool = fixture.open();
    assert_eq!((spool.stats().pending_rows, spool.stats().deferred_rows), (3, 3));
    assert!(spool.next_chunk(None, 1 << 20).unwrap().is_none());
    let first = spool.next_deferred(None, 1).unwrap();
    assert_eq!(first.len(), 1);
    let rest = spool.next_deferred(first.last(), 1 << 20).unwrap();
    assert_eq!(rest.len(), 2);
    assert!(rest.iter().all(|slice| slice.timestamp_us == chunk.timestamp_us));
    assert!(spool.next_deferred(rest.last(), 1 << 20).unwrap().is_empty());
    spool.retain_deferred(&rest).unwrap();
    assert_eq!(spool.stats().deferred_rows, 1);
    spool.retain_deferred(&first).unwrap();
    assert_eq!((spool.stats().pending_rows, spool.stats().pending_bytes, spool.stats().oldest), (0, 0, None));
    assert!(spool.next_deferred(None, 1 << 20).unwrap().is_empty());

    // Slices that have arrived are retained like all others, with their own timestamps, even across a
    // restart.
    drop(spool);
    let spool = fixture.open();
    let wanted: Vec<String> =
        stuck.iter().map(|(_, slice)| String::from_utf8(slice.bytes.to_vec()).unwrap()).collect();
    spool.resend(&[Uuid::from_u128(1)]).unwrap();
    let again = spool.next_resend(1 << 20).unwrap().unwrap();
    assert!(again.own_timestamps && texts(&again.chunk) == wanted);
    assert!(again.chunk.slices.iter().all(|slice| slice.timestamp_us == chunk.timestamp_us));
    spool.resent(&again, true).unwrap();
    assert!(spool.next_resend(1 << 20).unwrap().is_none());
    wait_until("dropped", || {
        fixture.clock.advance(61);
        spool.release(fixture.clock.now_ms());
        spool.stats().retained_bytes == 0
    });
    drop(spool);
    assert_eq!(fixture.open().resend(&[Uuid::from_u128(1)]).unwrap(), 0);
}

#[test]
fn a_deletion_changes_what_is_kept() {
    let mut fixture = Fixture::new();
    let spool = fixture.open();
    put(&spool, 0..4, "a");
    drain(&spool, 1 << 20);
    put(&spool, 0..4, "b");
    put(&spool, 0..4, "c");
    let mut change = |place: usize, _: i64, bytes: &[u8]| match (place, bytes.last()) {
        (0, _) => Edit::Remove,
        (_, Some(b'b')) => Edit::Replace(5, b"changed".to_vec()),
        _ => Edit::Keep,
    };
    spool.edit(&[id(1), id(2)], &mut change).unwrap();
    assert!(seen(&spool, 1).is_empty());
    assert_eq!(seen(&spool, 2), ["2 a", "changed", "2 c"]);
    assert_eq!(seen(&spool, 3), ["3 a", "3 b", "3 c"]);
    assert_eq!(drain(&spool, 1 << 20).len(), 6);
    // A slice that the edit removes no longer counts as pending.
    put(&spool, 9..10, "alone");
    spool.edit(&[id(9)], &mut |_, _, _| Edit::Remove).unwrap();
    assert!(drain(&spool, 1 << 20).is_empty());
    assert_eq!(spool.stats().pending_rows, 0);
}

/// Several threads commit while a sender drains the queue, long enough to fill tables and several logs. Each
/// slice must arrive once, and the slices of a metric in order.
#[test]
fn commits_and_the_sender_at_once() {
    const THREADS: u32 = 3;
    const ROUNDS: u32 = 150;
    const METRICS: u32 = 200;
    let mut fixture = Fixture::new();
    let spool = fixture.open();
    let mut received: BTreeMap<Id, Vec<u32>> = BTreeMap::new();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let spool = spool.clone();
            scope.spawn(move || {
                let state = vec![7; 150];
                for round in 0..ROUNDS {
                    let bytes = [round.to_le_bytes(); 30].concat();
                    let ids = (0..METRICS).map(|n| id(thread * METRICS + n));
                    let slices: Vec<_> = ids.clone().map(|id| Slice { id, rows: 2, bytes: &bytes }).collect();
                    let states: Vec<_> = ids.map(|id| State { id, bytes: &state }).collect();
                    spool.commit(&slices, &states).unwrap();
                }
            });
        }
        let mut position: Option<Position> = None;
        let mut left = THREADS * METRICS * ROUNDS;
        while left > 0 {
            let Some(chunk) = spool.next_chunk(position, 100_000).unwrap() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            position = Some(chunk.end);
            for slice in &chunk.slices {
                let round = u32::from_le_bytes(slice.bytes()[..4].try_into().unwrap());
                received.entry(slice.id).or_default().push(round);
                left -= 1;
            }
            spool.acknowledge(&chunk).unwrap();
        }
    });
    let rounds: Vec<u32> = (0..ROUNDS).collect();
    assert_eq!(received.len() as u32, THREADS * METRICS);
    assert!(received.values().all(|found| *found == rounds));
    assert_eq!(spool.stats().pending_rows, 0);
}
