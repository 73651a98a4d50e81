//! Measures how long new rows take to reach the server while a node restarts again and again, and how many
//! rows are sent again.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plumbago_cassandra_node::cql::{Connection, Consistency};
use plumbago_cassandra_node::server::cluster_for_test;
use plumbago_cassandra_node::{Cluster, Options};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

use super::amount;

const METRICS: usize = 2000;
const TABLE: &str = "returns.datapoints_17280p_5s_0";
/// Time between two points of a metric.
const EVERY: Duration = Duration::from_secs(5);
/// Time between two restarts of the node.
const RESTART: Duration = Duration::from_secs(30);

/// Three nodes with a copy of each row and no commit log. One of them is killed every 30 seconds. The measured age is
/// that of the newest row of one metric, read at `QUORUM` every half second.
#[test]
#[ignore = "a figure"]
fn a_node_that_restarts_every_30_seconds() {
    let options = Options { heap_mib: 400, sasi: false, ..Options::default() };
    let Some(mut cluster) = cluster_for_test(3, &options) else { return };
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", "returns");
    setup.set("store.cassandra.contact_points", &cluster.contact_points().join(","));
    setup.set("store.cassandra.components", "8").set("store.cassandra.indexes", "none");
    setup.set("store.cassandra.replication.durable_writes", "false");
    setup.set("store.cassandra.replication.data", "3").set("store.cassandra.replication.metadata", "3");
    setup.set("engine.flush_interval", "5s").set("spool.linger", "1s").set("log.level", "warn");
    setup.schemas("[all]\npattern = .*\nretentions = 5s:1d\n");
    assert!(setup.run(&["syncdb"]).status.success());
    let daemon = setup.start();
    let counter = |name: &str| daemon.counters().sum(name);

    let run = |length: Duration, cluster: &mut Cluster, restarts: bool| {
        let (start, mut ages, mut killed) = (Instant::now(), Vec::new(), Instant::now());
        let (mut sent, mut returns, mut down) = (Instant::now(), 0, false);
        while start.elapsed() < length {
            if sent.elapsed() >= EVERY {
                sent = Instant::now();
                send(&daemon);
            }
            if restarts && !down && killed.elapsed() >= RESTART {
                cluster.node(2).kill();
                (killed, down) = (Instant::now(), true);
            } else if down {
                cluster.node(2).launch().unwrap();
                (returns, down) = (returns + 1, false);
            }
            ages.extend(age_of_the_newest(cluster));
            thread::sleep(Duration::from_millis(500));
        }
        ages.sort_unstable();
        (ages, returns)
    };

    send(&daemon);
    wait_until("the metrics to be on the server", || {
        daemon.flush();
        age_of_the_newest(&cluster).is_some()
    });
    run(Duration::from_secs(20), &mut cluster, false);
    let seconds = |name, usual| Duration::from_secs(60 * amount(name, usual) as u64);
    let (calm, _) = run(seconds("MINUTES_CALM", 1), &mut cluster, false);
    let (rows, resent) =
        (counter("plumbago_sender_rows_total"), counter("plumbago_sender_resent_rows_total"));
    let (troubled, returns) = run(seconds("MINUTES", 10), &mut cluster, true);
    let rows = counter("plumbago_sender_rows_total") - rows;
    wait_until("nothing to be sent again", || counter("plumbago_spool_resend_bytes") == 0);
    let resent = counter("plumbago_sender_resent_rows_total") - resent;

    println!("\nage of the newest row in s       p50    p99");
    for (what, ages) in [("undisturbed", &calm), ("a node restarts", &troubled)] {
        let at = |share: f64| ages[((ages.len() - 1) as f64 * share) as usize];
        println!("{what:<30} {:>5} {:>6}", at(0.5), at(0.99));
    }
    println!("{returns} returns; {rows} rows sent meanwhile, {resent} sent again");
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

fn send(daemon: &Daemon) {
    let points: Vec<Point> =
        (0..METRICS).map(|n| Point::new(format!("returns.m{n}"), now(), n as f64)).collect();
    daemon.sender().send(&points);
}

/// The age of the newest row of a metric, in seconds; `None` if there is no row or no answer.
fn age_of_the_newest(cluster: &Cluster) -> Option<i64> {
    let address = cluster.nodes()[0].contact_point().parse().ok()?;
    let mut cql = Connection::open(address, None).ok()?;
    let id = cql.query_at(
        Consistency::Quorum,
        "SELECT id FROM returns_metadata.metrics_metadata WHERE name = 'returns.m7'",
    );
    let id = uuid::Uuid::from_slice(id.ok()?.iter().next()?.bytes(0)?).ok()?;
    // A partition has 2000 slots. The newest row is in the partition of the current time or in the one before.
    let span = 2000 * 5 * 1000;
    let part = now() * 1000 / span * span;
    [part, part - span].into_iter().find_map(|part| {
        let query = format!(
            "SELECT offset FROM {TABLE} WHERE metric = {id} AND time_start_ms = {part} ORDER BY offset DESC LIMIT 1"
        );
        let rows = cql.query_at(Consistency::Quorum, &query).ok()?;
        let offset = rows.iter().next()?.integer(0)?;
        Some(now() - (part / 1000 + offset * 5))
    })
}
