//! `plumbago clean` and `plumbago repair`, beside a daemon and without one.

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

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

/// Two metrics, of which one is still written forty days later.
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

    let told = setup.run(&["clean", "--dry-run"]);
    assert!(told.status.success(), "{}", told.output);
    assert!(told.output.contains("expire: 2 looked at, expired 1"), "{}", told.output);
    assert!(told.output.contains("dry run") && told.output.contains("hosts.dead.cpu"), "{}", told.output);
    assert_eq!(sorted(&daemon), ["hosts.dead.cpu", "hosts.live.cpu"]);

    let done = setup.run(&["clean"]);
    assert!(done.status.success(), "{}", done.output);
    assert!(done.output.contains("clean_rows: 2 looked at"), "{}", done.output);
    assert!(done.output.contains("expired 1"), "{}", done.output);
    assert_eq!(sorted(&daemon), ["hosts.live.cpu"]);
    let counted = daemon.counters().sum("plumbago_maintenance_done_total");
    assert_eq!(counted, 1);

    // With other settings than the daemon's it would not do what it says.
    let refused = setup.run(&["clean", "--max-age", "60d"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.output);
    let unknown = http::post(daemon.admin(), "/admin/maintenance?job=coffee", "");
    assert!(unknown.status >= 400 && unknown.body.contains("clean_rows"), "{unknown:?}");

    // It may be born again, and has none of its old points then.
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
    let told = setup.run(&["clean", "--max-age", "30d", "--dry-run"]);
    assert!(told.output.contains("expired 1"), "{}", told.output);
    let short = setup.run(&["clean", "--max-age", "3d"]);
    assert_eq!(short.status.code(), Some(2), "{}", short.output);
    for part in ["0/2", "1/2"] {
        let done = setup.run(&["clean", "--max-age", "30d", "--rate", "0", "--shard", part]);
        assert!(done.status.success(), "{}", done.output);
    }
    let repaired = setup.run(&["repair"]);
    assert!(
        repaired.status.success() && repaired.output.contains("clean_rows: 2 looked at"),
        "{}",
        repaired.output
    );
    let daemon = setup.start();
    assert_eq!(sorted(&daemon), ["hosts.killed.cpu", "hosts.live.cpu"]);
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}

/// What only the journal knows of a metric counts as well.
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
