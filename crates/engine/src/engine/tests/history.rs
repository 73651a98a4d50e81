//! Stores histories while points arrive, with restarts and flushes in between. No slot counts twice and none
//! is missing.

use plumbago_model::Aggregation;
use plumbago_store::{History, HistoryOptions, HistorySink, HistoryStage};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// The number of raw slots of both stages of [`World`], counted back from now.
const SLOTS: i64 = 900;

fn value(time: i64) -> f64 {
    ((time * 31) % 1009) as f64
}

fn config(method: &str) -> Arc<MetricConfig> {
    Arc::new(MetricConfig {
        retention: "1s:1000s,10s:10000s".parse().unwrap(),
        aggregation: method.parse().unwrap(),
        x_files_factor: 0.0,
    })
}

/// The history of a metric with the known slots `known`, and windows of 10 slots as whisper folds them.
fn history(name: &str, method: &str, known: &[i64]) -> History {
    let aggregation: Aggregation = method.parse().unwrap();
    let raw = known.iter().map(|time| (*time as u32, value(*time))).collect();
    let window = |times: &[i64]| {
        let slots = times.iter().map(|time| value(*time));
        ((times[0] / 10 * 10) as u32, aggregation.finish(aggregation.fold_all(slots), 10))
    };
    let coarse = known.chunk_by(|a, b| a / 10 == b / 10).map(window).collect();
    let stages = vec![
        HistoryStage { resolution: 1, points: raw, ..HistoryStage::default() },
        HistoryStage { resolution: 10, points: coarse, ..HistoryStage::default() },
    ];
    History { name: name.to_owned(), config: config(method), stages }
}

