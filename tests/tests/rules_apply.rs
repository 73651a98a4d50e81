//! `plumbago rules apply`: existing metrics get the settings of the current rules, in a running daemon, and
//! no point is lost.

use std::process::Stdio;

use plumbago_tests::child::cpu_of;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::number;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::Value;

use crate::slots::{Slots, put, shown_at, slots, windows};

const T0: i64 = 1_700_000_040;
const DAY: i64 = 86_400;

/// Rounds of one point for each metric that are sent before the change begins.
const QUIET_ROUNDS: i64 = 5;

const OLD: &str = "[all]\npattern = .*\nretentions = 60s:2d,1h:30d\n";
const NEW: &str = "[web]\npattern = ^web\\.\nretentions = 60s:3d,10m:40d,1h:100d\n[all]\npattern = .*\nretentions = 60s:2d,1h:30d\n";

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.clock(T0).schemas(OLD);
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    setup
}

fn shown(daemon: &Daemon, name: &str, seconds: i64) -> Slots {
    shown_at(daemon, name, seconds, T0)
}

/// Checks the stages of a metric after the change.
fn check_new(daemon: &Daemon, name: &str, wanted: &Slots) {
    assert_eq!(shown(daemon, name, 3 * DAY - 60), *wanted, "{name}");
    assert_eq!(shown(daemon, name, 20 * DAY), windows(wanted, 600), "{name}");
    assert_eq!(shown(daemon, name, 90 * DAY), windows(wanted, 3600), "{name}");
}

fn check_old(daemon: &Daemon, name: &str, wanted: &Slots) {
    assert_eq!(shown(daemon, name, 2 * DAY - 60), *wanted, "{name}");
    assert_eq!(shown(daemon, name, 20 * DAY), windows(wanted, 3600), "{name}");
}

fn points() -> Slots {
    slots((0..1500).map(|minute| T0 - 60 * minute))
}

fn apply(setup: &Setup, arguments: &[&str]) -> Value {
    let text = setup.run_well(&[&["rules", "apply", "--json"], arguments].concat());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_running_daemon_changes_its_metrics() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let mut wanted = points();
    for name in ["web.a", "web.b", "other"] {
        put(&daemon, name, &wanted);
    }
    daemon.wait_names(3);
    daemon.flush();
    assert_eq!(apply(&setup, &[])["changed"], 0);
    daemon.kill_journaled();
    setup.schemas(NEW);
    let daemon = setup.start_for_commands();
    let dry = setup.run_well(&["rules", "apply", "--dry-run"]);
    assert!(dry.contains("2 of 3 metrics would change; dry run"), "{dry}");
    assert!(dry.contains("1m:2d,1h:30d sum 0 -> 1m:3d,10m:40d,1h:100d sum 0"), "{dry}");
    check_old(&daemon, "web.a", &wanted);
    let done = apply(&setup, &["web.*"]);
    assert_eq!((&done["metrics"], &done["changed"]), (&2.into(), &2.into()), "{done}");
    assert!(done["points"].as_u64().unwrap() > 3000, "{done}");
    assert_eq!(apply(&setup, &[])["changed"], 0);
    let all = |daemon: &Daemon, wanted: &Slots| {
        check_new(daemon, "web.a", wanted);
        check_new(daemon, "web.b", wanted);
        check_old(daemon, "other", &points());
    };
    all(&daemon, &wanted);
    daemon.kill();
    let daemon = setup.start_for_commands();
    all(&daemon, &wanted);
    // A point on time and late points, some of them older than the old raw stage.
    let more = slots([T0, T0 - 100 * 60, T0 - 2 * DAY - 5 * 3600]);
    put(&daemon, "web.a", &more);
    put(&daemon, "web.b", &more);
    wanted.extend(more);
    all(&daemon, &wanted);
    daemon.flush();
    daemon.stop_well();
    let daemon = setup.start_for_commands();
    all(&daemon, &wanted);
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}

/// With `maintenance.apply_rules_every` the daemon applies the rules by itself. Without it, the daemon never
/// does.
#[test]
fn the_schedule_applies_the_rules() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let wanted = points();
    put(&daemon, "web.a", &wanted);
    daemon.wait_names(1);
    let job = |daemon: &Daemon| {
        let jobs: Value =
            serde_json::from_str(&http::get(daemon.admin(), "/admin/maintenance").body).unwrap();
        jobs.as_array().unwrap().iter().find(|job| job["job"] == "apply_rules").unwrap().clone()
    };
    assert_eq!(job(&daemon)["every_seconds"], 0);
    daemon.kill_journaled();
    setup.schemas(NEW).set("maintenance.apply_rules_every", "1s");
    let daemon = setup.start_for_commands();
    wait_until("the job to run", || job(&daemon)["runs"].as_u64() > Some(0));
    check_new(&daemon, "web.a", &wanted);
    daemon.stop_well();
}

#[test]
fn a_directory_at_rest_is_changed_too_and_a_loss_is_said() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let wanted = points();
    put(&daemon, "web.a", &wanted);
    daemon.wait_names(1);
    daemon.stop_well();
    setup.schemas("[all]\npattern = .*\nretentions = 60s:1d,1h:10d\n");
    let dry = setup.run_well(&["rules", "apply", "--dry-run"]);
    assert!(
        dry.contains("this loses points older than 10d; the resolution 1m of points older than 1d"),
        "{dry}"
    );
    setup.schemas("[all]\npattern = .*\nretentions = 10s:1d,1h:30d\n");
    let dry = setup.run_well(&["rules", "apply", "--dry-run"]);
    assert!(dry.contains("the resolution of the raw stage would change from 60s to 10s"), "{dry}");
    setup.schemas(NEW);
    assert_eq!(apply(&setup, &[])["changed"], 1);
    let daemon = setup.start_for_commands();
    check_new(&daemon, "web.a", &wanted);
    daemon.stop_well();
}

