//! `plumbago clean` and `plumbago repair`, with and without a running daemon.

use plumbago_cassandra_node::cql::Connection;
use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::Value;

const T0: i64 = 1_700_000_040;
const LATER: i64 = T0 + 40 * 86_400;

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.clock(T0).schemas("[all]\npattern = .*\nretentions = 60s:7d,1h:2y\n");
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = average\n");
    setup
}

fn put(daemon: &Daemon, name: &str, timestamp: i64) {
    daemon.put(&[Point { name: name.to_owned(), timestamp, value: 1.5 }]);
}

fn sorted(daemon: &Daemon) -> Vec<String> {
    let mut names = daemon.names();
    names.sort();
    names
}

/// Two metrics, of which only one is still written forty days later.
fn aged(setup: &Setup) -> Daemon {
    let daemon = setup.start();
    put(&daemon, "hosts.dead.cpu", T0);
    put(&daemon, "hosts.live.cpu", T0);
    daemon.wait_names(2);
    daemon.flush();
    daemon.set_clock(LATER);
    put(&daemon, "hosts.live.cpu", LATER);
    daemon
}

#[test]
fn a_daemon_cleans_when_it_is_asked() {
    let mut setup = setup();
    setup.set("maintenance.expire_after", "30d");
    let daemon = aged(&setup);
    setup.set("admin.listen", &daemon.admin().to_string());

    let dry = setup.run(&["clean", "--dry-run"]);
    assert!(dry.status.success(), "{}", dry.output);
    assert!(dry.output.contains("expire: 2 rows read, expired 1"), "{}", dry.output);
    assert!(dry.output.contains("dry run") && dry.output.contains("hosts.dead.cpu"), "{}", dry.output);
    assert_eq!(sorted(&daemon), ["hosts.dead.cpu", "hosts.live.cpu"]);

    let done = setup.run(&["clean"]);
    assert!(done.status.success(), "{}", done.output);
    assert!(done.output.contains("clean_rows: 2 rows read"), "{}", done.output);
    assert!(done.output.contains("expired 1"), "{}", done.output);
    assert_eq!(sorted(&daemon), ["hosts.live.cpu"]);
    let counted = daemon.counters().sum("plumbago_maintenance_done_total");
    assert_eq!(counted, 1);

    // The command's settings may differ from the daemon's.
    let other = setup.run(&["clean", "--max-age", "60d", "--rate", "0", "--shard", "0/2"]);
    assert!(other.status.success() && !other.output.contains("expired"), "{}", other.output);
    let short = setup.run(&["clean", "--max-age", "3d"]);
    assert_eq!(short.status.code(), Some(2), "{}", short.output);
    let unknown = daemon.post_admin("/admin/maintenance?job=coffee");
    assert!(unknown.status == 404 && unknown.body.contains("clean_rows"), "{unknown:?}");

    // A deleted metric can be created again. Its old points do not come back.
    put(&daemon, "hosts.dead.cpu", LATER);
    daemon.wait_names(2);
    daemon.stop_well();
    let daemon = setup.clock(LATER).set("admin.listen", "127.0.0.1:0").start();
    assert_eq!(sorted(&daemon), ["hosts.dead.cpu", "hosts.live.cpu"]);
    let series = daemon.render("hosts.dead.cpu", LATER - 50 * 86_400, LATER, LATER);
    let known = series[0].slots.iter().filter(|(_, value)| value.is_some()).count();
    assert_eq!(known, 1, "only the new point");
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}

#[test]
fn a_store_at_rest_is_cleaned_by_the_command() {
    let mut setup = setup();
    let daemon = aged(&setup);
    put(&daemon, "hosts.killed.cpu", LATER);
    daemon.wait_names(3);
    daemon.stop_well();
    setup.clock(LATER);
    let dry = setup.run(&["clean", "--max-age", "30d", "--dry-run"]);
    assert!(dry.output.contains("expired 1"), "{}", dry.output);
    let short = setup.run(&["clean", "--max-age", "3d"]);
    assert_eq!(short.status.code(), Some(2), "{}", short.output);
    for part in ["0/2", "1/2"] {
        let done = setup.run(&["clean", "--max-age", "30d", "--rate", "0", "--shard", part]);
        assert!(done.status.success(), "{}", done.output);
    }
    let repaired = setup.run(&["repair"]);
    assert!(
        repaired.status.success() && repaired.output.contains("clean_rows: 2 rows read"),
        "{}",
        repaired.output
    );
    let daemon = setup.start();
    assert_eq!(sorted(&daemon), ["hosts.killed.cpu", "hosts.live.cpu"]);
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}

