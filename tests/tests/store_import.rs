//! `plumbago import-store`: the metrics of one store reach another one with all stages, values and counts.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

use crate::slots::{Slots, put, shown_at, slots, windows};

const T0: i64 = 1_700_000_040;
const DAY: i64 = 86_400;
const HOUR: i64 = 3600;

/// Pause between two rounds of points. A real metric gets a point every minute, and an import needs a moment without
/// new points.
const PAUSE: Duration = Duration::from_millis(300);

/// A setup of a daemon whose clock is set to `T0`.
fn setup() -> Setup {
    let mut setup = setup_with("60s:2d,1h:30d");
    setup.clock(T0);
    setup
}

fn setup_with(retentions: &str) -> Setup {
    let mut setup = Setup::new();
    setup.schemas(&format!("[all]\npattern = .*\nretentions = {retentions}\n"));
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    setup
}

/// The configuration of a store, as a file. With a contact point and a keyspace, the store is in Cassandra.
fn other(setup: &Setup, tables: Option<(&str, &str)>) -> PathBuf {
    let path = |name: &str| setup.path().join(name);
    let mut text = format!(
        "data_dir = {:?}\nstorage_schemas = {:?}\nstorage_aggregation = {:?}\n",
        setup.data(),
        path("storage-schemas.conf"),
        path("storage-aggregation.conf")
    );
    if let Some((contact, keyspace)) = tables {
        text += "[store]\nkind = \"cassandra\"\n[store.cassandra]\ncomponents = 4\nindexes = \"none\"\n";
        text +=
            &format!("request_timeout = \"60s\"\nkeyspace = {keyspace:?}\ncontact_points = [{contact:?}]\n");
    }
    setup.file("other.toml", &text)
}

/// Imports a store and returns the report.
fn import(setup: &Setup, file: &Path, arguments: &[&str]) -> Value {
    let ended = setup.run(&[&["import-store", "--json", file.to_str().unwrap()], arguments].concat());
    let line = ended.output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{arguments:?} {}", ended.output))).unwrap()
}

/// The rows of a stage as they are stored: time, value and count.
fn rows(setup: &Setup, name: &str, stage: &str, from: i64, until: i64) -> Vec<String> {
    let (from, until) = (from.to_string(), until.to_string());
    let text = setup.run_well(&["read", "--from", &from, "--until", &until, "--stage", stage, name]);
    let row =
        |line: &str| line.strip_prefix(name).and_then(|rest| rest.strip_prefix('\t')).map(str::to_owned);
    text.lines().filter_map(row).collect()
}

fn raw(daemon: &Daemon, name: &str) -> Slots {
    shown_at(daemon, name, 2 * DAY - 60, T0)
}

fn coarse(daemon: &Daemon, name: &str) -> Slots {
    shown_at(daemon, name, 29 * DAY, T0)
}

fn check(daemon: &Daemon, name: &str, wanted: &Slots) {
    assert_eq!(raw(daemon, name), *wanted, "{name}");
    assert_eq!(coarse(daemon, name), windows(wanted, HOUR), "{name}");
}

fn put_all(daemon: &Daemon, names: &[String], slots: &Slots) {
    let points =
        |name: &String| slots.iter().map(|(time, value)| Point::new(name, *time, *value)).collect::<Vec<_>>();
    daemon.put(&names.iter().flat_map(points).collect::<Vec<_>>());
}

/// A source that was killed, with points of ten days ago, points that were flushed, and some that are only in
/// its journal.
fn killed_source() -> (Setup, Slots) {
    let mut source = setup();
    source.clock(T0 - 10 * DAY);
    let daemon = source.start_for_commands();
    let mut wanted = slots((0..90).map(|minute| T0 - 10 * DAY - 60 * minute));
    put(&daemon, "web.a.x", &wanted);
    daemon.wait_names(1);
    daemon.set_clock(T0);
    let newer = slots((0..1500).map(|minute| T0 - 60 * minute).filter(|time| time % 7 != 0));
    put(&daemon, "web.a.x", &newer);
    put(&daemon, "load;host=a", &newer);
    daemon.applied_at(daemon.ledger().received);
    daemon.flush();
    let newest = slots((1..7).map(|n| T0 - 60 * n).chain([T0 - 700 * 60]));
    put(&daemon, "web.a.x", &newest);
    put(&daemon, "only.journal", &newest);
    daemon.wait_names(2);
    daemon.kill_journaled();
    source.clock(T0);
    wanted.extend(newer);
    wanted.extend(newest);
    (source, wanted)
}

