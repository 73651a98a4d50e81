//! Mistakes of operators and senders with a daemon on Cassandra: credentials, clocks, names.

use std::time::{SystemTime, UNIX_EPOCH};

use plumbago_cassandra_node::Options;
use plumbago_cassandra_node::server::{self, cluster_for_test};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

use crate::faults::Run;

/// A wrong password: points are accepted and `/readyz` reports the problem. Once the server accepts the
/// password, all points arrive.
#[test]
fn wrong_credentials() {
    let options =
        Options { heap_mib: 320, sasi: false, authentication: true, stays_up: true, ..Options::default() };
    let Some(cluster) = cluster_for_test(1, &options) else { return };
    let mut cql = cluster.nodes()[0].connect().unwrap();
    cql.query("CREATE ROLE plumbago WITH LOGIN = true AND SUPERUSER = true AND PASSWORD = 'the old one'")
        .unwrap();
    let mut run = Run::new("credentials", &cluster.contact_points(), 65);
    run.setup.set("store.cassandra.username", "plumbago");
    run.setup.set("store.cassandra.password", "the old one");
    run.syncdb();

    run.setup.set("store.cassandra.password", "the new one");
    let refused = run.setup.run(&["schema"]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.output);
    assert!(
        refused.output.contains("credentials") || refused.output.contains("password"),
        "{}",
        refused.output
    );
    run.start();
    run.steps(20);
    let ready = run.ready();
    assert!(ready.status == 503 && ready.body.contains("incorrect"), "{ready:?}");
    assert!(!ready.body.contains("the new one") && !run.daemon().log().contains("the new one"));

    cql.query("ALTER ROLE plumbago WITH PASSWORD = 'the new one'").unwrap();
    run.sent();
    wait_until("the trouble to be over", || run.ready().status == 200);
    run.steps(10);
    run.check("after the password was right");
    run.check_server("after the password was right, by the server");

    // A role that may do everything except register its writer id: no row is sent, and `/readyz` contains the
    // reason.
    cql.query("CREATE ROLE limited WITH LOGIN = true AND PASSWORD = 'limited'").unwrap();
    for keyspace in ["credentials", "credentials_metadata"] {
        cql.query(&format!("GRANT SELECT ON KEYSPACE {keyspace} TO limited")).unwrap();
    }
    run.setup.set("store.cassandra.username", "limited").set("store.cassandra.password", "limited");
    run.stop_and_start();
    run.steps(10);
    wait_until("the reason", || {
        let ready = run.ready();
        ready.status == 503 && ready.body.contains("plumbago_writers")
    });
    for keyspace in ["credentials", "credentials_metadata"] {
        cql.query(&format!("GRANT MODIFY ON KEYSPACE {keyspace} TO limited")).unwrap();
    }
    wait_until("the right to be used", || run.ready().status == 200);
    run.check_server("after the right was granted");

    // The role loses the right while the daemon runs. `/readyz` names the table, and its points wait.
    cql.query("REVOKE MODIFY ON KEYSPACE credentials FROM limited").unwrap();
    wait_until("the lost right to be named", || {
        run.steps(1);
        run.daemon().flush();
        let ready = run.ready();
        ready.status == 503 && ready.body.contains("MODIFY")
    });
    cql.query("GRANT MODIFY ON KEYSPACE credentials TO limited").unwrap();
    run.check_server("after the right was granted again");

    // The role loses the same right for the tables of names.
    cql.query("REVOKE MODIFY ON KEYSPACE credentials_metadata FROM limited").unwrap();
    let mut number = 0;
    // The server keeps rights in a cache for a while, so the first names may still be written.
    wait_until("the lost right to be named", || {
        number += 1;
        run.daemon().sender().send(&[Point::new(format!("new.{number}"), run.load.now, 1.0)]);
        let ready = run.ready();
        ready.body.contains("new_metrics") && ready.body.contains("MODIFY")
    });
    cql.query("GRANT MODIFY ON KEYSPACE credentials_metadata TO limited").unwrap();
    wait_until("the warning to end", || !run.ready().body.contains("new_metrics"));
}

