//! `plumbago delete`: no data of a deleted metric comes back, and no data of a later metric with the same
//! name is lost.

use std::process::Stdio;

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

const T0: i64 = 1_700_000_040;

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.clock(T0).schemas("[all]\npattern = .*\nretentions = 60s:7d,1h:2y\n");
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    setup
}

fn put(daemon: &Daemon, names: &[&str], timestamps: impl IntoIterator<Item = i64>) {
    let at = |timestamp: i64| names.iter().map(move |name| Point::new(*name, timestamp, 1.0));
    daemon.put(&timestamps.into_iter().flat_map(at).collect::<Vec<_>>());
}

fn sorted(daemon: &Daemon) -> Vec<String> {
    let mut names = daemon.names();
    names.sort();
    names
}

/// The known values of a metric, in both stages.
fn known(daemon: &Daemon, name: &str, now: i64) -> [Vec<f64>; 2] {
    [2 * 86_400, 300 * 86_400].map(|back| {
        let series = daemon.render(name, now - back, now, now);
        series.iter().flat_map(|series| series.slots.iter().filter_map(|(_, value)| *value)).collect()
    })
}

const DEAD: [&str; 3] = ["old.a.cpu", "old.b.cpu", "old.b.mem"];

/// Puts points into every place: in blocks, in windows, in the head, late points on their way to the store,
/// points from the future, and a tagged series.
fn fill(daemon: &Daemon) {
    let names = [&DEAD[..], &["new.a.cpu", "load;host=old", "load;host=new"]].concat();
    put(daemon, &names, (0..200).rev().map(|minute| T0 - 60 * minute));
    daemon.wait_names(4);
    daemon.flush();
    put(daemon, &names, [T0 - 86_400, T0 - 60, T0 - 120, T0 + 3600]);
}

fn check_gone(daemon: &Daemon) {
    assert_eq!(sorted(daemon), ["new.a.cpu"]);
    for name in DEAD.iter().chain(&["load;host=old"]) {
        assert!(daemon.render(name, T0 - 86_400, T0, T0).is_empty(), "{name}");
    }
    for name in ["new.a.cpu", "load;host=new"] {
        assert!(known(daemon, name, T0)[0].len() >= 200, "{name}");
    }
    let find = daemon.get("/metrics/find?query=*").body;
    assert!(!find.contains("old"), "{find}");
    let tags = daemon.get("/tags/findSeries?expr=host%3Dold").body;
    assert_eq!(tags.trim(), "[]");
    assert!(daemon.ledger().balances());
}

fn delete_old(setup: &Setup) {
    let dry = setup.run_well(&["delete", "--dry-run", "old.**"]);
    assert!(dry.contains("delete: 3 metrics; dry run"), "{dry}");
    assert!(setup.run_well(&["delete", "old.b.*"]).contains("delete: 2 metrics\n"));
    let list = setup.file("names.txt", "# obsolete\nold.a.cpu\nnever.was\n");
    let json = setup.run_well(&["delete", "--json", "--names", list.to_str().unwrap()]);
    assert!(json.contains("\"metrics\":1,"), "{json}");
    assert!(setup.run_well(&["delete", "--tag", "host=old"]).contains("delete: 1 metrics"));
}

#[test]
fn a_daemon_deletes_whole_metrics_for_good() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    fill(&daemon);
    // A cached answer no longer shows the metric.
    let kept = format!(
        "/render?target=old.a.cpu&from={}&until={T0}&now={T0}&format=raw&cacheTimeout=600",
        T0 - 3600
    );
    assert!(daemon.get(&kept).body.contains("old.a.cpu") && daemon.get(&kept).body.contains("old.a.cpu"));
    delete_old(&setup);
    check_gone(&daemon);
    assert_eq!(daemon.get(&kept).body.trim(), "");
    daemon.kill();

    // Neither state rows nor the journal bring anything back.
    let daemon = setup.start_for_commands();
    check_gone(&daemon);
    // Points that arrive afterwards create a new metric, which has only these points.
    put(&daemon, &DEAD, [T0 - 60, T0]);
    daemon.wait_names(4);
    let only_new = |daemon: &Daemon| {
        for name in DEAD {
            let [raw, hours] = known(daemon, name, T0);
            assert_eq!(raw, [1.0, 1.0], "{name}");
            assert_eq!(hours.iter().sum::<f64>(), 2.0, "{name}");
        }
        assert!(daemon.ledger().balances());
    };
    only_new(&daemon);
    daemon.kill_journaled();
    let daemon = setup.start_for_commands();
    only_new(&daemon);
    daemon.flush();
    only_new(&daemon);
    daemon.stop_well();

    // A metric that is deleted, created again and killed within one run: the journal has records of both.
    let daemon = setup.start_for_commands();
    setup.run_well(&["delete", "old.**"]);
    put(&daemon, &DEAD, [T0 - 60, T0]);
    daemon.wait_names(4);
    only_new(&daemon);
    daemon.kill_journaled();
    let daemon = setup.start_for_commands();
    only_new(&daemon);
    daemon.stop_well();
}