/// Points that are only in the journal prevent a metric from expiring.
#[test]
fn a_metric_written_just_before_a_crash_stays() {
    let mut setup = setup();
    let daemon = aged(&setup);
    put(&daemon, "hosts.dead.cpu", LATER);
    let journaled = || daemon.counters().sum("plumbago_journal_written_points_total");
    wait_until("the journal to have all points", || journaled() == 4);
    daemon.kill();
    setup.clock(LATER);
    let done = setup.run(&["clean", "--max-age", "30d"]);
    assert!(done.status.success() && !done.output.contains("expired"), "{}", done.output);
    let daemon = setup.start();
    assert_eq!(sorted(&daemon), ["hosts.dead.cpu", "hosts.live.cpu"]);
    let seen = || {
        let series = daemon.render("hosts.dead.cpu", LATER - 3600, LATER, LATER);
        series[0].slots.iter().any(|(_, value)| *value == Some(1.5))
    };
    wait_until("the point", seen);
    daemon.stop_well();
}

/// The state of a job.
fn job(daemon: &Daemon, name: &str) -> Value {
    let jobs: Vec<Value> =
        serde_json::from_str(&http::get(daemon.admin(), "/admin/maintenance").body).unwrap();
    jobs.into_iter().find(|job| job["job"] == name).unwrap()
}

fn ask(daemon: &Daemon, name: &str) {
    let asked = daemon.post_admin(&format!("/admin/maintenance?job={name}"));
    assert_eq!(asked.status, 200, "{asked:?}");
}

/// Only one daemon of a cluster runs a job at a time. The lease of a killed daemon expires.
#[test]
fn one_daemon_of_a_cluster_at_a_time() {
    const KEYSPACE: &str = "maintenance_turns";
    let Some((mut cql, mut setup)) = on_cassandra(KEYSPACE) else { return };
    let daemon = setup.start();
    put(&daemon, "turns.one", T0);
    daemon.wait_names(1);
    let leases = format!("{KEYSPACE}_metadata.plumbago_leases");
    let mut take = |seconds: u32| {
        let lease = "(name, holder, host) VALUES ('maintenance/clean_rows', uuid(), 'elsewhere')";
        cql.query(&format!("INSERT INTO {leases} {lease} USING TTL {seconds}")).unwrap();
    };
    // The lease lasts longer than this test on any machine.
    take(3600);

    ask(&daemon, "clean_rows");
    wait_until("the daemon to be refused", || job(&daemon, "clean_rows")["runs"] == 1);
    let refused = job(&daemon, "clean_rows");
    assert_eq!(refused["error"], "another daemon runs this job", "{refused}");
    let data = setup.data();
    std::fs::create_dir(setup.path().join("other")).unwrap();
    setup.set("data_dir", setup.path().join("other").to_str().unwrap());
    let by_hand = setup.run(&["clean"]);
    assert_eq!(by_hand.status.code(), Some(4), "{}", by_hand.output);
    assert!(
        by_hand.output.contains("is running already, in this process or another one"),
        "{}",
        by_hand.output
    );
    // A part of the job has a separate lease.
    let part = setup.run(&["clean", "--shard", "0/2"]);
    assert!(part.status.success(), "{}", part.output);

    take(1);
    wait_until("the turn to end", || {
        let runs = job(&daemon, "clean_rows")["runs"].as_u64().unwrap();
        ask(&daemon, "clean_rows");
        wait_until("an answer", || job(&daemon, "clean_rows")["runs"].as_u64().unwrap() > runs);
        job(&daemon, "clean_rows")["error"].is_null()
    });
    // The daemon releases its own lease.
    wait_until("the lease to be given back", || {
        cql.query(&format!("SELECT name FROM {leases}")).unwrap().iter().next().is_none()
    });
    setup.set("data_dir", data.to_str().unwrap());
    daemon.stop_well();
    server::for_tests().unwrap().clean_up(KEYSPACE).unwrap();
}

/// A setup with a keyspace of its own.
fn on_cassandra(keyspace: &str) -> Option<(Connection, Setup)> {
    let server = server::for_tests()?;
    let cql = server.connect().unwrap();
    server.drop_keyspaces(keyspace).unwrap();
    let mut setup = setup();
    setup.on_cassandra(&server.contact_point(), keyspace);
    Some((cql, setup))
}

/// Reads are recorded in the metadata, for BigGraphite's clean-up.
#[test]
fn reads_are_noted() {
    const KEYSPACE: &str = "maintenance_reads";
    let Some((mut cql, mut setup)) = on_cassandra(KEYSPACE) else { return };
    setup.set("store.cassandra.read_on_sampling", "2");
    let daemon = setup.start();
    put(&daemon, "reads.seen", T0);
    put(&daemon, "reads.unseen", T0);
    daemon.wait_names(2);
    for _ in 0..2 {
        assert_eq!(daemon.render("reads.seen", T0 - 600, T0, T0).len(), 1);
    }
    let mut noted = |name: &str| {
        let query = format!("SELECT read_on FROM {KEYSPACE}_metadata.metrics_metadata WHERE name = '{name}'");
        cql.query(&query).unwrap().iter().any(|row| row.bytes(0).is_some())
    };
    wait_until("the read to be noted", || noted("reads.seen"));
    assert!(!noted("reads.unseen"));
    daemon.stop_well();
    server::for_tests().unwrap().clean_up(KEYSPACE).unwrap();
}
