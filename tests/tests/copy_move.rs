//! `plumbago copy` and `plumbago move`: every stage is available under another name, and no point is lost or
//! counted twice.

use std::process::Stdio;
use std::time::Duration;

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::Value;

use crate::slots::{Slots, put, shown_at, slots, windows};

const T0: i64 = 1_700_000_040;
const DAY: i64 = 86_400;

/// Pause between two rounds of points. A real metric gets a point every minute, and a copy needs a moment without new
/// points.
const PAUSE: Duration = Duration::from_millis(300);

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.clock(T0).schemas("[all]\npattern = .*\nretentions = 60s:2d,1h:30d\n");
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    setup
}

fn raw(daemon: &Daemon, name: &str) -> Slots {
    shown_at(daemon, name, 2 * DAY - 60, T0)
}

fn coarse(daemon: &Daemon, name: &str) -> Slots {
    shown_at(daemon, name, 29 * DAY, T0)
}

fn check(daemon: &Daemon, name: &str, wanted: &Slots) {
    assert_eq!(raw(daemon, name), *wanted, "{name}");
    assert_eq!(coarse(daemon, name), windows(wanted, 3600), "{name}");
}

/// The rows of a stage with their counts, without the name.
fn rows(setup: &Setup, name: &str, stage: &str) -> Vec<String> {
    let from = (T0 - 29 * DAY).to_string();
    let until = (T0 + DAY).to_string();
    let text = setup.run_well(&["read", "--from", &from, "--until", &until, "--stage", stage, name]);
    let row =
        |line: &str| line.strip_prefix(name).and_then(|rest| rest.strip_prefix('\t')).map(str::to_owned);
    text.lines().filter_map(row).collect()
}

fn answer(setup: &Setup, arguments: &[&str]) -> Value {
    let ended = setup.run(&[arguments, &["--json"]].concat());
    let line = ended.output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{arguments:?} {}", ended.output))).unwrap()
}

#[test]
fn a_copy_has_every_stage_with_its_counts() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    // Windows whose points are older than the raw stage, rows, an open window, and points in memory.
    let mut wanted = slots((0..1500).map(|minute| T0 - 60 * minute).filter(|time| time % 7 != 0));
    put(&daemon, "web.a.x", &wanted);
    put(&daemon, "load;host=a", &wanted);
    daemon.wait_names(1);
    daemon.flush();
    let more =
        slots((1..7).map(|n| T0 - 60 * n)).into_iter().chain(slots([T0 - 700 * 60])).collect::<Slots>();
    put(&daemon, "web.a.x", &more);
    wanted.extend(more);
    check(&daemon, "web.a.x", &wanted);

    let dry = setup.run_well(&["copy", "--dry-run", "web.a", "web.c"]);
    assert!(dry.contains("1 metrics, 1 copied") && dry.contains("dry run"), "{dry}");
    assert_eq!(daemon.names(), ["web.a.x"]);
    let done = answer(&setup, &["copy", "web.a", "web.c"]);
    assert_eq!(
        (&done["copied"], &done["created"], &done["kept"]),
        (&1.into(), &1.into(), &0.into()),
        "{done}"
    );
    check(&daemon, "web.a.x", &wanted);
    check(&daemon, "web.c.x", &wanted);
    let done = answer(&setup, &["copy", "load", "cpu.load"]);
    assert_eq!(done["copied"], 1, "{done}");
    assert_eq!(coarse(&daemon, "cpu.load;host=a"), coarse(&daemon, "load;host=a"));

    // A second copy counts nothing twice.
    let again = answer(&setup, &["copy", "web.a", "web.c"]);
    assert_eq!((&again["copied"], &again["merged"]), (&1.into(), &1.into()), "{again}");
    check(&daemon, "web.c.x", &wanted);

    // Both metrics continue in the same way: with a late point, newer ones, and a kill.
    let later = slots([T0 - 500 * 60, T0 - 30 * 60, T0]);
    put(&daemon, "web.a.x", &later);
    put(&daemon, "web.c.x", &later);
    wanted.extend(later);
    daemon.kill_journaled();
    let daemon = setup.start_for_commands();
    check(&daemon, "web.c.x", &wanted);
    daemon.set_clock(T0 + 7200);
    let newest = slots([T0 + 3660, T0 + 7200]);
    put(&daemon, "web.a.x", &newest);
    put(&daemon, "web.c.x", &newest);
    daemon.applied_at(daemon.ledger().received);
    daemon.flush();
    for stage in ["0", "1h"] {
        let old = rows(&setup, "web.a.x", stage);
        assert!(old.len() >= 25, "{stage}: {}", old.len());
        assert_eq!(old, rows(&setup, "web.c.x", stage), "{stage}");
    }
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}

