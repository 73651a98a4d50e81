//! Ranges of time that are deleted through the engine.

use plumbago_store::{RangeDeleter, RangeReport, TimeRange};

use super::*;

fn push_batch(name: &str, times: impl Iterator<Item = i64>) -> PointBatch {
    let mut batch = PointBatch::default();
    times.for_each(|time| batch.push(name, time as u32, 1.0));
    batch
}

/// Times and values of the known slots of the last `seconds`.
async fn shown(engine: &Engine, name: &str, seconds: i64) -> Vec<(i64, f64)> {
    let request = last(engine, vec![Arc::from(name)], seconds);
    let Some(series) = engine.reader().fetch(&request).await.unwrap().pop() else { return Vec::new() };
    let slots = series.values.iter().enumerate().filter(|(_, value)| !value.is_nan());
    slots.map(|(at, value)| (series.start + at as i64 * i64::from(series.step), *value)).collect()
}

async fn delete(engine: &Engine, name: &str, from: i64, until: i64, dry_run: bool) -> RangeReport {
    let range = TimeRange { from: from as u32, until: until as u32 };
    loop {
        let report = engine.delete_range(&[name], range, dry_run).await.unwrap()[0];
        if !report.is_busy {
            return report;
        }
    }
}

/// A dry run returns the numbers of points that the deletion then removes from memory and from the store. A
/// restart brings nothing back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_range_stays_away() {
    let world = World::new();
    let (engine, _) = world.start().await;
    engine.push(push_batch("sum.m", START - 300..=START)).await;
    engine.push(push_batch("sum.other", START - 300..=START)).await;
    // A read waits until the points are applied; a flush does not.
    assert_eq!(shown(&engine, "sum.m", 400).await.len(), 301);
    engine.flush_all().await.unwrap();
    engine.push(push_batch("sum.m", START - 10..=START)).await;
    let (from, until) = (START - 203, START - 4);
    let before = shown(&engine, "sum.m", 400).await;
    let dry = delete(&engine, "sum.m", from, until, true).await;
    assert_eq!((dry.points, dry.windows, dry.kept), (199, 19, 0), "{dry:?}");
    assert_eq!(shown(&engine, "sum.m", 400).await, before);
    let done = delete(&engine, "sum.m", from, until, false).await;
    assert_eq!((done.exists, done.kept), (true, 0), "{done:?}");
    let wanted: Vec<_> = before.iter().copied().filter(|(time, _)| !(from..until).contains(time)).collect();
    let none = engine.delete_range(&["nobody"], TimeRange { from: 0, until: 5 }, false).await.unwrap();
    assert!(!none[0].exists);
    let mut engine = engine;
    for _ in 0..2 {
        assert_eq!(shown(&engine, "sum.m", 400).await, wanted);
        let windows: f64 = shown(&engine, "sum.m", 5000).await.iter().map(|(_, value)| value).sum();
        assert_eq!(windows, wanted.len() as f64);
        assert_eq!(shown(&engine, "sum.other", 400).await.len(), 301);
        assert_eq!(delete(&engine, "sum.m", from, until, true).await.points, 0);
        assert_eq!(engine.ledger().await.unwrap().missing(), 0);
        world.stop(engine).await;
        engine = world.start().await.0;
    }
    // Points that arrive after the deletion stay.
    engine.push(push_batch("sum.m", START - 100..START - 90)).await;
    let again: Vec<_> = shown(&engine, "sum.m", 400)
        .await
        .into_iter()
        .filter(|(time, _)| (from..until).contains(time))
        .collect();
    assert_eq!(again.len(), 10);
}

/// A store that fails ends the deletion with an error. The metric is still written and flushed, and the same call
/// succeeds later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_deletion_releases_the_metric() {
    let world = World::new();
    let (engine, _) = world.start().await;
    engine.push(push_batch("sum.m", START - 300..=START)).await;
    engine.flush_all().await.unwrap();
    world.faults.set_down(true);
    let range = TimeRange { from: (START - 95) as u32, until: (START - 50) as u32 };
    assert!(engine.delete_range(&["sum.m"], range, false).await.is_err());
    world.faults.set_down(false);
    world.clock.advance(10);
    engine.push(push_batch("sum.m", START + 1..=START + 10)).await;
    engine.flush_all().await.unwrap();
    delete(&engine, "sum.m", START - 95, START - 50, false).await;
    assert_eq!(shown(&engine, "sum.m", 400).await.len(), 311 - 45);
}
