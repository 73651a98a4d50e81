//! Tests with real nodes: CQL, SASI, TLS, and which acknowledged writes survive a kill and a clean stop.
#![allow(clippy::unwrap_used, missing_docs)]

use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use plumbago_cassandra_node::cql::{Connection, Consistency};
use plumbago_cassandra_node::server::{cluster_for_test, for_tests};
use plumbago_cassandra_node::{CommitlogSync, NodeError, Options, Release, Server};

/// Held while a test runs its own cluster, so that only one such cluster runs at a time.
static TURN: Mutex<()> = Mutex::new(());

/// A test that waits longer than this fails instead of hanging.
const HUNG: Duration = Duration::from_secs(300);

const ONE_COPY: &str = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

#[test]
fn a_node_speaks_cql_and_has_sasi() {
    let Some(server) = for_tests() else { return };
    let mut cql = server.connect().unwrap();
    let version = cql.query("SELECT release_version FROM system.local").unwrap().texts();
    if matches!(server, Server::Own(_)) {
        assert_eq!(version, [Release::default().version()]);
    }

    cql.query("DROP KEYSPACE IF EXISTS node_test").unwrap();
    cql.query(&format!("CREATE KEYSPACE node_test {ONE_COPY}")).unwrap();
    cql.query("CREATE TABLE node_test.names (name text PRIMARY KEY, component_0 text, size smallint)")
        .unwrap();
    cql.query(
        "CREATE CUSTOM INDEX ON node_test.names (component_0) \
         USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {'case_sensitive': 'true', \
         'analyzer_class': 'org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer'}",
    )
    .unwrap();
    for (name, size) in [("cpu0.idle", 7), ("cpu1.idle", -3), ("mem.free", 0)] {
        let first = name.split('.').next().unwrap();
        let insert = format!(
            "INSERT INTO node_test.names (name, component_0, size) VALUES ('{name}', '{first}', {size})"
        );
        cql.query(&insert).unwrap();
    }
    let found = cql.query("SELECT name, size FROM node_test.names WHERE component_0 LIKE 'cpu%'").unwrap();
    assert_eq!(found.columns(), ["name", "size"]);
    let mut found: Vec<_> = found.iter().map(|row| (row.text(0).unwrap(), row.integer(1).unwrap())).collect();
    found.sort_unstable();
    assert_eq!(found, [("cpu0.idle", 7), ("cpu1.idle", -3)]);

    let refused = cql.query("SELECT * FROM node_test.nothing").unwrap_err();
    assert!(matches!(&refused, NodeError::Cql { code: 0x2200, .. }), "{refused}");
    cql.query("DROP KEYSPACE node_test").unwrap();
}

/// The classes of the node come from the archive. What Java unpacks is in the directory of the node, which is
/// removed with it.
#[test]
fn a_node_starts_from_the_archive_and_leaves_no_library() {
    let Some(Server::Own(cluster)) = for_tests() else { return };
    let node = &cluster.nodes()[0];
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", node.id().unwrap())).unwrap();
    let files: Vec<&str> = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).collect();
    let archive = format!("/{}-classes-", Release::default().version());
    assert!(files.iter().any(|file| file.contains(&archive)), "{files:?}");
    let home = node.data().canonicalize().unwrap().with_file_name("tmp").display().to_string();
    let unpacked: Vec<&&str> = files.iter().filter(|file| file.contains("liblz4-java")).collect();
    assert!(!unpacked.is_empty() && unpacked.iter().all(|file| file.starts_with(&home)), "{unpacked:?}");
}