#[test]
fn a_killed_store_comes_with_its_journal_and_its_counts() {
    let (mut source, mut wanted) = killed_source();
    let file = other(&source, None);
    let mut here = setup();
    let dry = import(&here, &file, &["--dry-run"]);
    assert_eq!(
        (&dry["metrics"], &dry["created"], &dry["dry_run"]),
        (&json!(3), &json!(3), &json!(true)),
        "{dry}"
    );
    assert!(dry["stored"].as_u64() > Some(1500), "{dry}");
    let daemon = here.start_for_commands();
    assert!(daemon.names().is_empty(), "{:?}", daemon.names());
    assert!(coarse(&daemon, "load;host=a").is_empty());
    daemon.stop_well();

    let some = import(&here, &file, &["load;*", "only.*"]);
    assert_eq!((&some["metrics"], &some["created"]), (&json!(2), &json!(2)), "{some}");
    let done = import(&here, &file, &[]);
    assert_eq!((&done["metrics"], &done["created"]), (&json!(3), &json!(1)), "{done}");
    assert_eq!((&done["skipped"], &done["damage"]), (&json!({}), &json!([])), "{done}");
    assert!(!here.data().join("maintenance/import-store.list").exists());
    let daemon = here.start_for_commands();
    let there = source.start_for_commands();
    for name in ["web.a.x", "load;host=a", "only.journal"] {
        assert_eq!(raw(&daemon, name), raw(&there, name), "{name}");
        assert_eq!(coarse(&daemon, name), coarse(&there, name), "{name}");
        assert!(raw(&daemon, name).len() > 6, "{name}");
    }
    assert_eq!(coarse(&daemon, "web.a.x"), windows(&wanted, HOUR));

    // Both stores continue in the same way past the end of the open window, with a late point.
    let later = slots([T0 - 500 * 60, T0 + 60, T0 + HOUR, T0 + 2 * HOUR]);
    wanted.extend(&later);
    for daemon in [&daemon, &there] {
        daemon.set_clock(T0 + 2 * HOUR);
        put(daemon, "web.a.x", &later);
        daemon.applied_at(daemon.ledger().received);
        daemon.flush();
        assert_eq!(shown_at(daemon, "web.a.x", 29 * DAY, T0 + 2 * HOUR), windows(&wanted, HOUR));
    }
    for (stage, from, least) in [("0", T0 - 2 * DAY + 2 * HOUR, 1200), ("1h", T0 - 29 * DAY, 27)] {
        let old = rows(&source, "web.a.x", stage, from, T0 + DAY);
        assert!(old.len() >= least, "{stage}: {}", old.len());
        assert_eq!(rows(&here, "web.a.x", stage, from, T0 + DAY), old, "{stage}");
    }
    assert!(daemon.ledger().balances());
    daemon.stop_well();
    there.stop_well();
}

#[test]
fn to_cassandra_and_back() {
    const KEYSPACE: &str = "store_import";
    const RETENTIONS: &str = "60s:2d,5m:30d";
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let contact = server.contact_point();
    // The points end a minute before now, because a range may not end in the future. Their last windows are still
    // open.
    let now = (SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 - 660) / 60 * 60;
    let shown = |daemon: &Daemon, name: &str| {
        [shown_at(daemon, name, DAY, now + 900), shown_at(daemon, name, 29 * DAY, now + 900)]
    };
    let names = ["web.a", "web.b", "load;host=a"];
    let mut first = setup_with(RETENTIONS);
    let daemon = first.start_for_commands();
    let mut wanted = slots((0..180).map(|minute| now - 60 * minute));
    names.iter().for_each(|name| put(&daemon, name, &wanted));
    daemon.wait_names(2);
    daemon.applied_at(daemon.ledger().received);
    daemon.flush();
    daemon.stop_well();

    let mut middle = setup_with(RETENTIONS);
    middle.set("engine.flush_interval", "1s").on_cassandra(&contact, KEYSPACE);
    let done = import(&middle, &other(&first, None), &[]);
    assert_eq!((&done["created"], &done["skipped"]), (&json!(3), &json!({})), "{done}");
    let daemon = middle.start_for_commands();
    for name in names {
        assert_eq!(shown(&daemon, name), [wanted.clone(), windows(&wanted, 300)], "{name}");
        // The newest window is still open.
        for (stage, until, least) in [("0", now, 180), ("5m", now / 300 * 300 - 1, 35)] {
            let old = rows(&first, name, stage, now - DAY, until);
            assert!(old.len() >= least, "{name} {stage}: {}", old.len());
            assert_eq!(rows(&middle, name, stage, now - DAY, until), old, "{name} {stage}");
        }
    }
    // New points complete the window that was open, and start new windows.
    let newest = slots((1..=10).map(|minute| now + 60 * minute));
    names.iter().for_each(|name| put(&daemon, name, &newest));
    wanted.extend(newest);
    daemon.applied_at(daemon.ledger().received);
    for name in names {
        assert_eq!(shown(&daemon, name), [wanted.clone(), windows(&wanted, 300)], "{name}");
    }
    let itself = other(&middle, Some((&contact, KEYSPACE)));
    let refused = middle.run(&["import-store", itself.to_str().unwrap()]);
    assert!(refused.status.code() == Some(2) && refused.output.contains("into itself"), "{}", refused.output);

    // Imports back into the first store while the daemon runs.
    let mut cql = server.connect().unwrap();
    let mut count =
        |table: &str| cql.query(&format!("SELECT * FROM {KEYSPACE}.{table}")).unwrap().iter().count();
    wait_until("all rows to be stored", || count("datapoints_2880p_60s_0") == names.len() * wanted.len());
    let mut last = setup_with(RETENTIONS);
    let done = import(&last, &itself, &[]);
    assert_eq!((&done["created"], &done["skipped"]), (&json!(3), &json!({})), "{done}");
    let back = last.start_for_commands();
    for name in names {
        assert_eq!(shown(&back, name), [wanted.clone(), windows(&wanted, 300)], "{name}");
        // The daemon has not stored its open windows, so the import computes them from the raw slots.
        for (stage, until, least) in [("0", now + 600, 190), ("5m", now / 300 * 300 - 1, 35)] {
            let old = rows(&middle, name, stage, now - DAY, until);
            assert!(old.len() >= least, "{name} {stage}: {}", old.len());
            assert_eq!(rows(&last, name, stage, now - DAY, until), old, "{name} {stage}");
        }
    }
    // A second import, by the daemon, counts nothing twice.
    let again = import(&last, &itself, &[]);
    assert_eq!((&again["created"], &again["skipped"]), (&json!(0), &json!({})), "{again}");
    names.iter().for_each(|name| {
        assert_eq!(shown(&back, name), [wanted.clone(), windows(&wanted, 300)], "{name}");
    });
    back.stop_well();
    daemon.stop_well();
    server.clean_up(KEYSPACE).unwrap();
}

