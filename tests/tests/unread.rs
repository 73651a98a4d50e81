//! `plumbago list --unread`: metrics that were never read. Reads are recorded per day, and the notes survive
//! kills and restarts.

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::Value;

const T0: i64 = 1_700_000_040;
const DAY: i64 = 86_400;

fn start(setup: &mut Setup, now: i64) -> Daemon {
    setup.clock(now).start_for_commands()
}

/// Renders a metric, and waits until the read is recorded.
fn read(daemon: &Daemon, setup: &Setup, name: &str, now: i64) {
    daemon.render(name, now - 3600, now, now);
    let noted = || {
        let info: Value = serde_json::from_str(&setup.run_well(&["info", "--json", name])).unwrap();
        info["metric"]["read_on"].as_i64().is_some_and(|day| now - day < DAY)
    };
    wait_until("the read to be noted", noted);
}

fn unread(setup: &Setup, period: &str) -> Vec<String> {
    setup.run_well(&["list", "--unread", period, "**"]).lines().map(str::to_owned).collect()
}

#[test]
fn metrics_that_nobody_reads_are_listed() {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 60s:7d,1h:2y\n");
    let daemon = start(&mut setup, T0);
    let points =
        |names: &[&str], time| names.iter().map(|name| Point::new(*name, time, 1.0)).collect::<Vec<_>>();
    daemon.put(&points(&["web.early", "web.late", "web.never", "web.deleted"], T0));
    daemon.wait_names(4);
    daemon.set_clock(T0 + DAY);
    for name in ["web.early", "web.late", "web.deleted"] {
        read(&daemon, &setup, name, T0 + DAY);
    }
    let refused = setup.run(&["list", "--unread", "90d", "**"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.output);
    assert!(
        refused.output.contains("has recorded for 1 days only which metrics are read"),
        "{}",
        refused.output
    );
    daemon.kill();
    let daemon = start(&mut setup, T0 + 50 * DAY);
    read(&daemon, &setup, "web.late", T0 + 50 * DAY);
    // A metric that is deleted and created again counts as unread.
    setup.run_well(&["delete", "web.deleted"]);
    daemon.put(&points(&["web.deleted", "web.young"], T0 + 50 * DAY));
    daemon.wait_names(5);
    // On the next day a read is recorded again.
    daemon.set_clock(T0 + 51 * DAY);
    read(&daemon, &setup, "web.late", T0 + 51 * DAY);
    daemon.kill();
    let daemon = start(&mut setup, T0 + 100 * DAY);
    let check = |setup: &Setup| {
        assert_eq!(unread(setup, "90d"), ["web.early", "web.never"]);
        assert_eq!(unread(setup, "99d"), ["web.never"]);
        assert_eq!(unread(setup, "47d"), ["web.deleted", "web.early", "web.late", "web.never", "web.young"]);
        assert_eq!(unread(setup, "50d").len(), 2);
        // The options `--unread` and `--silent` together.
        assert_eq!(setup.run_well(&["list", "--unread", "90d", "--silent", "200d", "**"]), "");
        assert_eq!(setup.run_well(&["list", "--unread", "90d", "--silent", "60d", "web.e*"]), "web.early\n");
    };
    check(&setup);
    daemon.stop_well();
    // Without a running daemon the lists are the same.
    check(&setup);
}
