//! Changes of settings while points of the metrics arrive, compared with a simple model.

use std::collections::BTreeMap;

use plumbago_store::{SettingsChange, SettingsChanger, SettingsReport};

use super::*;

/// Points by time.
type Points = BTreeMap<i64, f64>;

/// Retentions whose raw stages cover everything that the random test stores.
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

/// The known slots of the last `seconds`. The length of the range decides which stage is read.
async fn shown(engine: &Engine, name: &str, seconds: u64) -> Points {
    let request = last(engine, vec![Arc::from(name)], seconds as i64);
    let series = engine.reader().fetch(&request).await.unwrap().pop().unwrap();
    let slots = series.values.iter().enumerate().filter(|(_, value)| !value.is_nan());
    slots.map(|(at, value)| (series.start + at as i64 * i64::from(series.step), *value)).collect()
}

/// The values that a stage should have for these points.
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

/// A generator of random numbers, without a dependency.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Tests punctual and late points, flushes, changes and restarts in any order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_stage_has_every_point_after_any_changes() {
    for seed in 1..=16_u64 {
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
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

/// Where the raw stage has expired, a window goes into the slot in which it begins, unless raw slots show the
/// places of its points.
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
        // A later point would be older than the raw stage.
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
    // The values of the windows have not changed.
    let windows = shown(&engine, "sum.m", 10_000).await;
    assert_eq!(windows.values().sum::<f64>(), 401.0);
    assert_eq!(engine.ledger().await.unwrap().missing(), 0);
    world.stop(engine).await;
}

/// A change that cannot be made returns the reason. If the store fails, the metric has either the old or the
/// new settings, and all of its points.
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

/// One call changes more metrics than are blocked at a time, some of them without points. Each of them
/// changes once and keeps all of its points. The same holds for a change of only the xFilesFactor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_metrics_change_in_one_call() {
    const MANY: usize = 2500;
    let world = World::new();
    let (engine, _) = world.start().await;
    let names: Vec<String> = (0..MANY).map(|n| format!("sum.m{n}")).collect();
    let mut points = Points::new();
    for second in 0..30 {
        world.clock.advance(1);
        points.insert(START + second, second as f64);
        // The other metrics get a point too, so that they exist, but none of their points reaches the store.
        let some = if second == 29 { &names[..] } else { &names[..500] };
        engine.push(batch(some, START + second, second as f64)).await;
        if second == 25 {
            engine.journaled().await.unwrap();
            engine.flush_all().await.unwrap();
        }
    }
    engine.journaled().await.unwrap();
    while engine.contains(&[names[MANY - 1].as_str()]).await.unwrap() != [true] {
        tokio::task::yield_now().await;
    }
    let last = Points::from([(START + 29, 29.0)]);
    // The xFilesFactor is small enough that a window with one point is shown.
    let factor = MetricConfig { x_files_factor: 0.01, ..config(COVERING[5], "sum") };
    for wanted in [config(COVERING[5], "sum"), factor] {
        let mut left: Vec<&String> = names.iter().collect();
        let mut changed = 0;
        while !left.is_empty() {
            let asked = left
                .iter()
                .map(|name| SettingsChange { name: (*name).clone(), config: Arc::new(wanted.clone()) });
            let reports = engine.change_settings(asked.collect()).await.unwrap();
            changed += reports.iter().filter(|report| report.changed).count();
            let mut reports = reports.into_iter();
            // A metric that is being created is requested again.
            left.retain(|_| reports.next().is_some_and(|report| report.is_busy || !report.changed));
        }
        assert_eq!(changed, MANY);
        for (at, name) in names.iter().enumerate().step_by(97) {
            let wanted_points = if at < 500 { &points } else { &last };
            check_all(&engine, name, &wanted, "sum", wanted_points).await;
        }
        let known = engine.settings_in_use(&[names[0].as_str()]).await.unwrap();
        assert_eq!(known, [Some(Arc::new(wanted))]);
    }
    assert_eq!(engine.ledger().await.unwrap().missing(), 0);
    world.stop(engine).await;
}

/// Retentions with short raw stages, so that coarser stages have points that finer ones no longer have.
const ANY: [&str; 8] = [
    "1s:300s,10s:10000s",
    "1s:180s,60s:10000s",
    "1s:200s",
    "1s:400s,5s:2000s,20s:5000s",
    "1s:1500s,15s:3000s,60s:9000s",
    "1s:190s,10s:1000s,60s:20000s",
    "1s:3000s,60s:40000s",
    "1s:300s,20s:600s,60s:3000s",
];
/// The length of every window divides this period. In seconds.
const PERIOD: i64 = 60;