/// The keyspaces are dropped and created again with another replication while the daemon runs. The daemon
/// writes their names again by itself. An operator then sends the rows again that the server had acknowledged
/// before.
#[test]
fn a_keyspace_made_again() {
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces("remade").unwrap();
    let mut cql = server.connect().unwrap();
    let mut run = Run::new("remade", &[server.contact_point()], 66);
    run.syncdb();
    run.start();
    run.steps(20);
    run.sent();
    for keyspace in ["remade", "remade_metadata"] {
        cql.query(&format!("DROP KEYSPACE {keyspace}")).unwrap();
    }
    run.steps(5);
    wait_until("the lost keyspace to be named", || {
        let ready = run.ready();
        ready.status == 503 && ready.body.contains("remade") && ready.body.contains("syncdb")
    });
    run.setup.set("store.cassandra.replication.durable_writes", "false");
    run.syncdb();
    wait_until("the keyspace to be used", || run.ready().status == 200);
    let replayed = run.daemon().post_admin(&format!("/admin/replay?since={}", run.load.start - 3600));
    assert!(replayed.status < 300, "{replayed:?}");
    run.check_server("after the keyspace was made again");
    drop(run);
    server.clean_up("remade").unwrap();
}

/// For a while another cluster answers at the address of the node. It has a keyspace of the same name with
/// other tables. The daemon names these tables and keeps the points, and everything arrives when the right
/// cluster is back.
#[test]
fn another_cluster_at_the_address() {
    const KEYSPACE: &str = "elsewhere";
    let options = Options { heap_mib: 320, sasi: false, ..Options::default() };
    let Some(mut cluster) = cluster_for_test(1, &options) else { return };
    let mut run = Run::new(KEYSPACE, &cluster.contact_points(), 69);
    run.syncdb();
    run.start();
    run.steps(20);
    run.sent();

    let node = cluster.node(0);
    let data = node.data();
    let ours = data.with_extension("ours");
    node.stop();
    std::fs::rename(&data, &ours).unwrap();
    std::fs::create_dir(&data).unwrap();
    node.start().unwrap();
    let mut cql = node.connect().unwrap();
    for name in [KEYSPACE.to_owned(), format!("{KEYSPACE}_metadata")] {
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
        cql.query(&format!("CREATE KEYSPACE {name} WITH replication = {replication}")).unwrap();
    }
    let table = "datapoints_1440p_10s_0";
    cql.query(&format!("CREATE TABLE {KEYSPACE}.{table} (metric text PRIMARY KEY, value int)")).unwrap();
    run.steps(5);
    wait_until("the other tables to be named", || {
        let ready = run.ready();
        ready.status == 503 && ready.body.contains(table) && ready.body.contains("syncdb")
    });
    assert!(run.unsent() > 0);
    drop(cql);

    let node = cluster.node(0);
    node.kill();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&ours, &data).unwrap();
    node.start().unwrap();
    run.starts_noted(&cluster);
    run.sent();
    wait_until("the end of the trouble", || run.ready().status == 200);
    run.check_server("after another cluster had answered");
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 / 60 * 60
}

/// A setup with a keyspace of the shared server.
fn setup(keyspace: &str, indexes: &str) -> Option<Setup> {
    let server = server::for_tests()?;
    server.drop_keyspaces(keyspace).unwrap();
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", keyspace);
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.components", "5").set("store.cassandra.indexes", indexes);
    setup.set("store.cassandra.request_timeout", "60s");
    setup.set("spool.linger", "100ms").set("engine.flush_interval", "1s");
    setup.schemas("[all]\npattern = .*\nretentions = 60s:1d,10m:30d\n");
    let ended = setup.run(&["syncdb"]);
    assert!(ended.status.success(), "{}", ended.output);
    Some(setup)
}

fn sent(daemon: &Daemon) {
    daemon.flush();
    wait_until("the spool to be empty", || daemon.counters().sum("plumbago_spool_pending_rows") == 0);
}

