//! Quotas of directories, and the other limits that SIGHUP reloads.

use std::time::SystemTime;

use nix::sys::signal::Signal;
use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::{wait_for, wait_until};
use serde_json::Value;

const T0: i64 = 1_700_000_040;

const QUOTAS: &str = "\
[core]
pattern = teams.core

[teams]
pattern = teams.*
metrics = 3
points_per_minute = 20
bytes = 1GiB

[trial]
pattern = trial
metrics = 1
dry_run = true
";

fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.clock(T0).schemas("[all]\npattern = .*\nretentions = 60s:7d,1h:2y\n");
    let quotas = setup.file("quotas.conf", QUOTAS);
    setup.set("quotas.rules", quotas.to_str().unwrap());
    setup
}

fn put(daemon: &Daemon, names: &[&str], timestamp: i64) {
    daemon.put(&names.iter().map(|name| Point::new(*name, timestamp, 1.0)).collect::<Vec<_>>());
    let received = daemon.ledger().received;
    daemon.applied_at(received);
}

fn metric(daemon: &Daemon, line: &str) -> Option<f64> {
    let text = http::get(daemon.admin(), "/metrics").body;
    text.lines().find_map(|found| found.strip_prefix(line)?.trim().parse().ok())
}

fn refused(daemon: &Daemon) -> u64 {
    daemon.counters().with("plumbago_rejected_points_total", "stage=\"engine\",reason=\"quota\"")
}

fn readiness(daemon: &Daemon) -> Value {
    serde_json::from_str(&http::get(daemon.admin(), "/readyz").body).unwrap()
}

fn reload(daemon: &Daemon, line: &str) {
    let before = daemon.log().matches(line).count();
    daemon.signal(Signal::SIGHUP);
    wait_until(line, || daemon.log().matches(line).count() > before);
}

fn kill(daemon: Daemon) {
    let written = || daemon.counters().sum("plumbago_journal_written_points_total");
    let accepted = daemon.ledger().received - refused(&daemon);
    wait_until("the journal to have all points", || written() >= accepted);
    daemon.kill();
}

fn du(setup: &Setup, path: &str) -> Value {
    let ended = setup.run(&["du", "--json", path]);
    assert!(ended.status.success(), "{}", ended.output);
    serde_json::from_str(ended.output.lines().next().unwrap()).unwrap()
}

