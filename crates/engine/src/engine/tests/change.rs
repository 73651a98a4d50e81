//! Settings of metrics that change while points of them arrive, against a plain model.

use std::collections::BTreeMap;

use plumbago_store::{SettingsChange, SettingsChanger, SettingsReport};

use super::*;

/// Time and value.
type Points = BTreeMap<i64, f64>;

/// The raw stages of all of them cover everything that the random test stores.
const COVERING: [&str; 7] = [
    "1s:1000s,10s:10000s",
    "1s:2000s,10s:10000s",
    "1s:1000s",
    "1s:1000s,5s:2000s,20s:5000s",
    "1s:1500s,15s:3000s",
    "1s:1000s,10s:20000s,60s:40000s",
    "1s:3000s,60s:40000s",
];

fn config(retention: &str, method: &str) -> MetricConfig {
    MetricConfig {
        retention: retention.parse().unwrap(),
        aggregation: method.parse().unwrap(),
        x_files_factor: 0.0,
    }
}

async fn change(engine: &Engine, name: &str, config: &MetricConfig) -> SettingsReport {
    loop {
        let change = SettingsChange { name: name.to_owned(), config: Arc::new(config.clone()) };
        let report = engine.change_settings(vec![change]).await.unwrap().remove(0);
        if !report.is_busy {
            return report;
        }
    }
}

/// The known slots of the last `seconds`, which choose the stage.
async fn shown(engine: &Engine, name: &str, seconds: u64) -> Points {
    let now = engine.0.parts.clock.now();
    let request = FetchRequest { names: vec![Arc::from(name)], from: now - seconds as i64, until: now, now };
    let series = engine.reader().fetch(&request).await.unwrap().pop().unwrap();
    let slots = series.values.iter().enumerate().filter(|(_, value)| !value.is_nan());
    slots.map(|(at, value)| (series.start + at as i64 * i64::from(series.step), *value)).collect()
}

/// What a stage shows of these points.
fn folded(points: &Points, resolution: u32, method: &str) -> Points {
    let mut slots: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for (time, value) in points {
        let slot = slots.entry(time / i64::from(resolution) * i64::from(resolution)).or_default();
        *slot = (slot.0 + value, slot.1 + 1.0);
    }
    let finish = |(sum, count): (f64, f64)| if method == "sum" { sum } else { sum / count };
    slots.into_iter().map(|(time, slot)| (time, finish(slot))).collect()
}

async fn check_all(engine: &Engine, name: &str, config: &MetricConfig, method: &str, points: &Points) {
    for stage in config.retention.stages() {
        let wanted = folded(points, stage.resolution, method);
        assert_eq!(shown(engine, name, stage.duration()).await, wanted, "{stage} of {}", config.to_text());
    }
}

/// Random numbers without a crate.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Points on time and late ones, flushes, changes and restarts in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_stage_has_every_point_after_any_changes() {
    for seed in 1..=16_u64 {
        let mut chance = Chance(seed * 0x9e37_79b9_7f4a_7c15);
        let world = World::new();
        let (mut engine, _) = world.start().await;
        let metrics = [("sum.m", "sum"), ("m", "average")];
        let mut configs = metrics.map(|(_, method)| config(COVERING[0], method));
        let mut points = Points::new();
        for (name, _) in metrics {
            points.insert(START, 5.0);
            engine.push(batch(&[name.to_owned()], START, 5.0)).await;
        }
        // The metrics exist after a flush of applied points.
        engine.journaled().await.unwrap();
        engine.flush_all().await.unwrap();
        for _ in 0..14 {
            world.clock.advance(1 + chance.below(40) as i64);
            let now = world.clock.now();
            let mut batch = PointBatch::default();
            for _ in 0..1 + chance.below(60) {
                let back = if chance.below(4) == 0 { chance.below(300) } else { chance.below(25) };
                let (time, value) = (now - back as i64, chance.below(100) as f64);
                points.insert(time, value);
                metrics.iter().for_each(|(name, _)| batch.push(name, time as u32, value));
            }
            engine.push(batch).await;
            if chance.below(3) == 0 {
                engine.flush_all().await.unwrap();
            }
            for (known, (name, method)) in configs.iter_mut().zip(metrics) {
                if chance.below(2) == 0 {
                    let wanted = config(COVERING[chance.below(7) as usize], method);
                    let report = change(&engine, name, &wanted).await;
                    assert_eq!((report.changed, &*report.refused), (wanted != *known, ""), "{report:?}");
                    *known = wanted;
                }
                check_all(&engine, name, known, method, &points).await;
            }
            if chance.below(4) == 0 {
                assert_eq!(world.stop(engine).await.missing(), 0);
                engine = world.start().await.0;
            }
        }
        world.stop(engine).await;
    }
}

