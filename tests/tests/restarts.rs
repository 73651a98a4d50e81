//! Cassandra nodes that lose their memory in a restart: while the daemon is not running, and repeatedly while it is
//! running.

use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use plumbago_cassandra_node::server::cluster_for_test;
use plumbago_cassandra_node::{Cluster, Options};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::{each, is_long};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

const METRICS: i64 = 500;
const POINTS: i64 = 60;
const TABLE: &str = "unwatched.datapoints_1440p_60s_0";

/// A daemon on nodes without a commit log, which have acknowledged all points. There is one copy of each row.
fn acknowledged(nodes: usize, seed: u64) -> Option<(Setup, Cluster, Daemon)> {
    let cluster = cluster_for_test(nodes, &Options { heap_mib: 320, sasi: false, ..Options::default() })?;
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", "unwatched");
    setup.set("store.cassandra.contact_points", &cluster.contact_points().join(","));
    setup.set("store.cassandra.components", "8").set("store.cassandra.indexes", "none");
    setup.set("store.cassandra.replication.durable_writes", "false");
    setup.set("sender.retry_deferred_every", "1s");
    setup.set("spool.linger", "100ms").set("engine.flush_interval", "1s");
    setup.schemas("[all]\npattern = .*\nretentions = 60s:1d\n");
    assert!(setup.run(&["syncdb"]).status.success());
    let now = now();
    let daemon = setup.clock(now).start();
    for minute in 0..POINTS {
        send(&daemon, seed, now - (POINTS - minute) * 60, minute);
    }
    wait_until("the points to be received", || daemon.ledger().received >= (METRICS * POINTS) as u64);
    wait_until("all points to be acknowledged", || {
        daemon.flush();
        stored(&cluster) == METRICS * POINTS && daemon.counters().sum("plumbago_spool_pending_rows") == 0
    });
    Some((setup, cluster, daemon))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

/// Sends a point of each metric. The seed decides on the names, and so on the partitions and their nodes.
fn send(daemon: &Daemon, seed: u64, time: i64, value: i64) {
    let point = |n: i64| Point::new(format!("unwatched.s{seed}.m{n}"), time, value as f64);
    let points: Vec<Point> = (0..METRICS).map(point).collect();
    daemon.sender().send(&points);
}

/// The number of rows on the server; -1 if it cannot be read.
fn stored(cluster: &Cluster) -> i64 {
    let count = || {
        let mut cql = cluster.nodes()[0].connect().ok()?;
        let rows = cql.query(&format!("SELECT count(*) FROM {TABLE}")).ok()?;
        rows.iter().next()?.integer(0)
    };
    count().unwrap_or(-1)
}

/// Kills the only node and starts it again. It must have lost points.
fn restart_node(cluster: &mut Cluster) {
    cluster.node(0).kill();
    cluster.node(0).start().unwrap();
    let left = stored(cluster);
    assert!((0..METRICS * POINTS).contains(&left), "the node lost nothing, {left} rows are left");
}

/// The daemon is stopped when the node restarts, and paused when it restarts once more.
#[test]
fn while_the_daemon_was_away() {
    each(1, 1, away);
}

fn away(seed: u64) {
    let Some((setup, mut cluster, daemon)) = acknowledged(1, seed) else { return };
    daemon.stop_well();
    restart_node(&mut cluster);
    let daemon = setup.start();
    wait_until("all points to be back after a stop", || stored(&cluster) == METRICS * POINTS);
    let nothing_waits = || daemon.counters().sum("plumbago_spool_resend_bytes") == 0;
    wait_until("nothing to be sent again", nothing_waits);

    daemon.signal(Signal::SIGSTOP);
    restart_node(&mut cluster);
    daemon.signal(Signal::SIGCONT);
    wait_until("all points to be back after a pause", || stored(&cluster) == METRICS * POINTS);
}

/// One of three nodes restarts again and again, each time before all of its rows can have been sent again.
/// New rows of the other nodes are acknowledged meanwhile, only rows of that node are sent again, and in the
/// end all rows are there.
#[test]
fn again_and_again() {
    each(1, 1, returning);
}

fn returning(seed: u64) {
    let returns = if is_long() { 4 } else { 2 };
    let Some((_setup, mut cluster, daemon)) = acknowledged(3, seed) else { return };
    let counter = |name: &str| daemon.counters().sum(name) as i64;
    let start = now() + 60;
    for number in 1..=returns {
        cluster.node(2).kill();
        let before = counter("plumbago_sender_rows_total");
        daemon.set_clock(start + number * 60);
        send(&daemon, seed, start + number * 60, number);
        wait_until("rows of the living nodes to be acknowledged", || {
            counter("plumbago_sender_rows_total") - before > METRICS / 10
        });
        // The daemon is ready, and reports which rows wait and why.
        wait_until("the rows that wait to be named", || {
            let ready = http::get(daemon.admin(), "/readyz");
            ready.status == 200
                && ready.body.contains("deferred_rows")
                && ready.body.contains("retry_deferred_every")
        });
        cluster.node(2).start().unwrap();
    }
    let all = METRICS * (POINTS + returns);
    wait_until("all points to be there", || stored(&cluster) == all);
    wait_until("nothing to be sent again", || counter("plumbago_spool_resend_bytes") == 0);
    wait_until("the warning to end", || !http::get(daemon.admin(), "/readyz").body.contains("deferred_rows"));
    let resent = counter("plumbago_sender_resent_rows_total");
    println!("{resent} rows sent again in {returns} returns, of {all} on three nodes");
    assert!(resent > all / 10 && resent < all * returns * 8 / 10, "{resent} rows of {all}");
}
