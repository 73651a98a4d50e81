//! `plumbago delete --from --until`: exactly the range is deleted, in all stages, and none of its points
//! comes back.

use std::collections::BTreeMap;
use std::process::Stdio;

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

const T0: i64 = 1_700_000_040;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

/// The points that a metric must have in the raw stage: time and value.
type Slots = BTreeMap<i64, f64>;

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.clock(T0).schemas("[all]\npattern = .*\nretentions = 60s:7d,1h:2y\n");
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    setup
}

fn put(daemon: &Daemon, name: &str, slots: &Slots) {
    daemon.put(&slots.iter().map(|(time, value)| Point::new(name, *time, *value)).collect::<Vec<_>>());
}

fn slots(times: impl IntoIterator<Item = i64>) -> Slots {
    times.into_iter().map(|time| (time, (time / 60 % 97) as f64)).collect()
}

fn shown(daemon: &Daemon, name: &str, seconds: i64, now: i64) -> Slots {
    let series = daemon.render(name, now - seconds, now, now);
    let known = |(time, value): &(i64, Option<f64>)| value.map(|value| (*time, value));
    series.iter().flat_map(|series| series.slots.iter().filter_map(known)).collect()
}

/// The windows of an hour that are computed from these slots.
fn hours(slots: &Slots) -> Slots {
    let mut hours = Slots::new();
    slots.iter().for_each(|(time, value)| *hours.entry(time / HOUR * HOUR).or_default() += value);
    hours
}

fn check(daemon: &Daemon, name: &str, wanted: &Slots, now: i64) {
    assert_eq!(shown(daemon, name, 3 * DAY, now), *wanted, "{name}");
    assert_eq!(shown(daemon, name, 300 * DAY, now), hours(wanted), "hours of {name}");
    assert!(daemon.ledger().balances());
}

/// Puts points into every place: in blocks, in windows, in the head, late points, and points ahead of now.
fn fill(daemon: &Daemon, names: &[&str]) -> Slots {
    let stored = slots((20..400).map(|minute| T0 - 60 * minute));
    let late = slots([T0 - DAY, T0 - DAY + 60, T0 - 399 * 60]);
    let held = slots((0..25).map(|minute| T0 - 60 * minute));
    for name in names {
        put(daemon, name, &stored);
    }
    daemon.wait_names(names.len());
    daemon.flush();
    for name in names {
        put(daemon, name, &late);
        put(daemon, name, &held);
        put(daemon, name, &slots([T0 + 40 * 60]));
    }
    [stored, late, held].into_iter().flatten().collect()
}

/// The ranges that the tests delete: one in the middle of old points, one up to the end, and one with a single late
/// point.
const RANGES: [(i64, i64); 3] =
    [(T0 - 333 * 60, T0 - 77 * 60 - 30), (T0 - 10 * 60, T0 + DAY), (T0 - DAY, T0 - DAY + 1)];

fn delete_ranges(setup: &Setup, wanted: &mut Slots) {
    for (from, until) in RANGES {
        let (from_text, until_text) = (from.to_string(), until.to_string());
        let range = ["--from", &from_text, "--until", &until_text, "web.*"];
        let before = wanted.len();
        wanted.retain(|time, _| !(from..until).contains(time));
        let points = 2 * (before - wanted.len()) + if until > T0 { 2 } else { 0 };
        let dry = setup.run_well(&[&["delete", "--dry-run"], &range[..]].concat());
        assert!(dry.contains(&format!("delete: 2 metrics, {points} points and ")), "{dry}");
        assert!(dry.contains("dry run, nothing is changed") && !dry.contains("kept"), "{dry}");
        let json = setup.run_well(&[&["delete", "--json"], &range[..]].concat());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["metrics"], &json["kept"]), (&2.into(), &0.into()), "{json}");
        // Points in memory are in no stored window yet, so only the older ranges report recomputed windows.
        assert!(until > T0 || json["folded"].as_u64().unwrap() >= 2, "{json}");
    }
}