/// A metric of the test with kills, and what is known about it.
struct Known {
    name: &'static str,
    method: &'static str,
    config: MetricConfig,
    points: Points,
    /// For points older than this, the metric may have had no stage.
    lost_before: i64,
    /// Periods that a stage covered only partly when the settings changed. In these periods a stage may show
    /// less than the whole value.
    borders: std::collections::BTreeSet<i64>,
}

impl Known {
    fn new(name: &'static str, method: &'static str) -> Self {
        let config = config("1s:1000s,10s:10000s", method);
        Self { name, method, config, points: Points::new(), lost_before: 0, borders: Default::default() }
    }

    /// Notes that the settings may have changed.
    fn note_change(&mut self, wanted: &MetricConfig, now: i64) {
        let retentions = [&self.config.retention, &wanted.retention];
        let reach = retentions.iter().map(|retention| retention.duration()).min().unwrap();
        self.lost_before = self.lost_before.max(now - reach as i64);
        for stage in retentions.iter().flat_map(|retention| retention.stages()) {
            self.borders.insert((now - stage.duration() as i64) / PERIOD * PERIOD);
        }
    }

    /// The sum or the maximum of each period.
    fn by_period(&self, points: &Points) -> Points {
        let mut periods = Points::new();
        for (time, value) in points {
            let period = periods.entry(time / PERIOD * PERIOD).or_insert(0.0_f64);
            *period = if self.method == "sum" { *period + value } else { period.max(*value) };
        }
        periods
    }

