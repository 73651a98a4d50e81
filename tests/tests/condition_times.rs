//! `/readyz` shows a condition at most five seconds after it begins, and drops it at most five seconds after
//! it ends.
//!
//! `PLUMBAGO_CONDITION_STEPS` sets the number of random steps, `PLUMBAGO_SEED` the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::Signal;
use plumbago_tests::capture::own_address;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::number;
use plumbago_tests::send::Point;
use plumbago_tests::small_disk::{SmallDisk, with_small_disk};
use plumbago_tests::wait::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

/// The longest time until `/readyz` shows a change: three times the promised five seconds, because other
/// tests run at the same time. The measured times are printed.
pub(crate) const LIMIT: Duration = Duration::from_secs(15);

fn has(daemon: &Daemon, name: &str) -> bool {
    let page: Value = serde_json::from_str(&http::get(daemon.admin(), "/readyz").body).unwrap();
    page["conditions"].as_array().unwrap().iter().any(|held| held["name"] == name)
}

/// Waits until `/readyz` has the condition, or no longer has it. Panics if that takes longer than the limit.
fn within_limit(daemon: &Daemon, name: &str, holds: bool) {
    let started = Instant::now();
    let what = if holds { "begins" } else { "ends" };
    wait_until(&format!("{name} {what}"), || has(daemon, name) == holds);
    let took = started.elapsed();
    println!("{name} {what} after {took:.1?}");
    assert!(took <= LIMIT, "{name} {what} after {took:.1?}");
}

fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

fn points(directory: &str, count: usize, time: i64) -> Vec<Point> {
    (0..count).map(|n| Point::new(format!("{directory}.m{n}"), time, 1.0)).collect()
}

#[test]
fn a_broken_reload() {
    let setup = Setup::new();
    setup.file("plumbago.toml", "[log]\nlevel = \"info\"\n");
    let daemon = setup.start();
    for (text, holds) in [("[log\n", true), ("[log]\nlevel = \"info\"\n", false)] {
        setup.file("plumbago.toml", text);
        daemon.signal(Signal::SIGHUP);
        within_limit(&daemon, "reload_failed", holds);
    }
}

#[test]
fn refused_points() {
    let mut setup = Setup::new();
    setup.set("engine.max_creates_per_minute", "5");
    let daemon = setup.start();
    daemon.put(&points("ahead", 100, now() + 40 * 86_400));
    within_limit(&daemon, "future", true);
    daemon.put(&points("new", 20, now()));
    within_limit(&daemon, "create_limited", true);
}

#[test]
fn a_destination_that_is_away() {
    let address = own_address();
    let mut setup = Setup::new();
    setup.set("relay.destinations", &format!("line://{address}"));
    let daemon = setup.start();
    within_limit(&daemon, "relay", true);
    let mut other = Setup::new();
    other.set("ingest.line.listen", &address.to_string());
    let destination = other.start();
    within_limit(&daemon, "relay", false);
    destination.kill();
    within_limit(&daemon, "relay", true);
}

/// The conditions that the random steps begin and end.
const NAMES: [&str; 4] = ["reload_failed", "relay", "future", "create_limited"];

/// The conditions of [`NAMES`] that the daemon reports now.
fn held(daemon: &Daemon) -> BTreeSet<&'static str> {
    NAMES.into_iter().filter(|name| has(daemon, name)).collect()
}

