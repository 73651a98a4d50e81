//! More late points than memory can hold: they wait in the journal, and points that are on time are still
//! stored.

use super::*;
use crate::shard::LATE_POINTS;

const METRICS: usize = 400;
/// Number of late points of each metric, in consecutive slots.
const SLOTS: i64 = 800;
/// Number of points of each metric that are on time, in consecutive slots.
const ON_TIME: i64 = 50;

/// The value that is sent for a slot.
fn value(metric: usize, slot: i64) -> f64 {
    ((metric as i64 * 31 + slot) % 1009) as f64
}

/// A batch with a point of each metric at this timestamp.
fn of_all(names: &[String], timestamp: i64) -> PointBatch {
    let mut batch = PointBatch::default();
    for (metric, name) in names.iter().enumerate() {
        batch.push(name, timestamp as u32, value(metric, timestamp));
    }
    batch
}

/// Creates the metrics and flushes them, so that everything before [`START`] is late.
async fn begin(world: &World, engine: &Engine) -> Vec<String> {
    let names = names(engine, "sum", 0, METRICS);
    assert!(engine.push(of_all(&names, START)).await);
    applied(engine).await;
    world.clock.advance(100);
    engine.flush_all().await.unwrap();
    names
}

/// Sends late points, and in between some points that are on time.
async fn send(world: &World, engine: &Engine, names: &[String]) {
    for slot in 1..=SLOTS {
        assert!(engine.push(of_all(names, START - slot)).await);
        if slot % (SLOTS / ON_TIME) == 0 {
            world.clock.advance(1);
            assert!(engine.push(of_all(names, START + 100 + slot / (SLOTS / ON_TIME))).await);
        }
    }
}

/// Waits until the shards have applied everything.
async fn applied(engine: &Engine) -> Ledger {
    loop {
        let ledger = engine.ledger().await.unwrap();
        assert_eq!(ledger.missing(), 0, "{ledger:?}");
        if ledger.queued == 0 {
            return ledger;
        }
        tokio::task::yield_now().await;
    }
}

/// Compares all slots and windows with the points that were sent.
async fn check(engine: &Engine, names: &[String]) {
    let mut slots: Vec<i64> = (0..=SLOTS).rev().map(|slot| START - slot).collect();
    slots.extend((1..=ON_TIME).map(|slot| START + 100 + slot));
    let (raw, windows) = (values(engine, names, 1000).await, values(engine, names, 5000).await);
    for (metric, (raw, windows)) in raw.iter().zip(&windows).enumerate() {
        let expected: Vec<f64> = slots.iter().map(|slot| value(metric, *slot)).collect();
        assert!(*raw == expected, "slots of {}", names[metric]);
        let folded = slots.chunk_by(|a, b| a / 10 == b / 10);
        let folded: Vec<f64> =
            folded.map(|slots| slots.iter().map(|slot| value(metric, *slot)).sum()).collect();
        assert!(*windows == folded, "windows of {}: {windows:?} for {folded:?}", names[metric]);
    }
}

const SENT: u64 = METRICS as u64 * (1 + SLOTS as u64 + ON_TIME as u64);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_late_points_than_memory_holds_wait_while_the_store_is_away() {
    let world = World { shards: 1, ..World::new() };
    let (engine, _) = world.start().await;
    let names = begin(&world, &engine).await;
    world.faults.set_down(true);
    send(&world, &engine, &names).await;
    let ledger = applied(&engine).await;
    assert_eq!(ledger.received, SENT);
    let late = METRICS as u64 * SLOTS as u64;
    assert!(late > LATE_POINTS as u64 + 40_000);
    assert!(ledger.waiting > 0 && ledger.held >= late, "{ledger:?}");
    let conditions = &engine.0.parts.conditions;
    while !conditions.contains("late_points") {
        tokio::task::yield_now().await;
    }
    world.faults.set_down(false);
    engine.flush_all().await.unwrap();
    let ledger = engine.ledger().await.unwrap();
    assert_eq!((ledger.waiting, ledger.missing(), ledger.replaced), (0, 0, 0), "{ledger:?}");
    check(&engine, &names).await;
    while conditions.contains("late_points") {
        tokio::task::yield_now().await;
    }
    // Now there is room in memory, so new late points do not wait.
    assert!(engine.push(of_all(&names, START - SLOTS)).await);
    assert_eq!(applied(&engine).await.waiting, 0);
    check(&engine, &names).await;
    let ledger = world.stop(engine).await;
    assert_eq!((ledger.missing(), ledger.replaced), (0, METRICS as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_finds_the_late_points_that_waited_in_the_journal() {
    let mut world = World { shards: 1, ..World::new() };
    let (engine, _) = world.start().await;
    let names = begin(&world, &engine).await;
    world.faults.set_down(true);
    send(&world, &engine, &names).await;
    assert!(applied(&engine).await.waiting > 0);
    // A kill loses the points that were not passed to the kernel yet.
    let written = || engine.0.parts.registry.value("plumbago_journal_written_points_total");
    while written() != Some(SENT as f64) {
        tokio::task::yield_now().await;
    }
    // The stop stores nothing, as a kill would.
    let ledger = engine.stop(Duration::from_millis(1)).await;
    assert_eq!(ledger.missing(), 0);
    engine.0.parts.journal.clone().close().unwrap();

    // For the first engine, which may still retry, the store stays unreachable.
    world.faults = Faults::new();
    world.commits.set_closed(true);
    let (engine, recovered) = world.start().await;
    assert_eq!(recovered.unexplained, 0);
    let ledger = engine.ledger().await.unwrap();
    assert!(ledger.waiting > 0 && ledger.missing() == 0, "{ledger:?}");
    // New late points are queued behind those in the journal, so the last value of a slot wins.
    assert!(engine.push(batch(&names, START - 5, -1.0)).await);
    assert!(engine.push(of_all(&names, START - 5)).await);
    applied(&engine).await;
    world.commits.set_closed(false);
    engine.flush_all().await.unwrap();
    let ledger = applied(&engine).await;
    assert_eq!((ledger.waiting, ledger.missing()), (0, 0), "{ledger:?}");
    check(&engine, &names).await;
    assert_eq!(world.stop(engine).await.missing(), 0);
}
