//! A Cassandra node whose disk is full: the disk with its tables and its commit log. `/readyz` names the node
//! and the remedy, no point is lost, and after a restart with space the node has everything.
//!
//! Behaviour of such a node (5.0, with the default `commit_failure_policy: stop`): with a compressed commit
//! log its writes time out, then it refuses requests as overloaded and closes its ports, while the process
//! continues. The plain commit log is a mapped file, and the process dies of SIGBUS.

use plumbago_cassandra_node::cql::{Consistency, Row};
use plumbago_cassandra_node::server::cluster_for_test;
use plumbago_cassandra_node::{Cluster, Node, NodeError, Options};
use plumbago_tests::http::Response;
use plumbago_tests::small_disk::{SmallDisk, with_small_disk};
use plumbago_tests::wait::{wait_ok, wait_until};

use crate::faults::Run;

/// The size of the node's disk in MiB. A quarter of it is for the commit log.
const DISK_MIB: usize = 96;

/// The compressed commit log.
const COMPRESSED: &str = "commitlog_compression: [{class_name: LZ4Compressor}]";

/// Options of Java. The first prevents a memory dump of a gigabyte. The second is the one that Cassandra's
/// message advises if a node does not start because the full disk has damaged the end of its commit log.
const JAVA: [&str; 2] = ["-XX:-CreateCoredumpOnCrash", "-Dcassandra.commitlog.ignorereplayerrors=true"];

/// A cluster of which one node has its data on the small disk. There are no hints, so only the daemon can
/// send that node the rows that it missed.
fn cluster(size: usize, node: usize, disk: &SmallDisk, more: &[&str]) -> Option<Cluster> {
    let settings =
        ["commit_failure_policy: stop", "disk_failure_policy: stop", "hinted_handoff_enabled: false"];
    let options = Options {
        heap_mib: 320,
        sasi: false,
        disk: Some((node, disk.path().join("node"))),
        more: settings.iter().chain(more).map(|line| (*line).to_owned()).collect(),
        java: JAVA.map(str::to_owned).to_vec(),
        ..Options::default()
    };
    cluster_for_test(size, &options)
}

fn acknowledged(run: &Run) -> u64 {
    run.daemon().counters().sum("plumbago_sender_rows_total")
}

/// Continues the load until `/readyz` contains a text. A further step is sent only if rows were acknowledged
/// since the last one, because the node may need more rows until it fails.
fn steps_until(run: &mut Run, what: &str, says: impl Fn(&Response) -> bool) {
    let mut before = acknowledged(run);
    run.steps(5);
    wait_until(what, || {
        let is_said = says(&run.ready());
        let now = acknowledged(run);
        if !is_said && now > before {
            before = now;
            run.steps(1);
        }
        is_said
    });
}

/// Makes space, and starts the node again as an operator would: its process may still run, without open ports.
fn repair(cluster: &mut Cluster, node: usize, disk: &SmallDisk) {
    disk.empty();
    let node = cluster.node(node);
    println!("the process of the node still ran: {}", node.runs());
    node.kill();
    node.start().unwrap();
}

/// All rows of points that a node returns, with the name of their table.
fn rows(node: &Node, level: Consistency, keyspace: &str) -> Vec<(String, Row)> {
    let read = || -> Result<Vec<(String, Row)>, NodeError> {
        let mut cql = node.connect()?;
        let tables =
            format!("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
        let mut rows = Vec::new();
        for table in cql.query(&tables)?.texts() {
            let read = cql.query_at(level, &format!("SELECT * FROM {keyspace}.{table}"))?;
            rows.extend(read.iter().map(|row| (table.clone(), row.clone())));
        }
        Ok(rows)
    };
    // A node needs a moment to find out that others are down.
    wait_ok("the rows of a node", read)
}

#[test]
fn one_of_three_nodes() {
    with_small_disk("node_disk_full::child_one_of_three_nodes", DISK_MIB);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_one_of_three_nodes() {
    const KEYSPACE: &str = "node_disk_full";
    let Some(disk) = SmallDisk::here() else { return };
    let Some(mut cluster) = cluster(3, 2, &disk, &[COMPRESSED]) else { return };
    let mut run = Run::new(KEYSPACE, &cluster.contact_points(), 67);
    for what in ["data", "metadata"] {
        run.setup.set(&format!("store.cassandra.replication.{what}"), "3");
    }
    run.syncdb();
    run.start();
    run.steps(20);
    run.sent();
    wait_until("all nodes to be there", || !run.ready().body.contains("nodes_missing"));

    disk.fill();
    let address = cluster.nodes()[2].contact_point();
    steps_until(&mut run, "the node to be named", |ready| {
        ready.status == 200
            && ["nodes_missing", "1 of 3 nodes", address.as_str(), "make room"]
                .iter()
                .all(|part| ready.body.contains(part))
    });
    // The other nodes acknowledge new rows, including those that the node refused.
    run.steps(15);
    run.sent();
    assert_eq!(run.ready().status, 200);
    run.check("while a node has no space");
    run.sent();
    let wanted = rows(&cluster.nodes()[0], Consistency::Quorum, KEYSPACE);

    repair(&mut cluster, 2, &disk);
    run.starts_noted(&cluster);
    wait_until("the warning to end", || !run.ready().body.contains("nodes_missing"));
    run.sent();
    // Until here nothing is read from more than one node, because such a read would repair rows that the
    // daemon did not send.
    for other in [0, 1] {
        cluster.node(other).kill();
    }
    let alone = rows(&cluster.nodes()[2], Consistency::One, KEYSPACE);
    let lacks: Vec<&(String, Row)> = wanted.iter().filter(|row| !alone.contains(row)).collect();
    println!("the node alone has {} rows, the others had {}", alone.len(), wanted.len());
    assert!(!wanted.is_empty() && lacks.is_empty(), "{} rows, like {:?}", lacks.len(), lacks.first());

    cluster.start_all().unwrap();
    run.starts_noted(&cluster);
    run.steps(5);
    run.check_server("after the node had space again");
}

#[test]
fn the_only_node() {
    with_small_disk("node_disk_full::child_the_only_node", DISK_MIB);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_the_only_node() {
    let Some(disk) = SmallDisk::here() else { return };
    let Some(mut cluster) = cluster(1, 0, &disk, &[]) else { return };
    let mut run = Run::new("only_node_disk_full", &cluster.contact_points(), 68);
    run.syncdb();
    run.start();
    run.steps(20);
    run.sent();

    disk.fill();
    let address = cluster.nodes()[0].contact_point();
    steps_until(&mut run, "the node to be named", |ready| {
        ready.status == 503
            && ["store_down", address.as_str(), "make room"].iter().all(|part| ready.body.contains(part))
    });
    // Points are accepted, and survive a kill of the daemon.
    run.steps(10);
    wait_until("rows to wait", || run.unsent() > 0);
    run.daemon().ledger_at(0);
    run.kill_and_start();

    repair(&mut cluster, 0, &disk);
    run.starts_noted(&cluster);
    run.sent();
    wait_until("the end of the trouble", || run.ready().status == 200);
    run.check_server("after the only node had space again");
}