/// The daemon's clock is an hour ahead and is corrected. Later points still replace earlier ones, and the log
/// and `/readyz` mention the difference.
#[test]
fn a_clock_that_was_ahead() {
    const KEYSPACE: &str = "mistakes_clock";
    let Some(mut setup) = setup(KEYSPACE, "none") else { return };
    let now = now();
    let time = |age: i64| now - 60 * age;
    let points = |value: f64| -> Vec<Point> {
        (1..40).map(|age| Point::new("clock.skew", time(age), value * age as f64)).collect()
    };
    let daemon = setup.clock(now + 3600).start();
    daemon.put(&points(1.0));
    sent(&daemon);
    let written = || daemon.counters().sum("plumbago_cassandra_rows_written_total") > 0;
    wait_until("the rows to be written", written);
    assert!(daemon.log().contains("the server's clock differs from this machine's"), "{}", daemon.log());
    let says = |daemon: &Daemon, what: &str| http::get(daemon.admin(), "/readyz").body.contains(what);
    wait_until("the warning", || says(&daemon, "s ahead of the server's, so"));
    daemon.stop_well();

    let daemon = setup.clock(now).start();
    daemon.put(&points(2.0));
    let expected: Vec<(i64, f64)> = (1..40).rev().map(|age| (time(age), 2.0 * age as f64)).collect();
    let seen = |daemon: &Daemon| {
        let series = daemon.render("clock.skew", now - 3600, now, now);
        series.first().is_some_and(|series| series.known().into_iter().eq(expected.clone()))
    };
    wait_until("the new values", || seen(&daemon));
    wait_until("the warning", || says(&daemon, "the clock of this machine was ahead"));
    sent(&daemon);
    assert!(daemon.ledger().balances());
    daemon.stop_well();

    // The rows on the server, without local data.
    setup.set("data_dir", setup.path().join("empty").to_str().unwrap());
    let daemon = setup.start();
    daemon.wait_names(1);
    assert!(seen(&daemon), "{:?}", daemon.render("clock.skew", now - 3600, now, now));
    daemon.stop_well();
    server::for_tests().unwrap().clean_up(KEYSPACE).unwrap();
}

/// Names that the tables cannot store are refused, counted by reason and logged. Other names are not affected.
#[test]
fn names_that_the_tables_cannot_hold() {
    const KEYSPACE: &str = "mistakes_names";
    let Some(mut setup) = setup(KEYSPACE, "sasi") else { return };
    let now = now();
    let daemon = setup.clock(now).start();
    let long = "x".repeat(1024);
    let cases = [
        ("a.b.c.d.e".to_owned(), "name_too_deep"),
        ("a.__END__".to_owned(), "name_reserved"),
        (format!("a.{long}"), "name_too_long"),
        (format!("{}.b", "y".repeat(1023)), "name_too_long"),
    ];
    for turn in 1..4 {
        let mut points: Vec<Point> =
            cases.iter().map(|(name, _)| Point::new(name, now - 60 * turn, 1.0)).collect();
        points.push(Point::new("a.b.c.d", now - 60 * turn, 1.0));
        daemon.put(&points);
    }
    daemon.wait_names(1);
    sent(&daemon);
    assert_eq!(daemon.names(), ["a.b.c.d"]);
    let counters = daemon.counters();
    for (reason, count) in [("name_too_deep", 3), ("name_reserved", 3), ("name_too_long", 6)] {
        let counted =
            counters.with("plumbago_rejected_points_total", &format!("stage=\"engine\",reason=\"{reason}\""));
        assert_eq!(counted, count, "{reason}");
    }
    assert!(daemon.log().contains("more than 4 components"), "{}", daemon.log());
    assert!(daemon.ledger().balances());
    daemon.stop_well();
    let daemon = setup.start();
    assert_eq!(daemon.names(), ["a.b.c.d"]);
    assert_eq!(daemon.render("a.b.c.d", now - 600, now, now)[0].known().len(), 3);
    daemon.stop_well();
    server::for_tests().unwrap().clean_up(KEYSPACE).unwrap();
}