/// The command is killed again and again. The process of the command has both stores open.
#[test]
fn a_run_that_was_killed_goes_on() {
    let mut source = setup();
    let daemon = source.start_for_commands();
    let wanted = slots((0..200).map(|minute| T0 - 60 * minute));
    let names: Vec<String> = (0..300).map(|n| format!("web.m{n}.x")).collect();
    put_all(&daemon, &names, &wanted);
    daemon.wait_names(names.len());
    daemon.stop_well();
    let file = other(&source, None);
    let mut here = setup();
    let list = here.data().join("maintenance/import-store.list");
    let stored = || {
        let text = std::fs::read_to_string(&list).unwrap_or_default();
        text.lines().filter(|line| line.starts_with('"')).count()
    };
    let arguments = ["import-store", "--workers", "1", "--rate", "40", file.to_str().unwrap()];
    for part in [1, 65, 129, 193] {
        let mut command = here.command(&arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("a part of the metrics to be stored", || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended before {part} metrics were stored: {ended:?}");
            stored() >= part
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let done = import(&here, &file, &[]);
    assert!(done["stored_before"].as_u64() >= Some(193), "{done}");
    assert_eq!((&done["metrics"], &done["skipped"]), (&json!(300), &json!({})), "{done}");
    assert!(!list.exists());
    let daemon = here.start_for_commands();
    assert_eq!(daemon.names().len(), names.len());
    for name in &names {
        check(&daemon, name, &wanted);
    }
    daemon.stop_well();
}

/// The destination gets live points for the same metrics before and during the import of the history, and is killed
/// during it.
#[test]
fn live_points_win_and_nothing_counts_twice() {
    let mut source = setup();
    let daemon = source.start_for_commands();
    let theirs = slots((0..300).map(|minute| T0 - 60 * minute));
    let names: Vec<String> = (0..200).map(|n| format!("web.m{n}.x")).collect();
    put_all(&daemon, &names, &theirs);
    daemon.wait_names(names.len());
    daemon.stop_well();
    let file = other(&source, None);

    let mut here = setup();
    let mut daemon = here.start_for_commands();
    let live = |minutes: std::ops::RangeInclusive<i64>| -> Slots {
        let slots = slots(minutes.map(|minute| T0 - 60 * minute));
        slots.into_iter().map(|(time, value)| (time, value + 1000.0)).collect()
    };
    let mut wanted = theirs;
    let mut round = |daemon: &Daemon, slots: Slots| {
        put_all(daemon, &names, &slots);
        wanted.extend(slots);
    };
    round(&daemon, live(15..=80));
    daemon.wait_names(names.len());
    let arguments = ["import-store", "--rate", "100", file.to_str().unwrap()];
    let mut minutes = (0..15).rev();
    for kills in [true, false] {
        let mut command = here.command(&arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let list = here.data().join("maintenance/import-store.list");
        while child.try_wait().unwrap().is_none() {
            let has_begun = std::fs::read_to_string(&list).is_ok_and(|text| text.lines().count() > 60);
            if kills && has_begun {
                daemon.kill_journaled();
                child.wait().unwrap();
                daemon = here.start_for_commands();
                break;
            }
            if let Some(minute) = minutes.next() {
                round(&daemon, live(minute..=minute));
            }
            std::thread::sleep(PAUSE);
        }
    }
    for minute in minutes {
        round(&daemon, live(minute..=minute));
    }
    let done = import(&here, &file, &[]);
    assert_eq!((&done["skipped"], &done["created"]), (&json!({}), &json!(0)), "{done}");
    let is_right = |daemon: &Daemon, name: &String| {
        raw(daemon, name) == wanted && coarse(daemon, name) == windows(&wanted, HOUR)
    };
    wait_until("late points to be stored", || names.iter().all(|name| is_right(&daemon, name)));
    assert!(daemon.ledger().balances());
    // The windows that were open are closed by points of later hours.
    let mut later = wanted.clone();
    let newest = slots([T0 + 60, T0 + HOUR, T0 + 2 * HOUR]);
    later.extend(&newest);
    daemon.set_clock(T0 + 2 * HOUR);
    put_all(&daemon, &names, &newest);
    daemon.applied_at(daemon.ledger().received);
    daemon.flush();
    for name in &names {
        assert_eq!(shown_at(&daemon, name, 29 * DAY, T0 + 2 * HOUR), windows(&later, HOUR), "{name}");
    }
    daemon.stop_well();
}

#[test]
fn new_metrics_get_the_settings_of_the_rules_if_asked_for() {
    let mut source = setup();
    let daemon = source.start_for_commands();
    let wanted = slots((0..300).map(|minute| T0 - 60 * minute));
    put(&daemon, "web.a.x", &wanted);
    daemon.wait_names(1);
    daemon.stop_well();
    let file = other(&source, None);

    let mut here = setup_with("60s:3d,10m:20d,1h:30d");
    here.clock(T0);
    let done = import(&here, &file, &["--rules"]);
    assert_eq!((&done["created"], &done["left_out"]), (&json!(1), &json!(0)), "{done}");
    let daemon = here.start_for_commands();
    check(&daemon, "web.a.x", &wanted);
    assert_eq!(shown_at(&daemon, "web.a.x", 10 * DAY, T0), windows(&wanted, 600));
    daemon.stop_well();

    // Windows with counts cannot be converted to another raw resolution.
    let mut finer = setup_with("10s:3d,1h:30d");
    finer.clock(T0);
    let ended = finer.run(&["import-store", "--rules", file.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(5), "{}", ended.output);
    assert!(ended.output.contains("web.a.x: the rules give it other settings"), "{}", ended.output);
    let done = import(&finer, &file, &[]);
    assert_eq!((&done["created"], &done["skipped"]), (&json!(1), &json!({})), "{done}");
    let daemon = finer.start_for_commands();
    check(&daemon, "web.a.x", &wanted);
    daemon.stop_well();
}

#[test]
fn stores_that_cannot_be_read_are_refused() {
    let mut source = setup();
    let mut here = setup();
    let refused = |here: &Setup, file: &Path, code: i32, text: &str| {
        let ended = here.run(&["import-store", file.to_str().unwrap()]);
        assert_eq!(ended.status.code(), Some(code), "{}", ended.output);
        assert!(ended.output.contains(text), "{}", ended.output);
    };
    refused(&here, &here.path().join("missing.toml"), 3, "cannot be read");
    refused(&here, &here.file("broken.toml", "data_dir = \n"), 3, "broken.toml");
    refused(&here, &here.file("unknown.toml", "data_dirr = \"/tmp\"\n"), 3, "data_dirr");
    // The store was never used.
    let file = other(&source, None);
    refused(&here, &file, 4, "no daemon has used it");
    assert!(!source.data().exists());
    let daemon = source.start_for_commands();
    put(&daemon, "web.a.x", &slots([T0]));
    daemon.wait_names(1);
    refused(&here, &file, 4, "a daemon uses it");
    daemon.stop_well();
    let itself = other(&here, None);
    refused(&here, &itself, 2, "into itself");
    let daemon = here.start_for_commands();
    refused(&here, &itself, 2, "into itself");
    assert!(daemon.names().is_empty());
    let globs = here.run(&["import-store", file.to_str().unwrap(), ""]);
    assert!(globs.status.code() == Some(2) && globs.output.contains("glob is empty"), "{}", globs.output);
    daemon.stop_well();
}