    /// Compares all stages. A read waits for late points only for a limited time, so it may have to be
    /// repeated on a busy machine. The limit of minutes is for a test that hangs.
    async fn check(&self, engine: &Engine, what: &str) {
        for _ in 0..4_000 {
            if self.difference(engine).await.is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{what}: {:?}", self.difference(engine).await);
    }

    async fn difference(&self, engine: &Engine) -> Option<String> {
        let now = engine.0.parts.clock.now();
        let wanted = self.by_period(&self.points);
        for stage in self.config.retention.stages() {
            let slots = shown(engine, self.name, stage.duration()).await;
            let got = self.by_period(&slots);
            let whole_from = now - stage.duration() as i64 + i64::from(stage.resolution);
            for (period, value) in &wanted {
                let shown = got.get(period).copied().unwrap_or(0.0);
                let is_exact = *period >= whole_from
                    && *period > self.lost_before + PERIOD
                    && !self.borders.contains(period);
                // Earlier periods may still have values from an earlier use of the same stage.
                let was_lost = *period <= self.lost_before + PERIOD;
                let is_right = if is_exact { shown == *value } else { was_lost || shown <= *value };
                if !is_right {
                    let (age, name, config) = (now - period, self.name, self.config.to_text());
                    let period = *period..period + PERIOD;
                    let points = (slots.range(period.clone()), self.points.range(period));
                    return Some(format!(
                        "{name} {config} stage {stage}: {shown} and not {value}, {age}s ago: {points:?}"
                    ));
                }
            }
            if let Some(more) = got.keys().find(|period| !wanted.contains_key(period)) {
                return Some(format!("{} {stage}: something at {more}", self.name));
            }
        }
        None
    }
}

/// Sends points to all metrics, both on time and late.
async fn send(engine: &Engine, chance: &mut Chance, now: i64, known: &mut [Known]) {
    let mut batch = PointBatch::default();
    for _ in 0..1 + chance.below(30) {
        let back = if chance.below(4) == 0 { chance.below(60) } else { chance.below(25) };
        let (time, value) = (now - back as i64, 1.0 + chance.below(100) as f64);
        for metric in &mut *known {
            metric.points.insert(time, value);
            batch.push(metric.name, time as u32, value);
        }
    }
    assert!(engine.push(batch).await);
}

/// Starts a change, lets the store fail after a few calls, and kills the engine. Returns the next engine.
async fn killed_change(
    world: &mut World,
    engine: Engine,
    chance: &mut Chance,
    known: &mut [Known],
    wanted: &[MetricConfig],
) -> (Engine, bool) {
    let now = world.clock.now();
    let asked = known.iter().zip(wanted);
    let asked = asked.map(|(known, config)| SettingsChange {
        name: known.name.to_owned(),
        config: Arc::new(config.clone()),
    });
    let asked: Vec<SettingsChange> = asked.collect();
    let before = world.faults.injected();
    // A change of all these metrics takes about ten calls.
    world.faults.set_down_after(chance.below(20) as u32);
    let changing = tokio::spawn({
        let engine = engine.clone();
        async move { engine.change_settings(asked).await.is_ok() }
    });
    for _ in 0..chance.below(3) {
        send(&engine, chance, now, known).await;
        tokio::task::yield_now().await;
    }
    engine.journaled().await.unwrap();
    while !changing.is_finished() && world.faults.injected() < before + 2 {
        tokio::task::yield_now().await;
    }
    let is_killed = world.faults.injected() > before;
    let engine = if is_killed {
        engine.journaled().await.unwrap();
        engine.stop(Duration::from_millis(1)).await;
        engine.0.parts.journal.clone().close().unwrap();
        world.faults = Faults::new();
        world.start().await.0
    } else {
        world.faults.set_down_after(u32::MAX);
        assert!(changing.await.unwrap());
        engine
    };
    (engine, is_killed)
}

/// After a kill at any call of the store, each metric has its old or its new settings, and every stage has
/// every point.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_moment_of_a_change_loses_nothing() {
    let first: u64 = std::env::var("PLUMBAGO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("PLUMBAGO_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(6);
    let (mut kills, mut new) = (0, 0);
    for seed in first..first + count {
        println!("seed {seed}");
        let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Two kinds of stores: one gets whole blocks, the other a few slots at every interval. Every second
        // run leaves checkpoints at its stops.
        let checkpoint = (seed / 2).is_multiple_of(2);
        let memory = MemoryStore::new([10, 1][seed as usize % 2]);
        let mut world = World { memory, checkpoint, ..World::new() };
        let (mut engine, _) = world.start().await;
        let mut known = [Known::new("sum.m", "sum"), Known::new("sum.n", "sum"), Known::new("max.m", "max")];
        send(&engine, &mut chance, START, &mut known).await;
        engine.journaled().await.unwrap();
        engine.flush_all().await.unwrap();
        let mut flushed = START;
        for step in 0..25 {
            world.clock.advance(1 + chance.below(40) as i64);
            let now = world.clock.now();
            send(&engine, &mut chance, now, &mut known).await;
            // In practice no head holds more than its raw stage keeps.
            let must_flush = now - flushed > 60;
            match chance.below(6) {
                _ if must_flush || chance.below(6) == 0 => {
                    // Wait for queued points: a point that arrives during a flush keeps the flushed slots in
                    // the head.
                    engine.journaled().await.unwrap();
                    engine.flush_all().await.unwrap();
                    flushed = now;
                }
                1 => {
                    assert_eq!(world.stop(engine).await.missing(), 0);
                    engine = world.start().await.0;
                }
                _ => {}
            }
            if chance.below(2) == 0 {
                continue;
            }
            let mut wanted = Vec::new();
            for metric in &mut known {
                let config = config(ANY[chance.below(ANY.len() as u64) as usize], metric.method);
                metric.note_change(&config, now);
                println!(
                    "step {step} at {now}: {} {} -> {}",
                    metric.name,
                    metric.config.to_text(),
                    config.to_text()
                );
                wanted.push(config);
            }
            let killed;
            (engine, killed) = killed_change(&mut world, engine, &mut chance, &mut known, &wanted).await;
            kills += u32::from(killed);
            for (metric, wanted) in known.iter_mut().zip(wanted) {
                let stored = engine.0.parts.metadata.get(&[metric.name]).await.unwrap().remove(0).unwrap();
                let stored = (*stored.config).clone();
                assert!(stored == metric.config || stored == wanted, "{stored:?}");
                assert!(killed || stored == wanted, "{stored:?}");
                new += u32::from(killed && stored == wanted && wanted != metric.config);
                println!("killed: {killed}: {}", stored.to_text());
                metric.config = stored;
            }
            for metric in &known {
                metric.check(&engine, &format!("seed {seed}, step {step}, killed: {killed}")).await;
            }
        }
        assert_eq!(world.stop(engine).await.missing(), 0);
        let (engine, _) = world.start().await;
        for metric in &known {
            metric.check(&engine, &format!("seed {seed}, at the end")).await;
        }
        world.stop(engine).await;
    }
    println!("{kills} kills, {new} metrics had the new settings after one");
    assert!(u64::from(kills) > count, "{kills} kills only");
}