#[test]
fn a_daemon_deletes_a_range_for_good() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let other = fill(&daemon, &["web.a", "web.b", "other"]);
    let mut wanted = other.clone();
    let kept = format!(
        "/render?target=web.a&from={}&until={T0}&now={T0}&format=json&cacheTimeout=600",
        T0 - 5 * HOUR
    );
    assert_eq!(daemon.get(&kept).body, daemon.get(&kept).body);
    let before = daemon.get(&kept).body;
    delete_ranges(&setup, &mut wanted);
    assert_ne!(daemon.get(&kept).body, before, "an answer that was kept");
    let all = |daemon: &Daemon, wanted: &Slots| {
        check(daemon, "web.a", wanted, T0);
        check(daemon, "web.b", wanted, T0);
        check(daemon, "other", &other, T0);
    };
    all(&daemon, &wanted);
    // Neither the journal nor state rows bring deleted points back.
    daemon.kill();
    let daemon = setup.start_for_commands();
    all(&daemon, &wanted);
    // Points that arrive afterwards stay, although they are in the same range. Each window gets a late one.
    let more = slots([T0 - 330 * 60, T0 - 200 * 60, T0 - 78 * 60, T0 - 9 * 60, T0]);
    put(&daemon, "web.a", &more);
    put(&daemon, "web.b", &more);
    wanted.extend(more);
    all(&daemon, &wanted);
    daemon.kill_journaled();
    let daemon = setup.start_for_commands();
    all(&daemon, &wanted);
    daemon.flush();
    all(&daemon, &wanted);
    // Another deletion, without a flush since the last one. The daemon is killed as soon as it has answered.
    let (from, until) = (T0 - 15 * 60, T0 - 3 * 60);
    put(&daemon, "web.a", &slots([T0 - 14 * 60, T0 - 4 * 60, T0 - 60]));
    wanted.extend(slots([T0 - 14 * 60, T0 - 4 * 60, T0 - 60]));
    wanted.retain(|time, _| !(from..until).contains(time));
    setup.run_well(&["delete", "--from", &from.to_string(), "--until", &until.to_string(), "web.a"]);
    daemon.kill();
    let daemon = setup.start_for_commands();
    check(&daemon, "web.a", &wanted, T0);
    daemon.stop_well();
    let daemon = setup.start_for_commands();
    check(&daemon, "web.a", &wanted, T0);
    // A deletion of all points by a range does not delete the name.
    setup.run_well(&["delete", "--from", "0_20010910", "web.a"]);
    assert!(shown(&daemon, "web.a", 300 * DAY, T0).is_empty());
    assert_eq!(daemon.names().len(), 3);
    daemon.stop_well();
}

#[test]
fn a_directory_at_rest_loses_the_range_too() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let mut wanted = fill(&daemon, &["web.a", "web.b"]);
    daemon.kill_journaled();
    delete_ranges(&setup, &mut wanted);
    for _ in 0..2 {
        let daemon = setup.start_for_commands();
        check(&daemon, "web.a", &wanted, T0);
        check(&daemon, "web.b", &wanted, T0);
        daemon.kill();
    }
}

/// Senders continue during the deletion. Points that they sent before are deleted, points that they send afterwards
/// stay, and the windows agree with the points whenever the daemon is killed.
#[test]
fn a_range_of_metrics_that_are_being_written_can_be_deleted() {
    let mut setup = setup();
    let mut daemon = setup.start_for_commands();
    let names: Vec<String> = (0..100).map(|n| format!("busy.m{n}")).collect();
    let send = |daemon: &Daemon, minute: i64| {
        let time = T0 - 60 * minute;
        daemon.put(&names.iter().map(|name| Point::new(name, time, 1.0)).collect::<Vec<_>>());
    };
    for minute in (0..300).rev() {
        send(&daemon, minute);
    }
    daemon.wait_names(100);
    let mut rounds = 0;
    for round in 0..4 {
        let (from, until) = (T0 - 60 * (200 - 20 * round), T0 - 60 * 20);
        let range = ["delete", "--from", &from.to_string(), "--until", &until.to_string(), "busy.*"];
        let mut child = setup.command(&range).stdout(Stdio::null()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() {
            send(&daemon, 15 + rounds % 40);
            rounds += 1;
        }
        assert!(child.wait().unwrap().success());
        send(&daemon, 100);
        let agree = |daemon: &Daemon| {
            for name in &names[..20] {
                // A read waits for late points, but not long (docs/decisions/reads-wait-for-late-points.md).
                wait_until("the point that was sent afterwards", || {
                    shown(daemon, name, 3 * DAY, T0).contains_key(&(T0 - 6000))
                });
                let slots = shown(daemon, name, 3 * DAY, T0);
                assert!(!slots.contains_key(&(T0 - 6060)), "{name}: sent before");
                assert_eq!(shown(daemon, name, 300 * DAY, T0), hours(&slots), "{name}");
            }
            assert!(daemon.ledger().balances());
        };
        agree(&daemon);
        if round % 2 == 0 {
            daemon.kill_journaled();
        } else {
            daemon.flush();
            daemon.stop_well();
        }
        daemon = setup.start_for_commands();
        agree(&daemon);
    }
    assert!(rounds > 0, "points were sent during the deletions");
    daemon.stop_well();
}

/// If the points of a window have expired, the window is kept, and the answer reports this.
#[test]
fn windows_whose_points_have_expired_are_kept_and_counted() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let old = slots((0..600).map(|minute| T0 - 60 * minute));
    put(&daemon, "web.a", &old);
    daemon.wait_names(1);
    daemon.flush();
    let now = T0 + 30 * DAY;
    daemon.set_clock(now);
    let (from, until) = (T0 - 5 * HOUR, T0 - 2 * HOUR);
    let said =
        setup.run_well(&["delete", "--from", &from.to_string(), "--until", &until.to_string(), "web.a"]);
    assert!(said.contains("; 2 windows at the borders kept as they are"), "{said}");
    let mut wanted = hours(&old);
    wanted.retain(|time, _| time + HOUR <= from || *time >= until || *time < from || time + HOUR > until);
    assert_eq!(shown(&daemon, "web.a", 300 * DAY, now), wanted);
    daemon.stop_well();
}

