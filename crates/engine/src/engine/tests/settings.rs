//! Changes of the aggregation method while points arrive, with restarts and flushes in between.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use plumbago_model::Aggregation;
use plumbago_store::{MetadataStore, SettingsChanger};

const METHODS: [Aggregation; 3] = [Aggregation::Average, Aggregation::Sum, Aggregation::AvgZero];

/// The windows of 10 slots over the last 9000 seconds, as a reader gets them.
async fn windows(engine: &Engine, name: &str) -> Vec<f64> {
    values(engine, &[name.to_owned()], 9000).await.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_windows_follow_the_last_method() {
    for seed in 0..30 {
        let mut random = StdRng::seed_from_u64(seed);
        let world = World::new();
        let (mut engine, _) = world.start().await;
        let (mut method, mut pushed) = (Aggregation::Average, START - 500);
        let mut known: Vec<(i64, f64)> = Vec::new();
        for _ in 0..random.random_range(3..12) {
            match random.random_range(0..4) {
                0 | 1 => {
                    let until = (pushed + random.random_range(1..120)).min(START);
                    world.clock.set(until);
                    let mut batch = PointBatch::default();
                    for time in pushed..until {
                        if random.random_bool(0.8) {
                            let value = f64::from(random.random_range(-50..50));
                            batch.push("m", time as u32, value);
                            known.push((time, value));
                        }
                    }
                    assert!(engine.push(batch).await);
                    pushed = until;
                }
                2 if !known.is_empty() => {
                    let new = METHODS[random.random_range(0..3)];
                    // The metric is created soon after its first point.
                    loop {
                        match engine.set_aggregation("m", new).await {
                            Err(ChangeError::Unknown(_)) => tokio::task::yield_now().await,
                            old => break assert_eq!(old.unwrap(), method, "seed {seed}"),
                        }
                    }
                    method = new;
                }
                _ => {
                    if random.random_bool(0.5) {
                        engine.flush_all().await.unwrap();
                    }
                    world.stop(engine).await;
                    engine = world.start().await.0;
                }
            }
        }
        if known.is_empty() {
            world.stop(engine).await;
            continue;
        }
        world.clock.set(START);
        let of_windows = known.chunk_by(|a, b| a.0 / 10 == b.0 / 10);
        let fold = |slots: &[(i64, f64)]| method.fold_all(slots.iter().map(|(_, value)| *value));
        let expected: Vec<f64> = of_windows.map(|slots| method.finish(fold(slots), 10)).collect();
        for flushes in 0..2 {
            assert_eq!(windows(&engine, "m").await, expected, "seed {seed} {method}, {flushes} flushes");
            engine.flush_all().await.unwrap();
        }
        world.stop(engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_the_windows_do_not_allow_is_refused() {
    let world = World::new();
    let (engine, _) = world.start().await;
    assert!(engine.push(batch(&["m".to_owned()], START, 1.0)).await);
    let refused = loop {
        match engine.set_aggregation("m", Aggregation::Max).await {
            Err(ChangeError::Unknown(_)) => tokio::task::yield_now().await,
            other => break other.unwrap_err().to_string(),
        }
    };
    assert!(refused.contains("\"m\" cannot change from average to max"), "{refused}");
    world.faults.fail_next(10_000);
    assert!(matches!(engine.set_aggregation("m", Aggregation::Sum).await, Err(ChangeError::Store(_))));
    world.faults.fail_next(0);
    assert_eq!(engine.set_aggregation("m", Aggregation::Sum).await.unwrap(), Aggregation::Average);
    world.stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_that_are_not_stored_are_read_whatever_their_age() {
    let world = World::new();
    let (engine, _) = world.start().await;
    let names: Vec<String> = (0..20).map(|n| format!("m{n}")).collect();
    let asked: Vec<Arc<str>> =
        names.iter().map(|name| Arc::from(name.as_str())).chain(["none".into()]).collect();
    // One point that is fifteen minutes old, in the oldest slots of the stage, and one ahead of now.
    for (time, value) in [(START - 990, 1.0), (START - 985, 2.0), (START, 3.0), (START + 15, 4.0)] {
        assert!(engine.push(batch(&names, time, value)).await);
    }
    // Late points reach the store soon, and the read waits for them.
    let found = engine.reader().pending_raw(&asked, START, 1000).await.unwrap().unwrap();
    let held = [(START as u32, 3.0), (START as u32 + 15, 4.0)];
    for points in &found[..20] {
        assert!(points.ends_with(&held), "{points:?}");
    }
    assert!(found[20].is_empty());
    assert_eq!(engine.reader().pending_raw(&asked, START, 39).await.unwrap(), None);
    engine.flush_all().await.unwrap();
    let found = engine.reader().pending_raw(&asked, START, 0).await.unwrap().unwrap();
    assert!(found.iter().all(Vec::is_empty), "{found:?}");
    world.stop(engine).await;
}

/// Another program has created the metric, but its points came before its name could be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_metric_that_is_known_late_takes_the_stored_settings() {
    let world = World::new();
    let (mut engine, _) = world.start().await;
    let stored = Arc::new(MetricConfig {
        retention: "5s:1000s,20s:20000s".parse().unwrap(),
        aggregation: Aggregation::Sum,
        x_files_factor: 0.0,
    });
    let meta = MetricMeta { name: "m".to_owned(), config: Arc::clone(&stored), created_on: 1 };
    world.memory.create(&[meta]).await.unwrap();
    world.faults.set_down(true);
    // Points in order, late points, and a point that is older than the raw stage.
    let times: Vec<i64> = (START - 300..=START).chain([START - 600, START - 599, START - 1500]).collect();
    let value = |time: i64| (time % 1009) as f64;
    let mut batch = PointBatch::default();
    times.iter().for_each(|time| batch.push("m", *time as u32, value(*time)));
    assert!(engine.push(batch).await);
    while engine.ledger().await.unwrap().queued > 0 {
        tokio::task::yield_now().await;
    }
    let in_use = async |engine: &Engine| engine.settings_in_use(&["m"]).await.unwrap().remove(0);
    assert_ne!(in_use(&engine).await, Some(Arc::clone(&stored)), "the storage rules say something else");
    world.faults.set_down(false);
    while in_use(&engine).await.as_ref() != Some(&stored) {
        tokio::task::yield_now().await;
    }

    let mut slots: Vec<(i64, f64)> = Vec::new();
    for time in [START - 600, START - 599].into_iter().chain(START - 300..=START) {
        slots.pop_if(|(slot, _)| *slot == time / 5);
        slots.push((time / 5, value(time)));
    }
    let raw: Vec<f64> = slots.iter().map(|(_, value)| *value).collect();
    let folded = slots.chunk_by(|a, b| a.0 / 4 == b.0 / 4);
    let folded = folded.map(|slots| slots.iter().map(|(_, value)| *value).sum::<f64>());
    let windows: Vec<f64> = [value(START - 1500)].into_iter().chain(folded).collect();
    let name = ["m".to_owned()];
    for starts in 0..2 {
        engine.flush_all().await.unwrap();
        assert_eq!(values(&engine, &name, 1000).await, std::slice::from_ref(&raw), "{starts} starts");
        assert_eq!(values(&engine, &name, 5000).await, std::slice::from_ref(&windows), "{starts} starts");
        let ledger = world.stop(engine).await;
        assert_eq!(ledger.missing(), 0);
        engine = world.start().await.0;
    }
    world.stop(engine).await;
}
