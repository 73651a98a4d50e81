//! Stops that leave a checkpoint, and starts from it or, if it does not fit, without it.

use std::path::PathBuf;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// The number of metrics of the tests. They have three aggregation methods, with and without tags.
const NAMES: usize = 24;

fn all_names() -> Vec<String> {
    let name = |n: usize| match n % 4 {
        0 => format!("sum.of.m{n}"),
        1 => format!("max.of.m{n}"),
        2 => format!("web.m{n};host=h{n};é=ü"),
        _ => format!("web.m{n}"),
    };
    (0..NAMES).map(name).collect()
}

impl World {
    fn with_checkpoint() -> Self {
        Self { checkpoint: true, ..Self::new() }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("checkpoint")
    }

    /// Ends an engine as a kill would: nothing more reaches the store.
    async fn kill(&mut self, engine: Engine) {
        engine.journaled().await.unwrap();
        self.faults.set_down(true);
        std::fs::create_dir_all(self.file().with_extension("new")).unwrap();
        engine.stop(Duration::from_millis(1)).await;
        engine.0.parts.journal.clone().close().unwrap();
        std::fs::remove_dir(self.file().with_extension("new")).unwrap();
        self.faults = Faults::by_chance(1, 0.0);
    }
}

/// Sends points that are on time, late, too late or ahead of now.
async fn send_random(engine: &Engine, random: &mut StdRng, now: i64) {
    let names = all_names();
    let mut batch = PointBatch::default();
    for _ in 0..random.random_range(1..120) {
        let name = &names[random.random_range(0..names.len())];
        let age = match random.random_range(0..10) {
            0 => random.random_range(0..60),
            1 => random.random_range(0..700),
            2 => -random.random_range(0..300),
            _ => random.random_range(0..3),
        };
        batch.push(name, (now - age) as u32, f64::from(random.random_range(-50..50)) / 4.0);
    }
    assert!(engine.push(batch).await);
    engine.apply_queued().await.unwrap();
}

/// Everything that a reader can see: each metric over ranges that each of its stages answers.
async fn everything(engine: &Engine) -> Vec<Series> {
    let names: Vec<Arc<str>> = all_names().iter().map(|name| Arc::from(name.as_str())).collect();
    let mut seen = Vec::new();
    for seconds in [900, 9000] {
        let request = last(engine, names.clone(), seconds);
        seen.extend(engine.reader().fetch(&request).await.unwrap());
    }
    seen
}

