//! Damage in the files of relay queues, of the log of open intervals and of events. The daemon starts and
//! reports what is lost, and new points and events are processed.
//!
//! `PLUMBAGO_SEED` is the seed of the positions.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use plumbago_tests::capture::own_address;
use plumbago_tests::daemon::{Daemon, Ended, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::{wait_for, wait_until};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use super::files::copy;
use super::{Base, Case, HARMS, Harm, START, seed, tail, wait_synced};
use crate::aggregation::line;
use crate::relay::balance;

/// Number of positions for each kind of damage in each kind of file.
const PLACES: usize = 3;
const METRICS: usize = 200;
const EVENTS: usize = 20;

/// A daemon that relays to an unreachable destination, and aggregates metrics in intervals of an hour.
fn setup(destination: SocketAddr) -> Setup {
    let mut setup = super::setup();
    let rules = setup.file("aggregation-rules.conf", "all.<group>.sum (3600) = sum queued.<group>.*\n");
    setup.set("aggregation.rules", rules.to_str().unwrap());
    setup.set("relay.destinations", &format!("line://{destination}"));
    setup
}

fn points(time: i64) -> Vec<Point> {
    (0..METRICS).map(|m| Point::new(format!("queued.g{}.m{m}", m % 7), time, m as f64)).collect()
}

/// What remains of points in queues, open intervals and events after a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kept {
    relayed: u64,
    folded: u64,
    events: usize,
}

impl Kept {
    fn of(daemon: &Daemon, destination: SocketAddr) -> Self {
        let found = http::get(daemon.api(), "/events/get_data?from=0&until=4000000000").body;
        let events: Value = serde_json::from_str(&found).unwrap();
        Self {
            relayed: balance(daemon, &destination.to_string())["recovered"],
            folded: line(daemon, "recovered"),
            events: events.as_array().unwrap().len(),
        }
    }
}

/// A directory as `kill -9` left it.
fn fill(into: &Path, destination: SocketAddr) -> Base {
    let setup = setup(destination);
    let daemon = setup.start();
    for minute in 0..5 {
        daemon.set_clock(START + 60 * minute);
        daemon.put(&points(START + 60 * minute));
    }
    for n in 0..EVENTS {
        let event =
            serde_json::json!({"what": format!("deploy {n}"), "tags": ["x"], "when": START + n as i64});
        let (status, answer) = http::post_json(daemon.api(), "/events/", &event);
        assert_eq!(status, 200, "{answer}");
    }
    let total = 5 * METRICS as u64;
    wait_until("the points in the queue", || balance(&daemon, &destination.to_string())["waiting"] == total);
    // The points are in the files some milliseconds later.
    wait_until("the points on the disk", || {
        let page = http::get(daemon.admin(), "/metrics").body;
        let bytes =
            page.lines().find_map(|line| line.strip_prefix("plumbago_relay_queue_bytes{")?.rsplit_once(' '));
        bytes.is_some_and(|(_, bytes)| bytes.parse::<f64>().is_ok_and(|bytes| bytes as u64 > total * 16))
    });
    wait_synced(&setup.data().join("aggregation"));
    daemon.kill();
    copy(&setup.data(), into);
    let mut base = Base::of("queues", into.to_owned());
    let wanted = ["relay/", "aggregation/", "events."];
    base.kinds.retain(|kind, _| wanted.iter().any(|part| kind.starts_with(part)));
    base
}

/// Starts the daemon and waits until it is ready. The error is the result of a process that ended.
fn launch(what: &str, setup: &Setup) -> Result<Daemon, Ended> {
    let mut daemon = setup.launch();
    let is_ready = wait_for(what, || {
        let is_ready = daemon.stdout().iter().any(|line| line == "ready");
        (is_ready || !daemon.runs()).then_some(is_ready)
    });
    if is_ready { Ok(daemon) } else { Err(daemon.wait()) }
}