#[test]
fn a_copy_at_rest_gets_another_retention_and_joins_what_is_there() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let old = slots((0..300).map(|minute| T0 - 60 * minute));
    let own = slots((200..400).map(|minute| T0 - 60 * minute));
    put(&daemon, "a.x", &old);
    put(&daemon, "b.x", &own.iter().map(|(time, value)| (*time, value + 1000.0)).collect());
    daemon.wait_names(2);
    daemon.stop_well();
    let done = answer(&setup, &["copy", "a", "b"]);
    assert_eq!((&done["merged"], &done["created"]), (&1.into(), &0.into()), "{done}");
    let done = answer(&setup, &["copy", "a.x", "c.x", "--overwrite", "--retention", "60s:3d,10m:20d,1h:30d"]);
    assert_eq!((&done["created"], &done["changed"]), (&1.into(), &1.into()), "{done}");
    let daemon = setup.start_for_commands();
    // Existing points are kept.
    let mut both = old.clone();
    both.extend(own.iter().map(|(time, value)| (*time, value + 1000.0)));
    check(&daemon, "b.x", &both);
    assert_eq!(raw(&daemon, "c.x"), old);
    assert_eq!(shown_at(&daemon, "c.x", 10 * DAY, T0), windows(&old, 600));
    assert_eq!(coarse(&daemon, "c.x"), windows(&old, 3600));
    for (arguments, code, text) in [
        (&["copy", "a.x", "a.x"], 2, "the same"),
        (&["move", "a", "a.b"], 2, "lies inside"),
        (&["copy", "a.*", "d"], 2, "glob"),
        (&["move", "nothing.here", "d"], 5, "no such metric"),
    ] {
        let ended = setup.run(arguments);
        assert!(ended.status.code() == Some(code) && ended.output.contains(text), "{}", ended.output);
    }
    let refused = setup.run(&["copy", "a.x", "d.x", "--retention", "10s:1d"]);
    assert!(refused.status.code() == Some(5), "{}", refused.output);
    assert!(refused.output.contains("resolution of the raw stage"), "{}", refused.output);
    daemon.stop_well();
}