#[test]
fn ranges_that_make_no_sense_are_refused() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    put(&daemon, "web.a", &slots([T0]));
    daemon.wait_names(1);
    for (arguments, said) in [
        (&["--from", "2d", "--until", "3d", "web.a"][..], "the range ends before it begins"),
        (&["--from", "5", "web.a"], "5 has no unit"),
        (&["--from", "2023-99-01", "web.a"], "is not a date"),
        (&["--from", "7d", "**"], "give --yes"),
    ] {
        let refused = setup.run(&[&["delete"], arguments].concat());
        assert!(
            refused.status.code() == Some(2) && refused.output.contains(said),
            "{arguments:?}: {:?} {}",
            refused.status,
            refused.output
        );
    }
    check(&daemon, "web.a", &slots([T0]), T0);
    daemon.stop_well();
}

/// A deletion on the real server: rows, spool and windows, with one tombstone for each partition and two for
/// the ends of the range, and a `kill -9` right after the answer.
#[test]
fn on_cassandra_the_range_goes_with_few_tombstones() {
    const KEYSPACE: &str = "deletion_ranges";
    let Some(server) = server::for_tests() else { return };
    let mut cql = server.connect().unwrap();
    server.drop_keyspaces(KEYSPACE).unwrap();
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 60s:7d,1h:2y\n");
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", KEYSPACE);
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.components", "4").set("store.cassandra.indexes", "none");
    setup.set("store.cassandra.request_timeout", "60s").set("engine.flush_interval", "1s");
    setup.run_well(&["syncdb"]);
    let mut daemon = setup.start_for_commands();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let now = now / 60 * 60;
    let mut wanted = slots((0..6 * 1440).map(|minute| now - 60 * minute));
    let other = wanted.clone();
    for name in ["web.a", "other"] {
        put(&daemon, name, &wanted);
    }
    daemon.wait_names(2);
    let mut count = |table: &str, what: &str| {
        let rows = cql.query(&format!("SELECT {what} FROM {KEYSPACE}.{table}")).unwrap();
        rows.iter().count()
    };
    let raw = "datapoints_10080p_60s_0";
    wait_until("all rows to be stored", || count(raw, "offset") == 2 * wanted.len());
    // About half of all points. The range begins and ends in the middle of hours and of partitions.
    let (from, until) = (now - 4 * DAY - 25 * 60, now - DAY - 35 * 60);
    // Some points of the range are in memory or in the spool.
    let again = slots([now - 2 * DAY, now - 3 * DAY, now - 5 * 60]);
    put(&daemon, "web.a", &again);
    wanted.extend(again);
    let tombstones = |daemon: &Daemon| daemon.counters().sum("plumbago_cassandra_partitions_deleted_total");
    let before = tombstones(&daemon);
    let range = ["--from", &from.to_string(), "--until", &until.to_string()].map(str::to_owned);
    let range: Vec<&str> = range.iter().map(String::as_str).collect();
    setup.run_well(&[&["delete"], &range[..], &["web.a"]].concat());
    let left = tombstones(&daemon) - before;
    daemon.kill();
    wanted.retain(|time, _| !(from..until).contains(time));
    let partitions = |seconds: i64| (until - 1) / (2000 * seconds) - from / (2000 * seconds) + 1;
    // The partitions of the raw stage and of the hours, and two more tombstones for the ends of the range in
    // each.
    let most = partitions(60) + 2 + partitions(3600) + 2;
    assert!((3..=most as u64).contains(&left), "{left} tombstones, {most} at most");
    println!("{left} tombstones for {} and {} partitions", partitions(60), partitions(3600));
    daemon = setup.start_for_commands();
    let all = |daemon: &Daemon, wanted: &Slots| {
        let shown_hours = |name| shown(daemon, name, 300 * DAY, now);
        assert_eq!(shown(daemon, "web.a", 7 * DAY - 60, now), *wanted);
        assert_eq!(shown_hours("web.a"), hours(wanted));
        assert_eq!(shown(daemon, "other", 7 * DAY - 60, now), other);
        assert_eq!(shown_hours("other"), hours(&other));
    };
    all(&daemon, &wanted);
    // Rows that are sent again, as after a node's return, are older than the deletion.
    setup.run_well(&["replay", "--since", "1h"]);
    daemon.flush();
    all(&daemon, &wanted);
    wait_until("rows of the range to be gone", || count(raw, "offset") == wanted.len() + other.len());
    // Points that arrive afterwards stay, and so do the windows that these late points change.
    let more = slots([from + 600, until - 660, now - 2 * DAY]);
    put(&daemon, "web.a", &more);
    wanted.extend(more);
    all(&daemon, &wanted);
    daemon.stop_well();
    setup.run_well(&[&["delete"], &range[..], &["web.a"]].concat());
    wanted.retain(|time, _| !(from..until).contains(time));
    let daemon = setup.start_for_commands();
    all(&daemon, &wanted);
    daemon.stop_well();
    server.clean_up(KEYSPACE).unwrap();
}
