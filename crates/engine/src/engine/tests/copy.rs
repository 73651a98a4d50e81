//! Copies through the engine: the copy equals the original bit for bit, even after later points. A move
//! leaves nothing behind.

use plumbago_store::{CopyOptions, CopyReport, MetricCopier, MetricCopy};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// Times and bits of the values of the known slots of the last `seconds`.
async fn shown(engine: &Engine, name: &str, seconds: i64) -> Vec<(i64, u64)> {
    let request = last(engine, vec![Arc::from(name)], seconds);
    let Some(series) = engine.reader().fetch(&request).await.unwrap().pop() else { return Vec::new() };
    let slots = series.values.iter().enumerate().filter(|(_, value)| !value.is_nan());
    slots.map(|(at, value)| (series.start + at as i64 * i64::from(series.step), value.to_bits())).collect()
}

async fn copy(engine: &Engine, from: &str, to: &str, moves: bool) -> CopyReport {
    let copies = vec![MetricCopy { from: from.to_owned(), to: to.to_owned() }];
    let options = CopyOptions { moves, ..CopyOptions::default() };
    let report = engine.copy_metrics(copies, options).await.unwrap().remove(0);
    assert_eq!(report.refused, "");
    report
}

async fn compare(engine: &Engine, what: &str, from: &str, to: &str) {
    for seconds in [900, 5000] {
        assert_eq!(shown(engine, from, seconds).await, shown(engine, to, seconds).await, "{what} {seconds}");
    }
}

fn points(random: &mut StdRng, names: &[&str], times: std::ops::Range<i64>) -> PointBatch {
    let mut batch = PointBatch::default();
    for time in times {
        if random.random_bool(0.8) {
            let value = f64::from(random.random_range(0..1000i32)) / 7.0;
            names.iter().for_each(|name| batch.push(name, time as u32, value));
        }
    }
    batch
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_is_the_same_and_goes_on_in_the_same_way() {
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(seed);
        let world = World::new();
        let (mut engine, _) = world.start().await;
        let (from, to) = ("average.old", "average.new");
        let what = format!("seed {seed}");
        let middle = START - random.random_range(3..200);
        engine.push(points(&mut random, &[from], START - 600..middle)).await;
        assert!(!shown(&engine, from, 900).await.is_empty());
        if random.random_bool(0.5) {
            engine.flush_all().await.unwrap();
        }
        engine.push(points(&mut random, &[from], middle..START)).await;
        let before = shown(&engine, from, 5000).await;
        assert!(copy(&engine, from, to, false).await.created);
        assert_eq!(shown(&engine, from, 5000).await, before, "{what}");
        compare(&engine, &what, from, to).await;
        if random.random_bool(0.5) {
            world.stop(engine).await;
            engine = world.start().await.0;
        }
        // Copy again, with the points that arrived since the first copy. After that, both metrics get the
        // same points.
        world.clock.advance(60);
        engine.push(points(&mut random, &[from], START..START + 40)).await;
        copy(&engine, from, to, false).await;
        compare(&engine, &what, from, to).await;
        engine.push(points(&mut random, &[from, to], START + 40..START + 60)).await;
        compare(&engine, &what, from, to).await;
        engine.flush_all().await.unwrap();
        compare(&engine, &what, from, to).await;
        assert_eq!(engine.ledger().await.unwrap().missing(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_takes_everything_along() {
    let world = World::new();
    let (engine, _) = world.start().await;
    let mut random = StdRng::seed_from_u64(1);
    engine.push(points(&mut random, &["sum.old"], START - 300..START)).await;
    // One point ahead of now.
    let mut ahead = PointBatch::default();
    ahead.push("sum.old", (START + 100) as u32, 5.0);
    engine.push(ahead).await;
    let before = shown(&engine, "sum.old", 900).await;
    assert!(before.len() > 100);
    let report = copy(&engine, "sum.old", "sum.new", true).await;
    assert!(report.is_going && !report.stays, "{report:?}");
    assert_eq!(engine.contains(&["sum.old", "sum.new"]).await.unwrap(), [false, true]);
    assert_eq!(shown(&engine, "sum.new", 900).await, before);
    engine.end_deletions(&["sum.old"]).await.unwrap();
    world.clock.advance(120);
    let mut last = None;
    for _ in 0..20_000 {
        last = shown(&engine, "sum.new", 900).await.pop();
        if last.is_some_and(|(time, _)| time == START + 100) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(last, Some((START + 100, 5.0f64.to_bits())));
    assert_eq!(engine.ledger().await.unwrap().missing(), 0);
}