/// `kill -9` keeps the acknowledged writes of a keyspace with durable writes, and loses those of a keyspace
/// without them, which is how BigGraphite creates keyspaces. A clean stop keeps both.
#[test]
fn kill_and_restart() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let options = Options { commitlog_sync: CommitlogSync::Batch, heap_mib: 256, ..Options::default() };
    let Some(mut cluster) = cluster_for_test(1, &options) else { return };
    let node = cluster.node(0);
    let mut cql = node.connect().unwrap();
    for (keyspace, durable) in [("durable", true), ("volatile", false)] {
        cql.query(&format!("CREATE KEYSPACE {keyspace} {ONE_COPY} AND durable_writes = {durable}")).unwrap();
        cql.query(&format!("CREATE TABLE {keyspace}.t (k int PRIMARY KEY, v double)")).unwrap();
    }
    let insert = |cql: &mut Connection, from: i32| {
        for keyspace in ["durable", "volatile"] {
            for k in from..from + 50 {
                cql.query(&format!("INSERT INTO {keyspace}.t (k, v) VALUES ({k}, 0.5)")).unwrap();
            }
        }
    };
    insert(&mut cql, 0);
    node.stop();
    node.start().unwrap();
    let mut cql = node.connect().unwrap();
    insert(&mut cql, 1000);
    let first = node.id();
    node.kill();
    assert!(!node.runs() && node.connect().is_err());
    node.start().unwrap();
    assert_ne!(node.id(), first);

    let mut cql = node.connect().unwrap();
    let mut count = |keyspace: &str| cql.query(&format!("SELECT k FROM {keyspace}.t")).unwrap().len();
    assert_eq!((count("durable"), count("volatile")), (100, 50));
}

/// A server requires passwords and offers TLS. `openssl` checks the certificate.
#[test]
fn authentication_and_encryption() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // The setting is off and a Java property overrides it, as in `deploy/compose.yaml`.
    let java =
        ["-Dcassandra.config.allow_system_properties=true", "-Dcassandra.settings.sasi_indexes_enabled=true"];
    let options = Options {
        authentication: true,
        tls: true,
        sasi: false,
        stays_up: true,
        heap_mib: 256,
        java: java.map(str::to_owned).to_vec(),
        ..Options::default()
    };
    let Some(mut cluster) = cluster_for_test(1, &options) else { return };
    let node = cluster.node(0);
    for credentials in [None, Some(("cassandra", "wrong"))] {
        let refused = Connection::open(node.socket(), credentials).unwrap_err();
        assert!(matches!(&refused, NodeError::Cql { code: 0x0100, .. }), "{refused}");
    }
    let sasi = "SELECT value FROM system_views.settings WHERE name = 'sasi_indexes_enabled'";
    assert_eq!(node.connect().unwrap().query(sasi).unwrap().texts(), ["true"]);

    let connect = ["s_client", "-verify_return_error", "-connect", &node.contact_point(), "-CAfile"];
    let output = Command::new("openssl").args(connect).arg(node.certificate()).stdin(Stdio::null()).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("Verify return code: 0 (ok)"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// A frozen node keeps its connections open without answering, and answers again when it continues.
#[test]
fn three_nodes_know_each_other() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let options = Options { heap_mib: 256, ..Options::default() };
    let Some(mut cluster) = cluster_for_test(3, &options) else { return };
    let mut cql = cluster.node(0).connect().unwrap();
    cql.query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
        .unwrap();
    cql.query("CREATE TABLE k.t (k int PRIMARY KEY)").unwrap();
    cluster.wait_settled().unwrap();
    cluster.node(1).kill();
    cluster.node(2).pause();
    assert!(cluster.node(2).runs());
    cql.query("INSERT INTO k.t (k) VALUES (1)").unwrap();
    cluster.node(2).resume();
    cluster.start_all().unwrap();
    // The node that was frozen needs some time to notice that the others are reachable.
    let mut cql = cluster.node(2).connect().unwrap();
    let begun = Instant::now();
    let rows = loop {
        match cql.query_at(Consistency::All, "SELECT k FROM k.t") {
            Ok(rows) => break rows,
            Err(error) => assert!(begun.elapsed() < HUNG, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(rows.len(), 1);
}