/// Waits until two engines return the same points. A read does not wait long for late points, and future
/// points are released by the clock of the worker.
async fn same(engine: &Engine, other: &Engine, what: &str) {
    let mut differ = String::new();
    for _ in 0..100_000 {
        differ.clear();
        let (seen, expected) = (everything(engine).await, everything(other).await);
        assert_eq!(seen.len(), expected.len());
        for (at, (a, b)) in seen.iter().zip(&expected).enumerate() {
            assert_eq!((a.step, a.values.len()), (b.step, b.values.len()));
            let slots = a.values.iter().zip(&b.values).enumerate();
            for (slot, (a, b)) in slots.filter(|(_, (a, b))| a.to_bits() != b.to_bits()) {
                differ += &format!("{} {at} slot {slot}: {a} for {b}\n", all_names()[at % NAMES]);
            }
        }
        if differ.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{what}\n{differ}");
}

fn names_in(engine: &Engine) -> Vec<String> {
    let mut names = Vec::new();
    engine.0.parts.index.for_each(&mut |name| names.push(name.to_owned()));
    engine.0.parts.index.for_each_tagged(&mut |name| names.push(name.to_owned()));
    names.sort_unstable();
    names
}

/// Waits until late points are stored. A stop stores them too, which changes what is held, but not what is
/// read.
async fn settle(engine: &Engine) {
    loop {
        let read = engine.reader();
        let names = all_names().iter().map(|name| Arc::from(name.as_str())).collect();
        read.fetch(&last(engine, names, 1)).await.unwrap();
        let ledger = engine.ledger().await.unwrap();
        if ledger.queued == 0 && ledger.waiting == 0 {
            return;
        }
    }
}

/// Any sequence of points, flushes, stops and kills has the same result as one without stops and kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_are_the_same_after_any_stops_and_kills() {
    let first: u64 = std::env::var("PLUMBAGO_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let count: u64 = std::env::var("PLUMBAGO_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(6);
    let (mut used, mut unused) = (0, 0);
    for seed in first..first + count {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut world = World::with_checkpoint();
        // The twin gets the same points and is never stopped.
        let twin = World { clock: Arc::clone(&world.clock), ..World::new() };
        let (mut engine, _) = world.start().await;
        let (other, _) = twin.start().await;
        for step in 0..25 {
            world.clock.advance(random.random_range(1..60));
            let now = world.clock.now();
            let points = random.random::<u64>();
            send_random(&engine, &mut StdRng::seed_from_u64(points), now).await;
            send_random(&other, &mut StdRng::seed_from_u64(points), now).await;
            if random.random_range(0..8) == 0 {
                engine.flush_all().await.unwrap();
                other.flush_all().await.unwrap();
            }
            let what = random.random_range(0..4);
            match what {
                0 => {
                    settle(&engine).await;
                    let names = names_in(&engine);
                    let stopped = world.stop(engine).await;
                    assert_eq!(stopped.missing(), 0, "seed {seed}, step {step}");
                    let fate = random.random_range(0..8);
                    spoil(&world, &mut random, fate);
                    let recovered;
                    (engine, recovered) = world.start().await;
                    assert!(!world.file().exists());
                    println!("step {step}: fate {fate}, {recovered:?}");
                    assert_eq!(recovered.unexplained, 0);
                    let ledger = engine.ledger().await.unwrap();
                    if recovered.from_checkpoint {
                        used += 1;
                        assert_eq!(names_in(&engine), names);
                        assert_eq!(ledger.recovered, stopped.held, "seed {seed}, step {step}");
                        assert!(fate >= 4, "seed {seed}, step {step}: it was spoilt by {fate}");
                    } else {
                        unused += 1;
                        assert!(fate < 4, "seed {seed}, step {step}");
                    }
                    assert_eq!(ledger.missing(), 0, "seed {seed}, step {step}");
                }
                1 => {
                    world.kill(engine).await;
                    let recovered;
                    (engine, recovered) = world.start().await;
                    println!("step {step}: killed, {recovered:?}");
                    assert!(!recovered.from_checkpoint && recovered.unexplained == 0);
                    assert_eq!(engine.ledger().await.unwrap().missing(), 0, "seed {seed}, step {step}");
                }
                _ => {}
            }
            same(&engine, &other, &format!("seed {seed}, step {step}, after {what}")).await;
        }
        assert_eq!(world.stop(engine).await.missing(), 0);
        twin.stop(other).await;
    }
    assert!(used > 2 * count / 3 && unused > 2 * count / 3, "{used} used, {unused} not used");
}

/// Makes the checkpoint invalid in one of four ways.
fn spoil(world: &World, random: &mut StdRng, fate: u32) {
    let file = world.file();
    match fate {
        0 => std::fs::remove_file(file).unwrap(),
        1 => {
            let len = std::fs::metadata(&file).unwrap().len();
            let open = std::fs::File::options().write(true).open(file).unwrap();
            open.set_len(random.random_range(0..len)).unwrap();
        }
        2 => {
            let mut bytes = std::fs::read(&file).unwrap();
            let at = random.random_range(0..bytes.len());
            bytes[at] ^= 1 << random.random_range(0..8);
            std::fs::write(&file, bytes).unwrap();
        }
        // A kill between the note and the rename leaves the checkpoint under its temporary name.
        3 => std::fs::rename(&file, file.with_extension("new")).unwrap(),
        _ => {}
    }
}

/// Starts an engine, sends a point to each metric, and stops it.
async fn one_run(world: &World) -> Ledger {
    let (engine, _) = world.start().await;
    assert!(engine.push(batch(&all_names(), world.clock.now(), 1.0)).await);
    world.stop(engine).await
}

async fn has_all_points(engine: &Engine, count: usize) {
    let now = engine.0.parts.clock.now();
    for name in all_names() {
        let values = values(engine, std::slice::from_ref(&name), now - START + 10).await;
        assert_eq!(values[0].len(), count, "{name}");
    }
}

/// A checkpoint is used once, and only with the store, the journal and the number of shards that it was made
/// from.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_that_does_not_fit_is_not_used() {
    let mut world = World::with_checkpoint();
    let ledger = one_run(&world).await;
    assert_eq!((ledger.held, ledger.missing()), (NAMES as u64, 0));
    let old = std::fs::read(world.file()).unwrap();

    // A start with another number of shards.
    world.shards = 3;
    let (engine, recovered) = world.start().await;
    assert!(!recovered.from_checkpoint && recovered.replayed == NAMES as u64, "{recovered:?}");
    has_all_points(&engine, 1).await;
    world.stop(engine).await;

    // A start with an old checkpoint in place of the new one, even if the journal has not changed since then.
    std::fs::write(world.file(), &old).unwrap();
    world.shards = 2;
    let (engine, recovered) = world.start().await;
    assert!(!recovered.from_checkpoint);
    has_all_points(&engine, 1).await;
    world.stop(engine).await;

    // A name that another program adds to the store while no engine runs.
    let meta = MetricMeta { name: "web.added".to_owned(), config: (config_of("web"))(), created_on: 1 };
    MetadataStore::create(&world.memory, &[meta]).await.unwrap();
    let (engine, recovered) = world.start().await;
    assert!(!recovered.from_checkpoint);
    assert_eq!(names_in(&engine).len(), NAMES + 1);
    world.stop(engine).await;

    // The checkpoint fits now, and a second start no longer finds it.
    let kept = std::fs::read(world.file()).unwrap();
    let (engine, recovered) = world.start().await;
    assert!(recovered.from_checkpoint);
    world.clock.advance(1);
    assert!(engine.push(batch(&all_names(), world.clock.now(), 2.0)).await);
    world.kill(engine).await;
    std::fs::write(world.file(), kept).unwrap();
    let (engine, recovered) = world.start().await;
    assert!(!recovered.from_checkpoint);
    has_all_points(&engine, 2).await;
    assert_eq!(world.stop(engine).await.missing(), 0);
}