#[test]
fn a_directory_at_rest_loses_them_too() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    fill(&daemon);
    daemon.kill_journaled();
    delete_old(&setup);
    let daemon = setup.start_for_commands();
    check_gone(&daemon);
    daemon.kill();
    let daemon = setup.start_for_commands();
    check_gone(&daemon);
    daemon.stop_well();
}

#[test]
fn everything_wants_a_confirmation() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    put(&daemon, &["a.b", "c"], [T0]);
    daemon.wait_names(2);
    for glob in ["**", "*", "?*.*"] {
        let refused = setup.run(&["delete", glob]);
        let count = setup.run_well(&["list", glob]).lines().count();
        let wanted = format!("{count} metrics match");
        assert!(
            refused.status.code() == Some(2)
                && refused.output.contains(&wanted)
                && refused.output.contains("--yes"),
            "{glob}: {}",
            refused.output
        );
    }
    assert_eq!(sorted(&daemon).len(), 2);
    let refused = setup.run(&["delete"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.output);
    assert!(setup.run_well(&["delete", "--yes", "**"]).contains("delete: 2 metrics"));
    assert!(sorted(&daemon).is_empty());
    daemon.stop_well();
}

/// A kill in the middle of a deletion: the command tells what to repeat, and the repetition completes the
/// deletion.
#[test]
fn a_deletion_that_is_killed_can_be_repeated() {
    const METRICS: usize = 30_000;
    let mut setup = setup();
    let mut daemon = setup.start_for_commands();
    let names: Vec<String> = (0..METRICS).map(|n| format!("many.d{}.m{n}", n % 100)).collect();
    put(&daemon, &names.iter().map(String::as_str).collect::<Vec<_>>(), [T0]);
    daemon.wait_names(METRICS);
    daemon.flush();
    put(&daemon, &names.iter().map(String::as_str).collect::<Vec<_>>(), [T0 - 60]);
    let mut kills = 0;
    loop {
        let mut command = setup.command(&["delete", "--yes", "many.**"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let left = || {
            let jobs = http::get(daemon.admin(), "/admin/jobs").body;
            let jobs: Vec<serde_json::Value> = serde_json::from_str(&jobs).unwrap();
            let job = jobs.last().cloned().unwrap_or_default();
            (job["phase"] == "deleting")
                .then(|| job["total"].as_u64().unwrap() - job["done"].as_u64().unwrap())
        };
        wait_until("some to be deleted", || {
            left().is_some_and(|left| left < (METRICS - 2000 * (kills + 1)) as u64)
        });
        if kills == 3 {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            break;
        }
        daemon.kill();
        kills += 1;
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success()
                || said.contains("Run the same command again: plumbago delete --yes 'many.**'"),
            "{said}"
        );
        daemon = setup.start_for_commands();
        let names = daemon.names().len();
        assert!(names < METRICS, "{names}");
    }
    assert!(sorted(&daemon).is_empty());
    assert!(daemon.ledger().balances());
    daemon.kill();
    let daemon = setup.start_for_commands();
    assert!(sorted(&daemon).is_empty());
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}

/// Senders continue during a deletion. All their points are accounted for, and points after the deletion
/// stay.
#[test]
fn metrics_that_are_being_written_can_be_deleted() {
    let mut setup = setup();
    let mut daemon = setup.start_for_commands();
    let names: Vec<String> = (0..200).map(|n| format!("busy.m{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut rounds = 0;
    for round in 0..5 {
        let mut command = setup.command(&["delete", "busy.*"]);
        let now = T0 + 3600 * round;
        daemon.set_clock(now);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let mut minute = 0;
        while child.try_wait().unwrap().is_none() {
            put(&daemon, &names, [now - 60 * (minute % 90)]);
            minute += 1;
        }
        assert!(child.wait().unwrap().success());
        put(&daemon, &names, [now]);
        rounds += minute;
        for name in &names {
            assert!(known(&daemon, name, now)[0].last() == Some(&1.0), "{name}");
        }
        assert!(daemon.ledger().balances());
        if round == 2 {
            daemon.kill_journaled();
            setup.clock(now);
            daemon = setup.start_for_commands();
            assert!(known(&daemon, names[7], now)[0].last() == Some(&1.0));
            assert!(daemon.ledger().balances());
        }
    }
    assert!(rounds > 0, "points were sent during the deletions");
    daemon.stop_well();
}

/// A deletion on Cassandra: the rows of points, names and directories are deleted, in the spool too, and
/// another daemon follows.
#[test]
fn on_cassandra_every_row_goes() {
    const KEYSPACE: &str = "deletion";
    let Some(server) = server::for_tests() else { return };
    let mut cql = server.connect().unwrap();
    server.drop_keyspaces(KEYSPACE).unwrap();
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 60s:7d,1h:2y\n");
    setup.set("maintenance.settle", "100ms").set("engine.flush_interval", "1s");
    setup.on_cassandra(&server.contact_point(), KEYSPACE);
    let daemon = setup.start_for_commands();
    let other_dir = setup.path().join("other");
    let own_dir = setup.data();
    setup.set("data_dir", other_dir.to_str().unwrap()).set("admin.listen", "127.0.0.1:0");
    let other = setup.start();
    setup.set("data_dir", own_dir.to_str().unwrap()).set("admin.listen", &daemon.admin().to_string());

    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let now = now / 60 * 60;
    let names = ["old.a.cpu", "old.b.cpu", "new.cpu"];
    put(&daemon, &names, (0..180).rev().map(|minute| now - 60 * minute));
    daemon.wait_names(3);
    other.wait_names(3);
    let mut count = |table: &str| {
        let rows = cql.query(&format!("SELECT * FROM {table}")).unwrap();
        rows.iter().count()
    };
    let raw = format!("{KEYSPACE}.datapoints_10080p_60s_0");
    wait_until("all rows to be stored", || count(&raw) == 3 * 180);
    // Some more points, which are in the head, the journal or the spool when the deletion begins.
    put(&daemon, &names, [now - 600, now - 60, now]);
    let said = setup.run_well(&["delete", "old.**"]);
    assert!(said.contains("delete: 2 metrics, 3 empty directories"), "{said}");
    assert_eq!(sorted(&daemon), ["new.cpu"]);
    daemon.flush();
    wait_until("only one metric's rows to be left", || count(&raw) == 180);
    assert_eq!(count(&format!("{KEYSPACE}_metadata.metrics_metadata")), 1);
    assert_eq!(count(&format!("{KEYSPACE}_metadata.metrics")), 1);
    assert_eq!(count(&format!("{KEYSPACE}_metadata.directories")), 1, "new");
    wait_until("the other daemon to be told", || sorted(&other) == ["new.cpu"]);
    daemon.kill();
    let daemon = setup.start_for_commands();
    assert_eq!(sorted(&daemon), ["new.cpu"]);
    assert!(daemon.ledger().balances());
    put(&daemon, &["old.a.cpu"], [now]);
    daemon.wait_names(2);
    assert_eq!(known(&daemon, "old.a.cpu", now)[0], [1.0]);
    other.wait_names(2);

    // A deletion by a command while this daemon is stopped and the other one is running, and commands that
    // only read.
    daemon.stop_well();
    assert!(setup.run_well(&["du"]).contains("estimated"));
    assert!(setup.run_well(&["info", "new.cpu"]).contains("180 of 10080 points"));
    assert!(setup.run_well(&["delete", "old.a.cpu"]).contains("delete: 1 metrics"));
    wait_until("its rows to be gone", || count(&raw) == 180);
    wait_until("the other daemon to be told", || sorted(&other) == ["new.cpu"]);
    other.stop_well();
    server.clean_up(KEYSPACE).unwrap();
}