fn run(case: &Case<'_>, setup: &Setup, destination: SocketAddr, sound: Kept) -> Result<(), String> {
    case.prepare(&setup.data());
    let daemon = match launch(&case.title(), setup) {
        Ok(daemon) => daemon,
        Err(Ended { status, output }) => {
            let is_said = matches!(status.code(), Some(4 | 5)) && is_named(case, &output);
            return if is_said { Ok(()) } else { Err(format!("refused: {status:?}\n{}", tail(&output))) };
        }
    };
    let result = check(case, &daemon, destination, sound);
    result.map_err(|problem| format!("{problem}\n{}", tail(&daemon.log())))?;
    daemon.kill();
    let again = launch(&case.title(), setup);
    again.map(Daemon::kill).map_err(|ended| format!("the next start failed\n{}", tail(&ended.output)))
}

/// Whether a text contains the name of the damaged file or of its directory.
fn is_named(case: &Case<'_>, text: &str) -> bool {
    let name = case.file.file_name().unwrap_or_default().to_string_lossy();
    let directory = case.file.parent().unwrap_or(Path::new("")).to_string_lossy();
    text.contains(&*name) || !directory.is_empty() && text.contains(&*directory)
}

/// Checks that the daemon reports what is lost, and keeps what it receives afterwards.
fn check(case: &Case<'_>, daemon: &Daemon, destination: SocketAddr, sound: Kept) -> Result<(), String> {
    let log = daemon.log();
    if log.contains("panicked") {
        return Err("a thread panicked".to_owned());
    }
    let kept = Kept::of(daemon, destination);
    let is_less = kept.relayed < sound.relayed || kept.folded < sound.folded || kept.events < sound.events;
    let is_said = is_named(case, &http::get(daemon.admin(), "/readyz").body)
        || log
            .lines()
            .any(|line| (line.contains(" WARN ") || line.contains(" ERROR ")) && is_named(case, line));
    let is_segment = case.file.extension().is_some_and(|extension| extension == "segment");
    let is_events = case.file.starts_with("events.jsonl");
    // A file that was cut between two frames looks like the file of a process that was killed at that point.
    // Frames in the middle of a segment are checked when they are sent, and then counted as dropped.
    let is_said_later = is_segment && matches!(case.harm, Harm::Flip | Harm::Zero);
    let is_like_a_kill = case.harm == Harm::Cut && !is_events;
    if is_less && !is_said && !is_like_a_kill && !is_said_later {
        return Err(format!("{kept:?} of {sound:?} are left, and nothing says so"));
    }
    let before = balance(daemon, &destination.to_string())["accepted"];
    let time = START + 600;
    daemon.set_clock(time);
    daemon.put(&points(time));
    wait_until("the new points in the queue", || {
        balance(daemon, &destination.to_string())["accepted"] >= before + METRICS as u64
    });
    let event = serde_json::json!({"what": "afterwards", "tags": ["x"], "when": START});
    let (status, answer) = http::post_json(daemon.api(), "/events/", &event);
    if status == 200 { Ok(()) } else { Err(format!("an event was refused: {answer}")) }
}

#[test]
fn damage_of_queues_and_events_is_said_and_survived() {
    let (directory, destination) = (tempfile::tempdir().unwrap(), own_address());
    let base = fill(directory.path(), destination);
    let kinds: BTreeSet<&str> = base.kinds.keys().filter_map(|kind| kind.split(['/', '.']).next()).collect();
    assert_eq!(kinds, BTreeSet::from(["aggregation", "events", "relay"]), "{:?}", base.kinds);
    let setup = setup(destination);
    copy(&base.directory, &setup.data());
    let daemon = launch("a start without damage", &setup).unwrap();
    let sound = Kept::of(&daemon, destination);
    assert_eq!((sound.relayed, sound.events), (5 * METRICS as u64, EVENTS), "{sound:?}");
    assert!(sound.folded > 0, "{sound:?}");
    daemon.kill();

    let mut random = StdRng::seed_from_u64(seed());
    let (mut number, mut failed) = (0, Vec::new());
    for files in base.kinds.values() {
        for harm in HARMS {
            for _ in 0..PLACES {
                let file = files[random.random_range(0..files.len())].clone();
                let case = Case { number, base: &base, file, harm, place: random.random_range(0.0..1.0) };
                number += 1;
                if let Err(problem) = run(&case, &setup, destination, sound) {
                    println!("FAILED {}: {problem}", case.title());
                    failed.push(case.title());
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} of {number} cases failed:\n{}", failed.len(), failed.join("\n"));
}
