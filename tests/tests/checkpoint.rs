//! Clean stops that leave a checkpoint, starts from it, and kills at any moment of either.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use plumbago_tests::counters::JOURNAL_WRITTEN;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::rounds::number;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const START: i64 = 1_700_000_000;
/// Number of metrics of the test, a tenth of them with tags.
const METRICS: usize = 3000;

/// The names, and what each slot must have.
struct World {
    setup: Setup,
    names: Vec<String>,
    now: i64,
    model: BTreeMap<(usize, i64), f64>,
    random: StdRng,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut setup = Setup::new();
        setup.schemas("[all]\npattern = .*\nretentions = 1s:1h,10s:1d\n");
        setup.set("engine.checkpoint_min_metrics", "1000").set("engine.shards", "2");
        let name = |n: usize| match n % 10 {
            0 => format!("stop.tagged{n};host=h{n}"),
            _ => format!("stop.g{}.m{n}", n % 37),
        };
        let names = (0..METRICS).map(name).collect();
        Self { setup, names, now: START, model: BTreeMap::new(), random: StdRng::seed_from_u64(seed) }
    }

    fn start(&mut self) -> Daemon {
        self.setup.clock(self.now).start()
    }

    /// Sends a point to many metrics, sometimes a late one, and waits until a kill cannot lose them.
    fn send(&mut self, daemon: &Daemon) {
        self.now += self.random.random_range(1..4);
        daemon.set_clock(self.now);
        let mut points = Vec::new();
        let all = self.model.is_empty();
        for (metric, name) in self.names.iter().enumerate() {
            if !all && self.random.random_range(0..3) > 0 {
                continue;
            }
            let late =
                if self.random.random_range(0..20) == 0 { self.random.random_range(0..300) } else { 0 };
            let (time, value) = (self.now - late, f64::from(self.random.random_range(0..1000)));
            self.model.insert((metric, time), value);
            points.push(Point::new(name.clone(), time, value));
        }
        daemon.put(&points);
        let received = daemon.ledger().received;
        wait_until("the journal to have all points", || daemon.counters().sum(JOURNAL_WRITTEN) >= received);
    }

    fn check(&self, daemon: &Daemon, what: &str) {
        let mut expected: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for ((metric, _), value) in &self.model {
            expected.entry(&self.names[*metric]).or_default().push(*value);
        }
        let mut found = 0;
        for target in ["stop.*.*", "seriesByTag('host=~h.*')"] {
            for series in daemon.render(target, START - 400, self.now, self.now) {
                let values: Vec<f64> = series.known().into_values().collect();
                assert_eq!(Some(&values), expected.get(&*series.name), "{what}: {}", series.name);
                found += 1;
            }
        }
        assert_eq!(found, METRICS, "{what}");
    }
}

#[test]
fn a_start_from_a_checkpoint_has_everything() {
    let mut world = World::new(1);
    let mut daemon = world.start();
    for round in 0..4 {
        for _ in 0..5 {
            world.send(&daemon);
        }
        let ended = daemon.stop_well();
        let line = ended.output.lines().find(|line| line.starts_with("ledger: ")).unwrap_or_default();
        assert!(line.ends_with("missing 0"), "{line}");
        assert!(world.setup.data().join("checkpoint").exists());
        daemon = world.start();
        assert!(daemon.log().contains("from_checkpoint=true"), "{}", daemon.log());
        assert!(!world.setup.data().join("checkpoint").exists());
        world.check(&daemon, &format!("round {round}"));
    }
    // After a start from a checkpoint the journal still has everything that is needed after a kill.
    world.send(&daemon);
    daemon.kill();
    let daemon = world.start();
    assert!(daemon.log().contains("from_checkpoint=false"), "{}", daemon.log());
    world.check(&daemon, "killed");
    // A command without a running daemon changes data that the checkpoint describes.
    daemon.stop_well();
    world.setup.run_well(&["delete", "stop.g1.*"]);
    world.names.iter().enumerate().filter(|(_, name)| name.starts_with("stop.g1.")).for_each(
        |(metric, _)| {
            world.model.retain(|(of, _), _| *of != metric);
        },
    );
    let daemon = world.start();
    let left = daemon.render("stop.g1.*", START - 400, world.now, world.now);
    assert!(left.is_empty(), "{} of the deleted metrics are back", left.len());
    daemon.stop_well();
}

/// Wrong bytes in the journal do not matter as long as no start needs its records. A start that needs them
/// reports the damage.
#[test]
fn a_start_from_a_checkpoint_does_not_read_the_journal() {
    let mut world = World::new(2);
    let daemon = world.start();
    for _ in 0..3 {
        world.send(&daemon);
    }
    daemon.stop_well();
    let journal = std::fs::read_dir(world.setup.data().join("journal")).unwrap();
    let logs = journal.map(|entry| entry.unwrap().path());
    let logs: Vec<PathBuf> = logs.filter(|path| path.extension().is_some_and(|end| end == "log")).collect();
    assert!(!logs.is_empty());
    for log in &logs {
        let len = std::fs::metadata(log).unwrap().len();
        std::fs::write(log, vec![0xa5_u8; len as usize]).unwrap();
    }
    let is_damaged =
        |daemon: &Daemon| daemon.counters().with("plumbago_condition", "name=\"damaged_data\"") == 1;
    let daemon = world.start();
    assert!(daemon.log().contains("from_checkpoint=true"), "{}", daemon.log());
    world.check(&daemon, "the journal is not read");
    assert!(!is_damaged(&daemon), "{}", daemon.log());
    daemon.kill();
    let daemon = world.start();
    wait_until("the damage to be said", || is_damaged(&daemon));
    let log = daemon.log();
    let is_named = |path: &PathBuf| log.contains(path.file_name().unwrap().to_str().unwrap());
    assert!(logs.iter().all(is_named), "{log}");
    daemon.kill();
}

/// The moments vary; none has to be hit exactly.
#[test]
fn kills_at_any_moment_of_a_stop_and_a_start_lose_nothing() {
    let seed = number("PLUMBAGO_SEED").unwrap_or(20_261_126);
    println!("seed {seed} (PLUMBAGO_SEED)");
    let mut world = World::new(seed);
    for round in 0..15 {
        let daemon = world.start();
        if round > 0 {
            world.check(&daemon, &format!("round {round}"));
        }
        for _ in 0..3 {
            world.send(&daemon);
        }
        daemon.signal(Signal::SIGTERM);
        std::thread::sleep(Duration::from_millis(world.random.random_range(0..250)));
        daemon.kill();
        if world.random.random_range(0..2) == 0 {
            let starting = world.setup.clock(world.now).launch();
            std::thread::sleep(Duration::from_millis(world.random.random_range(5..300)));
            starting.kill();
        }
    }
    let daemon = world.start();
    world.check(&daemon, "the end");
    daemon.stop_well();
}