/// Names beyond the limit are refused, also after a kill, while known metrics continue. A deletion allows new
/// ones, and a reload raises the limit.
fn metrics_are_limited(mut setup: Setup) {
    let daemon = setup.start_for_commands();
    let known = ["teams.a.m1", "teams.a.m2", "teams.a.x.m3"];
    put(&daemon, &known, T0);
    put(&daemon, &["teams.a.m4", "teams.b.m1", "teams.core.m1", "other.m1"], T0);
    daemon.wait_names(6);
    assert_eq!(refused(&daemon), 1);
    put(&daemon, &known, T0 - 60);
    assert_eq!(refused(&daemon), 1, "known metrics go on");
    assert_eq!(metric(&daemon, "plumbago_quota_used{quota=\"teams\",of=\"metrics\"}"), Some(3.0));
    assert_eq!(metric(&daemon, "plumbago_quota_limit{quota=\"teams\",of=\"metrics\"}"), Some(3.0));
    assert_eq!(metric(&daemon, "plumbago_quota_full_directories{quota=\"teams\"}"), Some(1.0));
    let page = wait_for("the condition", || {
        let page = readiness(&daemon);
        page["conditions"].to_string().contains("\"quota\"").then_some(page)
    });
    let text = page["warnings"].to_string();
    assert!(page["ready"] == true && text.contains("teams.a of [teams] has 3 of 3 metrics"), "{page}");
    assert!(daemon.log().contains("name=\"teams.a.m4\""), "{}", daemon.log());
    let quota = &du(&setup, "teams.a")["quota"];
    assert_eq!((&quota["quota"], &quota["refused_points"]), (&"teams".into(), &1.into()), "{quota}");
    let limits = quota["limits"][0].to_string();
    assert_eq!(limits, r#"{"limit":3,"used":3,"what":"metrics"}"#);
    kill(daemon);

    let daemon = setup.start_for_commands();
    put(&daemon, &["teams.a.m4", "teams.a.m1"], T0);
    assert_eq!(refused(&daemon), 1, "the count is exact after a kill");
    let ended = setup.run(&["delete", "teams.a.m2"]);
    assert!(ended.status.success(), "{}", ended.output);
    put(&daemon, &["teams.a.m4", "teams.a.m5"], T0);
    assert_eq!(refused(&daemon), 2, "one has room");

    setup.file("quotas.conf", &QUOTAS.replace("metrics = 3", "metrics = three"));
    reload(&daemon, "the old quotas stay in effect");
    assert!(daemon.log().contains("quotas.conf:6: [teams] metrics = three"), "{}", daemon.log());
    put(&daemon, &["teams.a.m6"], T0);
    assert_eq!(refused(&daemon), 3);
    setup.file("quotas.conf", &QUOTAS.replace("metrics = 3", "metrics = 4"));
    reload(&daemon, "3 quota(s) are in effect");
    put(&daemon, &["teams.a.m6", "teams.a.m7"], T0);
    assert_eq!(refused(&daemon), 4, "there is room for one more");
    wait_until("the names", || daemon.names().contains(&"teams.a.m6".to_owned()));
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}

#[test]
fn metrics_of_directories_are_limited() {
    metrics_are_limited(setup());
}

#[test]
fn metrics_of_directories_are_limited_on_cassandra() {
    const KEYSPACE: &str = "quotas";
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let mut setup = setup();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", KEYSPACE);
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.components", "6").set("store.cassandra.indexes", "none");
    setup.set("store.cassandra.request_timeout", "60s").set("maintenance.settle", "100ms");
    let ended = setup.run(&["syncdb"]);
    assert!(ended.status.success(), "{}", ended.output);
    metrics_are_limited(setup);
}

#[test]
fn points_of_a_minute_and_bytes_are_limited() {
    let mut setup = setup();
    setup.set("quotas.measure_every", "1s");
    let daemon = setup.start_for_commands();
    let points =
        |n: i64| -> Vec<Point> { (0..n).map(|n| Point::new("teams.a.m1", T0 - 60 * n, n as f64)).collect() };
    daemon.put(&points(25));
    daemon.applied_at(25);
    assert_eq!(refused(&daemon), 5);
    daemon.set_clock(T0 + 60);
    daemon.put(&points(20));
    daemon.applied_at(45);
    assert_eq!(refused(&daemon), 5);
    // A dry run only counts.
    put(&daemon, &["trial.m1", "trial.m2", "trial.m3"], T0);
    assert_eq!(refused(&daemon), 5);
    let dry = "plumbago_quota_refused_points_total{quota=\"trial\",of=\"metrics\",dry_run=\"true\"}";
    assert_eq!(metric(&daemon, dry), Some(2.0));
    assert!(!readiness(&daemon)["warnings"].to_string().contains("trial"));

    daemon.set_clock(T0 + 40 * 86_400);
    put(&daemon, &["teams.a.m1"], T0 + 40 * 86_400);
    daemon.flush();
    setup.file("quotas.conf", &QUOTAS.replace("bytes = 1GiB", "bytes = 10B\nover_bytes = points"));
    reload(&daemon, "3 quota(s) are in effect");
    let bytes = "plumbago_quota_used{quota=\"teams\",of=\"bytes\"}";
    wait_until("the measurement", || metric(&daemon, bytes).is_some_and(|bytes| bytes > 10.0));
    put(&daemon, &["teams.a.m1", "teams.a.m2", "teams.b.m1"], T0 + 40 * 86_400);
    assert_eq!(refused(&daemon), 7, "points of teams.a are refused, known or new");
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}

#[test]
fn quotas_that_cannot_be_read_keep_the_daemon_from_starting() {
    let setup = setup();
    setup.file("quotas.conf", "[a]\nmetrics = 5\n[b]\npattern = b.**\n[c]\npattern = c\nlimit = 3\n");
    for arguments in [&["config", "check"][..], &["serve"]] {
        let ended = setup.run(arguments);
        assert_eq!(ended.status.code(), Some(3), "{}", ended.output);
        for line in [
            "quotas.conf:1: [a] the pattern is missing",
            "quotas.conf:4: [b] pattern = b.**",
            "quotas.conf:7: [c]",
        ] {
            assert!(ended.output.contains(line), "{line}: {}", ended.output);
        }
    }
    let mut setup = Setup::new();
    setup.set("engine.max_creates_per_minute", "nobody");
    let ended = setup.run(&["config", "check"]);
    assert!(ended.status.code() == Some(3) && ended.output.contains("or \"none\""), "{}", ended.output);
}

#[test]
fn sighup_reloads_the_limits_of_requests_and_of_creations() {
    let setup = Setup::new();
    let file = setup
        .file("plumbago.toml", "[engine]\nmax_creates_per_minute = \"none\"\n[api.limits]\ntargets = 1\n");
    let daemon = setup.start();
    let now = now();
    daemon.put(&[Point::new("a.m1", now, 1.0)]);
    wait_until("the condition", || readiness(&daemon)["warnings"].to_string().contains("is \\\"none\\\""));
    let two = |daemon: &Daemon| daemon.get("/render?target=a&target=b&format=json").status;
    assert_eq!(two(&daemon), 413);
    std::fs::write(&file, "[engine]\nmax_creates_per_minute = 2\n[api.limits]\ntargets = 2\n").unwrap();
    reload(&daemon, "2 applied");
    assert_eq!(two(&daemon), 200);
    daemon.put(&["a.m1", "a.m2", "a.m3"].map(|name| Point::new(name, now, 1.0)));
    daemon.wait_names(2);
    let label = "stage=\"engine\",reason=\"create_limited\"";
    wait_until("a refusal", || daemon.counters().with("plumbago_rejected_points_total", label) == 2);
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}
