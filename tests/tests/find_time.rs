//! `find.hide_inactive`: `/metrics/find` with `from` and `until` hides metrics without points in the range.

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

const T0: i64 = 1_700_000_040;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.clock(T0 - 30 * DAY);
    setup.schemas(
        "[short]\npattern = ^short\\.\nretentions = 60s:1d\n\n[all]\npattern = .*\nretentions = 60s:7d,1h:2y\n",
    );
    setup.set("admin.listen", "127.0.0.1:0");
    setup
}

fn put(daemon: &Daemon, name: &str, time: i64) {
    daemon.put(&[Point::new(name, time, 1.0)]);
}

/// The paths that a find shows.
fn found(daemon: &Daemon, query: &str, range: &str) -> Vec<String> {
    let answer = daemon.get(&format!("/metrics/find?query={query}&format=json{range}"));
    let nodes: Vec<serde_json::Value> = serde_json::from_str(&answer.body).unwrap();
    nodes.iter().map(|node| node["path"].as_str().unwrap().to_owned()).collect()
}

/// Metrics that got their last points 30 days, 3 hours and 1 hour ago, and a directory of old ones.
fn fill(daemon: &Daemon) {
    for name in ["web.old", "web.gone.cpu", "short.a"] {
        put(daemon, name, T0 - 30 * DAY);
    }
    daemon.wait_names(3);
    daemon.flush();
    daemon.set_clock(T0 - 3 * HOUR);
    put(daemon, "web.quiet", T0 - 3 * HOUR);
    daemon.set_clock(T0);
    put(daemon, "web.busy", T0);
    daemon.wait_names(5);
}

fn check(daemon: &Daemon) {
    let web = |range: &str| found(daemon, "web.*", range);
    let all = ["web.busy", "web.gone", "web.old", "web.quiet"];
    assert_eq!(web(""), all);
    assert_eq!(web("&from=-1&until=-1"), all);
    assert_eq!(web(&format!("&from={}", T0 - 60 * DAY)), all);
    assert_eq!(web(&format!("&until={}", T0 - DAY)), all);
    // A directory is still shown, as in Graphite, but its metrics are not.
    assert_eq!(web(&format!("&from={}", T0 - 6 * HOUR)), ["web.busy", "web.gone", "web.quiet"]);
    assert_eq!(found(daemon, "web.gone.*", &format!("&from={}", T0 - 6 * HOUR)), [""; 0]);
    // The tolerance is two hours.
    assert_eq!(web(&format!("&from={}", T0 - 2 * HOUR)), ["web.busy", "web.gone", "web.quiet"]);
    assert_eq!(web("&from=-30min"), ["web.busy", "web.gone"]);
    // No stage of this metric reaches that far back.
    assert_eq!(found(daemon, "short.*", ""), ["short.a"]);
    assert_eq!(found(daemon, "short.*", &format!("&from=0&until={}", T0 - 2 * DAY)), [""; 0]);
    let tree = daemon.get(&format!("/metrics/find?query=web.*&from={}", T0 - HOUR / 2));
    let tree: Vec<serde_json::Value> = serde_json::from_str(&tree.body).unwrap();
    let texts: Vec<&str> = tree.iter().map(|node| node["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["gone", "busy"]);
    // A hidden metric can still be drawn.
    assert_eq!(daemon.render("web.old", T0 - 40 * DAY, T0, T0).len(), 1);
}

#[test]
fn metrics_without_points_in_the_range_are_hidden() {
    let mut setup = setup();
    setup.set("find.hide_inactive", "true");
    let daemon = setup.start();
    fill(&daemon);
    check(&daemon);
    setup.clock(T0);
    let received = daemon.ledger().received;
    let written = || daemon.counters().sum("plumbago_journal_written_points_total");
    wait_until("the journal to have all points", || written() >= received);
    daemon.kill();
    let daemon = setup.start();
    check(&daemon);
    daemon.stop_well();
    let daemon = setup.start();
    check(&daemon);
    // A point makes an old metric visible again.
    put(&daemon, "web.old", T0);
    wait_until("the metric to be shown", || {
        found(&daemon, "web.*", "&from=-30min") == ["web.busy", "web.gone", "web.old"]
    });
    daemon.stop_well();
}

#[test]
fn nothing_is_hidden_by_default() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let range = format!("&from={}&until={T0}", T0 - 60);
    assert_eq!(found(&daemon, "web.*", &range), ["web.busy", "web.gone", "web.old", "web.quiet"]);
    daemon.stop_well();
}

/// A metric that this daemon does not write is shown as long as another daemon records that it writes it.
#[test]
fn on_cassandra_metrics_of_other_daemons_are_looked_up() {
    const KEYSPACE: &str = "find_time";
    let Some(server) = server::for_tests() else { return };
    let mut cql = server.connect().unwrap();
    server.drop_keyspaces(KEYSPACE).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let mut setup = setup();
    setup.clock(now).set("find.hide_inactive", "true");
    setup.on_cassandra(&server.contact_point(), KEYSPACE);
    let daemon = setup.start();
    for name in ["web.quiet", "web.other"] {
        put(&daemon, name, now);
    }
    daemon.wait_names(2);
    let metadata = format!("{KEYSPACE}_metadata.metrics_metadata");
    wait_until("the names to be stored", || {
        cql.query(&format!("SELECT name FROM {metadata}")).unwrap().iter().count() == 2
    });
    daemon.flush();
    let later = now + 30 * DAY;
    daemon.set_clock(later);
    put(&daemon, "web.busy", later);
    daemon.wait_names(3);
    let range = format!("&from={}", later - HOUR);
    assert_eq!(found(&daemon, "web.*", &range), ["web.busy"]);
    let noted =
        format!("UPDATE {metadata} SET updated_on = minTimeuuid({}) WHERE name = 'web.other'", later * 1000);
    cql.query(&noted).unwrap();
    assert_eq!(found(&daemon, "web.*", &range), ["web.busy", "web.other"]);
    assert_eq!(found(&daemon, "web.*", ""), ["web.busy", "web.other", "web.quiet"]);
    daemon.stop_well();
    server.clean_up(KEYSPACE).unwrap();
}