fn config_of(method: &'static str) -> impl Fn() -> Arc<MetricConfig> {
    move || {
        Arc::new(MetricConfig {
            retention: "1s:1000s,10s:10000s".parse().unwrap(),
            aggregation: if method == "web" { "average" } else { method }.parse().unwrap(),
            x_files_factor: 0.0,
        })
    }
}

/// Begins deletions, each of them as soon as its metric is created.
async fn begin_deletions(engine: &Engine, names: &[&str]) {
    let mut left = names.to_vec();
    while !left.is_empty() {
        let begun = engine.begin_deletions(&left).await.unwrap();
        let mut begun = begun.into_iter();
        left.retain(|_| begun.next() == Some(false));
        tokio::task::yield_now().await;
    }
}

/// New metrics get only numbers that occur nowhere in the journal, not even as those of deleted metrics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_deleted_metrics_stay_taken() {
    let mut world = World::with_checkpoint();
    let (engine, _) = world.start().await;
    let names = all_names();
    assert!(engine.push(batch(&names, START, 1.0)).await);
    let doomed: Vec<&str> = names[..5].iter().map(String::as_str).collect();
    begin_deletions(&engine, &doomed).await;
    MetadataStore::delete(&world.memory, &doomed).await.unwrap();
    engine.end_deletions(&doomed).await.unwrap();
    world.stop(engine).await;

    let (engine, recovered) = world.start().await;
    assert!(recovered.from_checkpoint);
    assert_eq!(names_in(&engine).len(), NAMES - 5);
    let new: Vec<String> = (0..5).map(|n| format!("web.new{n}")).collect();
    assert!(engine.push(batch(&new, START, 7.0)).await);
    world.kill(engine).await;
    let (engine, recovered) = world.start().await;
    assert_eq!(recovered.unexplained, 0);
    assert!(values(&engine, &new, 10).await.iter().all(|values| values == &[7.0]));
    assert!(values(&engine, &names[5..], 10).await.iter().all(|values| values == &[1.0]));
    assert_eq!(names_in(&engine).len(), NAMES);
    assert_eq!(world.stop(engine).await.missing(), 0);
}

/// While a job has only partly processed a metric, a stop stores everything that is in memory, as it does without a
/// checkpoint.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_in_the_middle_of_a_deletion_leaves_no_checkpoint() {
    let world = World::with_checkpoint();
    let (engine, _) = world.start().await;
    let names = all_names();
    assert!(engine.push(batch(&names, START, 1.0)).await);
    begin_deletions(&engine, &[&names[0]]).await;
    let ledger = world.stop(engine).await;
    assert_eq!(ledger.missing(), 0);
    assert!(!world.file().exists());
    let (engine, recovered) = world.start().await;
    // The deletion did not reach the metadata store.
    assert_eq!((recovered.from_checkpoint, recovered.metrics), (false, NAMES as u64));
    assert!(values(&engine, &names[1..], 10).await.iter().all(|values| values == &[1.0]));
    world.stop(engine).await;
}

/// If the file cannot be written, the stop completes anyway, and the next start has all points.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_that_cannot_be_written_costs_no_point() {
    let world = World::with_checkpoint();
    std::fs::create_dir(world.file().with_extension("new")).unwrap();
    let ledger = one_run(&world).await;
    assert_eq!((ledger.held, ledger.missing()), (NAMES as u64, 0));
    assert!(!world.file().exists());
    let (engine, recovered) = world.start().await;
    assert!(!recovered.from_checkpoint);
    has_all_points(&engine, 1).await;
    world.stop(engine).await;
}