/// Problems begin and end in a random order. After each step `/readyz` and the gauges show exactly the
/// present ones, and the log has a line for each beginning and each end.
#[test]
fn troubles_come_and_go() {
    let (seed, steps) =
        (number("PLUMBAGO_SEED").unwrap_or(13), number("PLUMBAGO_CONDITION_STEPS").unwrap_or(40));
    println!("{steps} steps, seed {seed} (PLUMBAGO_CONDITION_STEPS, PLUMBAGO_SEED)");
    let mut random = StdRng::seed_from_u64(seed);
    let (address, mut clock) = (own_address(), now());
    let mut setup = Setup::new();
    setup.set("relay.destinations", &format!("line://{address}"));
    setup.set("engine.max_creates_per_minute", "5").clock(clock);
    setup.file("plumbago.toml", "[log]\nlevel = \"info\"\n");
    let mut other = Setup::new();
    other.set("ingest.line.listen", &address.to_string());
    let (daemon, mut destination) = (setup.start(), Some(other.start()));
    wait_until("the destination to be connected", || held(&daemon).is_empty());
    let mut expected: BTreeSet<&str> = BTreeSet::new();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for step in 0..steps {
        let before = expected.clone();
        let choice = random.random_range(0..5);
        let is_quiet = choice == 4;
        match choice {
            0 if expected.remove("reload_failed") => {
                setup.file("plumbago.toml", "[log]\nlevel = \"info\"\n");
                daemon.signal(Signal::SIGHUP);
            }
            0 => {
                expected.insert("reload_failed");
                setup.file("plumbago.toml", "[log\n");
                daemon.signal(Signal::SIGHUP);
            }
            1 => match destination.take() {
                Some(running) => {
                    expected.insert("relay");
                    running.kill();
                }
                None => {
                    expected.remove("relay");
                    destination = Some(other.start());
                }
            },
            2 => {
                expected.insert("future");
                daemon.put(&points("ahead", 100, clock + 40 * 86_400));
            }
            3 => {
                expected.insert("create_limited");
                daemon.put(&points(&format!("new{step}"), 40, clock));
            }
            _ => {
                // The condition about refusals ends after 150 s without a refusal.
                expected.retain(|name| !["future", "create_limited"].contains(name));
                clock += 200;
                daemon.set_clock(clock);
            }
        }
        let (started, mut moved) = (Instant::now(), Instant::now());
        wait_until(&format!("step {step}: {expected:?}"), || {
            // The daemon may have counted the last refusals only after the clock was moved.
            if is_quiet && moved.elapsed() > Duration::from_secs(2) {
                (clock, moved) = (clock + 200, Instant::now());
                daemon.set_clock(clock);
            }
            held(&daemon) == expected
        });
        assert!(
            started.elapsed() <= LIMIT,
            "step {step}: {before:?} to {expected:?}: {:?}",
            started.elapsed()
        );
        for name in before.symmetric_difference(&expected) {
            *lines.entry(*name).or_default() += 1;
        }
        let counters = daemon.counters();
        for name in NAMES {
            let gauge = counters.with("plumbago_condition", &format!("name=\"{name}\""));
            assert_eq!(gauge == 1, expected.contains(name), "step {step}: the gauge of {name}");
        }
    }
    for (name, count) in lines {
        let mark = format!("condition=\"{name}\"");
        wait_until(&format!("{count} lines of {name} in the log"), || {
            daemon.log().lines().filter(|line| line.contains(&mark)).count() >= count
        });
        let found = daemon.log().lines().filter(|line| line.contains(&mark)).count();
        assert!(found <= count + 2, "{name}: {found} lines for {count} beginnings and ends");
    }
}

#[test]
fn a_full_disk() {
    with_small_disk("condition_times::child_with_a_full_disk", 160);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_with_a_full_disk() {
    let Some(disk) = SmallDisk::here() else { return };
    let mut setup = Setup::new();
    setup.set("data_dir", disk.path().join("data").to_str().unwrap());
    setup.set("journal.min_free_bytes", "4MiB").set("store.embedded.min_free_bytes", "8MiB");
    let daemon = setup.start();
    daemon.put(&points("a", 1000, now()));
    let is_healthy = || daemon.counters().sum("plumbago_journal_healthy") == 1;
    wait_until("a journal that works", is_healthy);
    disk.fill();
    // The journal reserves space in advance, so the first points may still fit. A sender continues until it
    // has to wait.
    let mut sender = daemon.sender();
    sender.stream().set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let batch = plumbago_tests::send::lines(&points("b", 5000, now()));
    wait_until("the disk to be full for the journal", || {
        let _ = sender.try_bytes(batch.as_bytes());
        !is_healthy()
    });
    within_limit(&daemon, "journal", true);
    disk.empty();
    within_limit(&daemon, "journal", false);
    daemon.kill();
}