/// What a reader gets of a stage: the times and values of its known slots.
async fn shown(engine: &Engine, name: &str, seconds: i64) -> Vec<(i64, f64)> {
    let request = last(engine, vec![Arc::from(name)], seconds);
    let series = engine.reader().fetch(&request).await.unwrap().remove(0);
    let slots = series.values.iter().enumerate().filter(|(_, value)| !value.is_nan());
    slots.map(|(at, value)| (series.start + at as i64 * i64::from(series.step), *value)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_and_points_in_any_order_count_each_slot_once() {
    for seed in 0..60 {
        let mut random = StdRng::seed_from_u64(seed);
        let world = World::new();
        let (mut engine, _) = world.start().await;
        let method = ["sum", "average"][random.random_range(0..2)];
        let name = format!("{method}.{seed}");
        let begin = START - SLOTS;
        let (mut known, mut pushed) = (std::collections::BTreeSet::new(), begin);
        for _ in 0..random.random_range(2..8) {
            let until = (pushed + random.random_range(0..300)).min(START);
            match random.random_range(0..5) {
                0 | 1 => {
                    world.clock.set(until.max(pushed));
                    let mut batch = PointBatch::default();
                    for time in pushed..until {
                        if random.random_bool(0.9) {
                            batch.push(&name, time as u32, value(time));
                            known.insert(time);
                        }
                    }
                    assert!(engine.push(batch).await);
                    pushed = until;
                }
                2 | 3 => {
                    let (a, b) = (random.random_range(begin..=pushed), random.random_range(begin..=pushed));
                    let of_file: Vec<i64> =
                        (a.min(b)..a.max(b)).filter(|_| random.random_bool(0.7)).collect();
                    if of_file.is_empty() {
                        continue;
                    }
                    known.extend(&of_file);
                    let report = engine
                        .take(vec![history(&name, method, &of_file)], HistoryOptions::default())
                        .await
                        .unwrap();
                    assert_eq!(report[0].refused, "", "seed {seed}");
                }
                _ => {
                    engine.flush_all().await.unwrap();
                    if random.random_bool(0.5) {
                        let ledger = world.stop(engine).await;
                        assert_eq!(ledger.missing(), 0);
                        engine = world.start().await.0;
                    }
                }
            }
        }
        world.clock.set(START);
        loop {
            let ledger = engine.ledger().await.unwrap();
            assert_eq!(ledger.missing(), 0, "seed {seed}: {ledger:?}");
            if ledger.queued == 0 {
                break;
            }
            tokio::task::yield_now().await;
        }
        for flushes in 0..2 {
            if known.is_empty() {
                break;
            }
            let expected: Vec<(i64, f64)> = known.iter().map(|time| (*time, value(*time))).collect();
            assert_eq!(shown(&engine, &name, 1000).await, expected, "seed {seed}, {flushes} flushes");
            let times: Vec<i64> = known.iter().copied().collect();
            let windows = history(&name, method, &times).stages.remove(1).points;
            let coarse = shown(&engine, &name, 9000).await;
            assert_eq!(coarse.len(), windows.len(), "seed {seed}");
            for (ours, (time, expected)) in coarse.iter().zip(windows) {
                assert_eq!(ours.0, i64::from(time), "seed {seed}");
                assert!(
                    (ours.1 - expected).abs() < 1e-6,
                    "seed {seed} {method} {time}: {} {expected}",
                    ours.1
                );
            }
            engine.flush_all().await.unwrap();
        }
        world.stop(engine).await;
    }
}

/// A failed commit leaves the heads free, and repeating the call stores the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_could_not_be_stored_is_stored_by_a_repetition() {
    let world = World::new();
    let (engine, _) = world.start().await;
    let times: Vec<i64> = (START - 50..START).collect();
    let take = || engine.take(vec![history("sum.a", "sum", &times)], HistoryOptions::default());
    world.faults.fail_next(10_000);
    take().await.unwrap_err();
    world.faults.fail_next(0);
    let report = take().await.unwrap().remove(0);
    assert_eq!((report.stored, report.kept, report.refused.as_str()), (55, 0, ""));
    assert_eq!(shown(&engine, "sum.a", 1000).await.len(), 50);
    let report = take().await.unwrap().remove(0);
    assert!(report.kept >= 54, "{report:?}");
    let dry = HistoryOptions { dry_run: true, ..HistoryOptions::default() };
    let report = engine.take(vec![history("sum.b", "sum", &times)], dry).await.unwrap().remove(0);
    assert!(report.created && report.stored == 55, "{report:?}");
    assert_eq!(engine.contains(&["sum.b"]).await.unwrap(), [false]);
    world.stop(engine).await;
}

/// Whisper's sum of an open window starts at 0. A raw slot and a closed window keep the -0.0 of their file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zeros_of_a_file_have_the_sign_that_whisper_shows() {
    let open = START / 10 * 10;
    let closed = open - 10;
    for method in ["average", "sum"] {
        let world = World::new();
        let (engine, _) = world.start().await;
        world.clock.set(START + 5);
        let stage = |resolution: u32, of_open: f64| HistoryStage {
            resolution,
            points: vec![(closed as u32, -0.0), (open as u32, of_open)],
            ..HistoryStage::default()
        };
        let stages = vec![stage(1, -0.0), stage(10, 0.0)];
        let history = History { name: "zero".to_owned(), config: config(method), stages };
        engine.take(vec![history], HistoryOptions::default()).await.unwrap();
        for (seconds, of_open) in [(900, -0.0_f64), (9000, 0.0)] {
            let shown = shown(&engine, "zero", seconds).await;
            let bits: Vec<(i64, u64)> = shown.iter().map(|(time, value)| (*time, value.to_bits())).collect();
            let expected = [(closed, (-0.0_f64).to_bits()), (open, of_open.to_bits())];
            assert_eq!(bits, expected, "{method}, {seconds} s");
        }
        world.stop(engine).await;
    }
}

/// The file ends within a window that has ended by the clock. Whisper shows no value for it, because an
/// archive between had too few slots. Our readers show none either, until later points complete the window.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_last_window_that_whisper_hides_stays_hidden() {
    let end = START / 10 * 10;
    for method in ["average", "sum", "max"] {
        let world = World::new();
        let (engine, _) = world.start().await;
        world.clock.set(end + 2);
        let raw = (end - 10..end - 1).map(|time| (time as u32, 1.0)).collect();
        let stage = |resolution: u32, points| HistoryStage { resolution, points, ..HistoryStage::default() };
        let config = Arc::new(MetricConfig { x_files_factor: 0.9, ..(*config(method)).clone() });
        let history =
            History { name: "m".to_owned(), config, stages: vec![stage(1, raw), stage(10, Vec::new())] };
        engine.take(vec![history], HistoryOptions::default()).await.unwrap();
        assert_eq!(shown(&engine, "m", 900).await.len(), 9, "{method}");
        assert_eq!(shown(&engine, "m", 9000).await, [], "{method}");
        engine.push(batch(&["m".to_owned()], end - 1, 1.0)).await;
        let complete = if method == "sum" { 10.0 } else { 1.0 };
        assert_eq!(shown(&engine, "m", 9000).await, [(end - 10, complete)], "{method}");
        world.stop(engine).await;
    }
}