/// Points arrive for all old names while the metrics move. Later points create new metrics, which are moved
/// too.
#[test]
fn a_move_under_load_loses_no_point() {
    let mut setup = setup();
    let names: Vec<String> = (0..300).map(|n| format!("old.m{n}.x")).collect();
    let daemon = setup.start_for_commands();
    let mut wanted = Slots::new();
    let round = |daemon: &Daemon, wanted: &mut Slots, slots: &Slots| {
        let points = |name: &String| {
            slots.iter().map(|(time, value)| Point::new(name, *time, *value)).collect::<Vec<_>>()
        };
        daemon.put(&names.iter().flat_map(points).collect::<Vec<_>>());
        wanted.extend(slots);
    };
    for minute in (1000..1060).rev() {
        round(&daemon, &mut wanted, &slots([T0 - 60 * minute]));
    }
    daemon.wait_names(names.len());
    let mut command = setup.command(&["move", "old", "new", "--rate", "200"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut minute = 1000;
    while child.try_wait().unwrap().is_none() && minute > 0 {
        minute -= 1;
        round(&daemon, &mut wanted, &slots([T0 - 60 * minute]));
        std::thread::sleep(PAUSE);
    }
    child.wait().unwrap();
    let new = |name: &str| name.replacen("old", "new", 1);
    wait_until("late points to be stored", || {
        names.iter().all(|name| raw(&daemon, name).len() + raw(&daemon, &new(name)).len() >= wanted.len())
    });
    for name in &names {
        // A metric that kept getting points may still have its old name. Then both names together have its points.
        let mut both = raw(&daemon, name);
        both.extend(raw(&daemon, &new(name)));
        assert_eq!(both, wanted, "{name}");
    }
    let done = answer(&setup, &["move", "old", "new"]);
    println!("{} rounds while the metrics moved; then {done}", 1000 - minute);
    for name in &names {
        assert!(raw(&daemon, name).is_empty(), "{name}");
        check(&daemon, &new(name), &wanted);
    }
    assert!(daemon.ledger().balances());
    daemon.kill_journaled();
    let daemon = setup.start_for_commands();
    for name in &names {
        check(&daemon, &new(name), &wanted);
    }
    daemon.stop_well();
}

#[test]
fn a_kill_in_the_middle_leaves_each_metric_whole() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let wanted = slots((0..200).map(|minute| T0 - 60 * minute));
    let names: Vec<String> = (0..600).map(|n| format!("old.m{n}")).collect();
    for name in &names {
        put(&daemon, name, &wanted);
    }
    daemon.wait_names(names.len());
    daemon.applied_at(daemon.ledger().received);
    daemon.flush();
    put(&daemon, "old.m0", &slots([T0]));
    daemon.kill_journaled();
    let mut daemon = setup.start_for_commands();
    let new = |name: &str| name.replacen("old", "new", 1);
    for part in [20, 120, 220, 320, 420] {
        let mut command = setup.command(&["move", "old", "new", "--rate", "100"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let moved = || daemon.names().iter().filter(|name| name.starts_with("new.")).count();
        wait_until("a part of the metrics to be moved", || moved() >= part);
        daemon.kill();
        child.wait().unwrap();
        daemon = setup.start_for_commands();
        for name in &names {
            let is_whole = |name: &str| raw(&daemon, name) == wanted;
            assert!(is_whole(&new(name)) || is_whole(name), "{name}");
        }
    }
    answer(&setup, &["move", "old", "new"]);
    assert!(daemon.names().iter().all(|name| name.starts_with("new.")), "{:?}", daemon.names());
    for name in &names {
        check(&daemon, &new(name), &wanted);
    }
    daemon.stop_well();
    let daemon = setup.start_for_commands();
    for name in &names {
        check(&daemon, &new(name), &wanted);
    }
    daemon.stop_well();
}

#[test]
fn on_cassandra_metrics_are_copied_and_moved() {
    const KEYSPACE: &str = "copy_move";
    let Some(server) = server::for_tests() else { return };
    let mut cql = server.connect().unwrap();
    server.drop_keyspaces(KEYSPACE).unwrap();
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 60s:2d,1h:30d\n");
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    setup.set("maintenance.settle", "100ms").set("engine.flush_interval", "1s");
    setup.on_cassandra(&server.contact_point(), KEYSPACE);
    let daemon = setup.start_for_commands();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let now = now / 60 * 60;
    let wanted = slots((0..180).map(|minute| now - 60 * minute));
    put(&daemon, "old.a.cpu", &wanted);
    put(&daemon, "old.b.cpu", &wanted);
    daemon.wait_names(2);
    let mut count = |table: &str| cql.query(&format!("SELECT * FROM {table}")).unwrap().iter().count();
    let table = format!("{KEYSPACE}.datapoints_2880p_60s_0");
    wait_until("all rows to be stored", || count(&table) == 2 * 180);
    let done = answer(&setup, &["copy", "old", "new"]);
    assert_eq!((&done["copied"], &done["created"]), (&2.into(), &2.into()), "{done}");
    assert_eq!(count(&table), 4 * 180);
    let seen = |daemon: &Daemon, name: &str| {
        [shown_at(daemon, name, DAY, now), shown_at(daemon, name, 29 * DAY, now)]
    };
    let both = [wanted.clone(), windows(&wanted, 3600)];
    for name in ["old.a.cpu", "new.a.cpu", "new.b.cpu"] {
        assert_eq!(seen(&daemon, name), both, "{name}");
    }
    let done = answer(&setup, &["move", "old", "newer"]);
    assert_eq!((&done["deleted"], &done["directories"]), (&2.into(), &3.into()), "{done}");
    wait_until("only two names' rows to be left", || count(&table) == 4 * 180);
    daemon.kill();
    let daemon = setup.start_for_commands();
    let mut names = daemon.names();
    names.sort();
    assert_eq!(names, ["new.a.cpu", "new.b.cpu", "newer.a.cpu", "newer.b.cpu"]);
    assert_eq!(seen(&daemon, "newer.b.cpu"), both);
    daemon.stop_well();
    server.clean_up(KEYSPACE).unwrap();
}