/// Where the raw stage has expired, a window goes into the slot in which it begins; but not if raw slots show where its
/// points are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finer_stage_gets_windows_only_where_no_points_are() {
    let world = World::new();
    let (engine, _) = world.start().await;
    let short = config("1s:100s,10s:10000s", "sum");
    engine.push(batch(&["sum.m".to_owned()], START, 1.0)).await;
    engine.journaled().await.unwrap();
    engine.flush_all().await.unwrap();
    assert!(change(&engine, "sum.m", &short).await.changed);
    for second in 1..=400 {
        world.clock.advance(1);
        engine.push(batch(&["sum.m".to_owned()], START + second, 1.0)).await;
        // Later it would be older than the raw stage.
        engine.journaled().await.unwrap();
    }
    engine.flush_all().await.unwrap();
    let now = world.clock.now();
    assert!(change(&engine, "sum.m", &config("1s:1000s,10s:10000s", "sum")).await.changed);
    let raw = shown(&engine, "sum.m", 1000).await;
    let (old, young): (Vec<_>, Vec<_>) = raw.into_iter().partition(|(time, _)| *time <= now - 100);
    assert_eq!(young, (now - 99..=now).map(|time| (time, 1.0)).collect::<Vec<_>>());
    assert!(old.iter().all(|(time, value)| time % 10 == 0 && (*value == 10.0 || *time == START)), "{old:?}");
    assert_eq!(old.first(), Some(&(START, 10.0)));
    assert_eq!(old.last().map(|(time, _)| *time), Some(now - 110));
    // The windows themselves are as before.
    let windows = shown(&engine, "sum.m", 10_000).await;
    assert_eq!(windows.values().sum::<f64>(), 401.0);
    assert_eq!(engine.ledger().await.unwrap().missing(), 0);
    world.stop(engine).await;
}

/// A change that cannot be made says why, and a store that fails leaves the metric with one of both settings and all of
/// its points.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_fails_loses_nothing() {
    let world = World::new();
    let (mut engine, _) = world.start().await;
    let name = ["sum.m".to_owned()];
    let mut points = Points::new();
    for second in 0..200 {
        world.clock.advance(1);
        points.insert(START + second, second as f64);
        engine.push(batch(&name, START + second, second as f64)).await;
    }
    engine.journaled().await.unwrap();
    engine.flush_all().await.unwrap();
    let refused = change(&engine, "sum.m", &config("1s:1000s,10s:10000s", "max")).await.refused;
    assert!(refused.contains("made by sum"), "{refused}");
    let refused = change(&engine, "sum.m", &config("2s:1000s,10s:10000s", "sum")).await.refused;
    assert!(refused.contains("from 1s to 2s"), "{refused}");
    assert_eq!(change(&engine, "none", &config("1s:9s", "sum")).await.refused, "there is no such metric");
    let old = config(COVERING[0], "sum");
    for (seed, retention) in COVERING.iter().enumerate().cycle().skip(1).take(40) {
        let wanted = config(retention, "sum");
        world.faults.set_chance(0.3 + seed as f64 * 0.02);
        let asked = vec![SettingsChange { name: name[0].clone(), config: Arc::new(wanted.clone()) }];
        let _ = engine.change_settings(asked).await;
        world.faults.set_chance(0.0);
        let stored = engine.0.parts.metadata.get(&["sum.m"]).await.unwrap().remove(0).unwrap();
        assert!(COVERING.iter().any(|known| *stored.config == config(known, "sum")), "{stored:?} {old:?}");
        check_all(&engine, "sum.m", &stored.config, "sum", &points).await;
        if seed % 3 == 0 {
            world.stop(engine).await;
            engine = world.start().await.0;
            check_all(&engine, "sum.m", &stored.config, "sum", &points).await;
        }
        world.clock.advance(1);
        let time = world.clock.now();
        points.insert(time, 3.0);
        engine.push(batch(&name, time, 3.0)).await;
    }
    world.stop(engine).await;
}