/// After a kill at any moment each metric has its old or its new settings, and every point. The same command
/// completes the change.
#[test]
fn a_kill_in_the_middle_loses_nothing() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let mut wanted = slots((0..300).map(|minute| T0 - 60 * minute));
    let names: Vec<String> = (0..400).map(|n| format!("web.m{n}")).collect();
    for name in &names {
        put(&daemon, name, &wanted);
    }
    daemon.wait_names(names.len());
    daemon.kill_journaled();
    setup.schemas(NEW);
    let mut daemon = setup.start_for_commands();
    for (round, part) in [50, 150, 250].into_iter().enumerate() {
        let mut command = setup.command(&["rules", "apply", "--rate", "50"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let changed = || {
            let info = setup.run_well(&["info", "--json", "web.*"]);
            info.lines().filter(|line| line.contains("10m")).count() as u64
        };
        // Points that arrive during the change: one in a new slot, and one for a slot that has a point.
        let more = slots([T0 - 60 * (300 + round as i64), T0]);
        names.iter().for_each(|name| put(&daemon, name, &more));
        wanted.extend(more);
        wait_until("a part of the metrics is changed", || changed() >= part);
        daemon.kill_journaled();
        child.wait().unwrap();
        daemon = setup.start_for_commands();
        for name in names.iter().step_by(7) {
            assert_eq!(shown(&daemon, name, 2 * DAY - 60), wanted, "{name}");
            let windows: f64 = shown(&daemon, name, 29 * DAY).values().sum();
            assert_eq!(windows, wanted.values().sum::<f64>(), "{name}");
        }
    }
    apply(&setup, &[]);
    assert_eq!(apply(&setup, &[])["changed"], 0);
    for name in &names {
        check_new(&daemon, name, &wanted);
    }
    daemon.stop_well();
}

/// Number of metrics of the test under load. `PLUMBAGO_METRICS=100000` gives the figures of
/// `docs/measurements.md`.
fn metrics_under_load() -> usize {
    number("PLUMBAGO_METRICS").unwrap_or(1000)
}

/// All metrics change while points of all of them arrive, and none is lost. Prints the cost of the change.
#[test]
fn metrics_change_under_load() {
    let mut setup = setup();
    let names: Vec<String> = (0..metrics_under_load()).map(|n| format!("web.m{n}")).collect();
    let daemon = setup.start_for_commands();
    let mut wanted = Slots::new();
    let round = |daemon: &Daemon, wanted: &mut Slots, slots: &Slots| {
        let points = |name: &String| {
            slots.iter().map(|(time, value)| Point::new(name, *time, *value)).collect::<Vec<_>>()
        };
        daemon.put(&names.iter().flat_map(points).collect::<Vec<_>>());
        wanted.extend(slots);
    };
    for minute in (0..120).rev().step_by(2) {
        round(&daemon, &mut wanted, &slots([T0 - 60 * minute]));
    }
    daemon.wait_names(names.len());
    let seconds = |began: std::time::Instant| began.elapsed().as_secs_f64();
    let (cpu, began) = (cpu_of(daemon.id()), std::time::Instant::now());
    for n in 0..QUIET_ROUNDS {
        round(&daemon, &mut wanted, &slots([T0 - 60 * (2 * n + 1)]));
    }
    let quiet = (cpu_of(daemon.id()) - cpu, seconds(began));
    daemon.kill_journaled();
    setup.schemas(NEW);
    let daemon = setup.start_for_commands();
    let (cpu, began) = (cpu_of(daemon.id()), std::time::Instant::now());
    // As fast as possible, so that many points arrive during the change.
    let mut command = setup.command(&["rules", "apply", "--rate", "0", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let child = std::thread::spawn(move || (child.wait_with_output().unwrap(), std::time::Instant::now()));
    let mut rounds = 0;
    while !child.is_finished() || rounds == 0 {
        round(&daemon, &mut wanted, &slots([T0 - 60 * (2 * (rounds % 10) + 1)]));
        rounds += 1;
    }
    let busy = (cpu_of(daemon.id()) - cpu, seconds(began));
    let (output, ended) = child.join().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["changed"], names.len());
    println!(
        "{} metrics changed in {:.1} s with {rounds} rounds beside it; the daemon's CPU {:.1} s in {:.1} s, and quiet \
         {QUIET_ROUNDS} rounds {:.1} s in {:.1} s; {} slots written",
        names.len(),
        ended.duration_since(began).as_secs_f64(),
        busy.0,
        busy.1,
        quiet.0,
        quiet.1,
        answer["points"],
    );
    assert!(daemon.ledger().balances());
    for name in names.iter().step_by(names.len().div_ceil(1000)) {
        check_new(&daemon, name, &wanted);
    }
    daemon.kill_journaled();
    let daemon = setup.start_for_commands();
    for name in names.iter().step_by(names.len().div_ceil(1000)) {
        check_new(&daemon, name, &wanted);
    }
    daemon.stop_well();
}
