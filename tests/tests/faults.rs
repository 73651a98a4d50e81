//! Tests of a daemon on Cassandra whose nodes crash, hang and lose rows that they acknowledged. Afterwards
//! every point and every aggregate equals that of a run without faults.

use std::time::Instant;

use plumbago_cassandra_node::cql::{Connection, Consistency, SUPERUSER};
use plumbago_cassandra_node::server::{self, cluster_for_test};
use plumbago_cassandra_node::{Cluster, CommitlogSync, Node, Options};
use plumbago_tests::answer::alike;
use plumbago_tests::counters::JOURNAL_WRITTEN;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::each;
use plumbago_tests::send::{LineSender, Point};
use plumbago_tests::wait::wait_until;
use uuid::Uuid;

use crate::compare;
use crate::condition_times::LIMIT;
use crate::load::{self, Load, Sent};

/// A daemon under load, and the model of the points that it was sent.
pub(crate) struct Run {
    pub(crate) setup: Setup,
    pub(crate) load: Load,
    daemon: Option<(Daemon, LineSender)>,
    /// Number of points that the running process has received.
    received: u64,
    /// The clock at its start.
    started: i64,
    /// Set if the test deletes the data directory. In that case it sends no points from the future, which
    /// would be lost with the directory. After the loss, points before this time replace none, because they
    /// belong to another writer.
    lost_until: Option<i64>,
    /// A node, and the keyspace of the names.
    names: (String, String),
}

impl Run {
    pub(crate) fn new(keyspace: &str, contact_points: &[String], seed: u64) -> Self {
        let load = Load::new(seed, 2);
        let names = (contact_points[0].clone(), format!("{keyspace}_metadata"));
        let setup = setup(keyspace, contact_points);
        Self { setup, load, daemon: None, received: 0, started: 0, lost_until: None, names }
    }

    pub(crate) fn syncdb(&self) {
        let ended = self.setup.run(&["syncdb"]);
        assert!(ended.status.success(), "{}", ended.output);
    }

    pub(crate) fn start(&mut self) {
        let daemon = self.setup.clock(self.load.now).start();
        let sender = daemon.sender();
        self.daemon = Some((daemon, sender));
        self.received = 0;
        self.started = self.load.now;
    }

    pub(crate) fn daemon(&self) -> &Daemon {
        &self.daemon.as_ref().unwrap().0
    }

    /// Sends steps of the load. The clock advances only after all points of a step were applied.
    pub(crate) fn steps(&mut self, count: usize) {
        for _ in 0..count {
            let mut sent = self.load.step();
            if let Some(until) = self.lost_until {
                let replaces = |one: &Sent| one.before.is_some() && one.point.timestamp < until;
                self.load.take_back(&mut sent, |one| one.release > 0 || replaces(one));
            }
            let points: Vec<Point> = sent.into_iter().map(|sent| sent.point).collect();
            let (daemon, sender) = self.daemon.as_mut().unwrap();
            daemon.set_clock(self.load.now);
            sender.send(&points);
            self.received += points.len() as u64;
            daemon.applied_at(self.received);
        }
    }

    /// Kills the daemon with SIGKILL once all points are in its journal, and starts it again.
    pub(crate) fn kill_and_start(&mut self) {
        let (daemon, _) = self.daemon.take().unwrap();
        let journaled = self.received + self.load.released(self.started) as u64;
        wait_until("the points to be in the journal", || daemon.counters().sum(JOURNAL_WRITTEN) >= journaled);
        daemon.kill();
        self.start();
    }

    pub(crate) fn stop_and_start(&mut self) {
        let (daemon, _) = self.daemon.take().unwrap();
        let ended = daemon.stop_well();
        assert!(ended.output.contains("missing 0"), "{}", ended.output);
        self.start();
    }

    pub(crate) fn unsent(&self) -> u64 {
        self.daemon().counters().sum("plumbago_spool_pending_rows")
    }

    fn sent_again(&self) -> bool {
        self.daemon().counters().sum("plumbago_spool_resend_bytes") == 0
    }

    /// Flushes, and waits until the server has acknowledged all rows, including those that are sent again.
    pub(crate) fn sent(&self) {
        self.daemon().flush();
        wait_until("the spool to be empty", || self.unsent() == 0 && self.sent_again());
    }

    pub(crate) fn check(&self, what: &str) {
        wait_until("the answers", || {
            // While nodes are failing a read is refused, but never incomplete.
            let path = format!("/render?target=load.a.sum.*.*&format=raw&now={}", self.load.now);
            self.daemon().get(&path).status == 200
        });
        compare::all(self.daemon(), &self.load, alike, what);
        let ledger = self.daemon().ledger();
        assert!(ledger.balances(), "{what}: {ledger:?}");
    }

    /// Checks the rows on the server: reads them with a daemon that has an empty data directory. It reads from as
    /// many replicas as had to confirm a write. A replica that was down during writes gets them later by
    /// hints, and a kill loses hints.
    pub(crate) fn check_server(&mut self, what: &str) {
        self.sent();
        let names = self.load.metrics.iter().filter(|m| m.exists()).count();
        wait_until("the names to be on the server", || self.names_on_server() >= names);
        self.stop_with_all_sent();
        let data = self.setup.data();
        let kept = data.with_extension("kept");
        std::fs::rename(&data, &kept).unwrap();
        self.setup.set("store.cassandra.consistency.read", "auto");
        self.start();
        self.daemon().wait_names(names);
        self.check(what);
        let (daemon, _) = self.daemon.take().unwrap();
        daemon.stop_well();
        std::fs::remove_dir_all(&data).unwrap();
        std::fs::rename(&kept, &data).unwrap();
        self.setup.set("store.cassandra.consistency.read", "LOCAL_ONE");
        self.start();
    }

    /// Stops the daemon. A stop writes open windows and waits ten seconds for the server to acknowledge them. On a
    /// busy machine that may not be enough; the spool then keeps the rest for the next start, which is waited for.
    fn stop_with_all_sent(&mut self) {
        loop {
            let (daemon, _) = self.daemon.take().unwrap();
            if !daemon.stop_well().output.contains("not all rows were sent") {
                return;
            }
            println!("a stop left rows in the spool");
            self.start();
            self.sent();
        }
    }

    fn names_on_server(&self) -> usize {
        let (node, keyspace) = &self.names;
        names_on_server(node, keyspace)
    }

    pub(crate) fn starts_noted(&self, cluster: &Cluster) {
        starts_noted(&self.setup, cluster);
    }

    /// Kills the only node of the cluster and waits until the daemon has noticed.
    pub(crate) fn kill_node(&self, cluster: &mut Cluster) {
        wait_until("the node to be seen", || self.nodes_up() == 1);
        cluster.node(0).kill();
        let killed = Instant::now();
        wait_until("the loss of the node to be seen", || self.nodes_up() == 0);
        assert!(killed.elapsed() <= LIMIT, "the loss was seen after {:?}", killed.elapsed());
        let ready = self.ready();
        assert!(ready.status == 503 && ready.body.contains("no node of the cluster"), "{ready:?}");
    }

    fn nodes_up(&self) -> u64 {
        self.daemon().counters().sum("plumbago_cassandra_nodes_up")
    }

    pub(crate) fn ready(&self) -> http::Response {
        http::get(self.daemon().admin(), "/readyz")
    }
}

/// Settings of a daemon in a keyspace of its own that takes the load.
pub(crate) fn setup(keyspace: &str, contact_points: &[String]) -> Setup {
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", keyspace);
    setup.set("store.cassandra.contact_points", &contact_points.join(","));
    setup.set("store.cassandra.components", "8").set("store.cassandra.indexes", "none");
    setup
        .set("store.cassandra.request_timeout", "3s")
        .set("sender.retry_max", "500ms")
        .set("sender.retry_deferred_every", "2s");
    setup.set("spool.linger", "100ms").set("engine.flush_interval", "1s");
    // Measured on the clock of the load, which is ahead of the machine's.
    setup.set("spool.retain", "1d");
    setup.schemas(load::SCHEMAS).aggregation(&load::aggregation());
    setup
}

/// The number of names that the server has. Reads all replicas, which repairs the replicas that lack names. A
/// node that was killed may have lost names too; the daemon creates them again a while after its return.
pub(crate) fn names_on_server(node: &str, metadata_keyspace: &str) -> usize {
    let query = format!("SELECT name FROM {metadata_keyspace}.metrics_metadata");
    // A server without authentication asks for no credentials.
    let names = Connection::open(node.parse().unwrap(), Some(SUPERUSER))
        .and_then(|mut cql| cql.query_at(Consistency::All, &query).map(|rows| rows.len()));
    names.unwrap_or(0)
}

/// Waits until a daemon has recorded the current start of each node. Rows that a node may have lost before
/// are then sent again.
pub(crate) fn starts_noted(setup: &Setup, cluster: &Cluster) {
    let file = setup.data().join("nodes");
    wait_until("the starts of all nodes to be noted", || {
        let noted = std::fs::read_to_string(&file).unwrap_or_default();
        let mut present = cluster.nodes().iter().map(start_of);
        present.all(|start| start.is_some_and(|start| noted.contains(&start)))
    });
}

/// The line of the file `nodes` for the current start of a node.
fn start_of(node: &Node) -> Option<String> {
    let mut cql = node.connect().ok()?;
    let local = cql.query("SELECT host_id, gossip_generation FROM system.local WHERE key = 'local'").ok()?;
    let row = local.iter().next()?;
    let host = Uuid::from_slice(row.bytes(0)?).ok()?;
    Some(format!("node {host} {}\n", row.integer(1)?))
}

fn cluster(size: usize, options: &Options) -> Option<Cluster> {
    cluster_for_test(size, &Options { heap_mib: 320, sasi: false, ..options.clone() })
}

/// A node that was only unreachable has lost nothing. The daemon distinguishes it from one that was restarted.
#[test]
fn a_node_out_of_reach_forgets_nothing() {
    let Some(cluster) = cluster(1, &Options { stays_up: true, ..Options::default() }) else { return };
    let mut run = Run::new("out_of_reach", &cluster.contact_points(), 65);
    // On a busy machine it may take long to find out that the node was not restarted.
    run.setup.set("store.cassandra.request_timeout", "30s");
    run.syncdb();
    run.start();
    run.steps(20);
    run.sent();
    let count = |name: &str| run.daemon().counters().sum(&format!("plumbago_cassandra_{name}"));
    let returned = count("nodes_returned_total");
    cluster.nodes()[0].pause();
    wait_until("its connections to be given up", || count("nodes_up") == 0);
    cluster.nodes()[0].resume();
    wait_until("it to be in reach again", || run.daemon().log().contains("without a restart"));
    assert_eq!(count("nodes_returned_total"), returned);
    run.steps(10);
    run.sent();
    run.check("after a node was out of reach");
}

/// Without a commit log, the only node loses all rows that it has in memory.
#[test]
fn what_a_killed_node_forgot_is_sent_again() {
    each(61, 1, killed_node);
}

fn killed_node(seed: u64) {
    let Some(mut cluster) = cluster(1, &Options::default()) else { return };
    let mut run = Run::new("forgetful", &cluster.contact_points(), seed);
    run.setup.set("store.cassandra.replication.durable_writes", "false");
    run.syncdb();
    run.start();
    run.steps(40);
    run.sent();
    run.kill_node(&mut cluster);
    // Points are accepted and spooled while there is no node.
    run.steps(10);
    cluster.node(0).start().unwrap();
    run.starts_noted(&cluster);
    run.sent();
    run.check_server("after the only node lost its memory");

    // A command sends rows again after a loss that the daemon could not notice.
    cluster.node(0).kill();
    let (daemon, _) = run.daemon.take().unwrap();
    // Points that cannot be merged without the server's rows stay in the journal.
    let ended = daemon.stop();
    assert!(ended.status.success(), "{}", ended.output);
    cluster.node(0).start().unwrap();
    run.start();
    let since = run.load.start - 3600;
    let dry = run.setup.run(&[
        "replay",
        "--since",
        &since.to_string(),
        "--admin",
        &run.daemon().admin().to_string(),
        "--dry-run",
        "--json",
    ]);
    assert!(dry.status.success(), "{}", dry.output);
    let found: serde_json::Value =
        dry.output.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
    // The only node keeps every row.
    let nodes = found["nodes"].as_object().unwrap();
    assert!(nodes.len() == 1 && nodes.values().all(|rows| rows.as_u64() > Some(0)), "{found}");
    assert!(found["rows"].as_u64() > Some(0), "{found}");
    let ended = run.setup.run(&[
        "replay",
        "--since",
        &since.to_string(),
        "--admin",
        &run.daemon().admin().to_string(),
    ]);
    assert!(ended.status.success(), "{}", ended.output);
    run.check_server("after a replay by hand");
}

/// Tests faults of three nodes, each of which keeps acknowledged writes only in memory for up to ten seconds.
#[test]
fn three_nodes_in_trouble() {
    each(62, 1, three_nodes);
}

fn three_nodes(seed: u64) {
    let options = Options { commitlog_sync: CommitlogSync::Periodic, ..Options::default() };
    let Some(mut cluster) = cluster(3, &options) else { return };
    let mut run = Run::new("three", &cluster.contact_points(), seed);
    for what in ["data", "metadata"] {
        run.setup.set(&format!("store.cassandra.replication.{what}"), "3");
    }
    run.syncdb();
    run.start();
    run.steps(30);

    // One node is killed: reads and writes continue.
    cluster.node(2).kill();
    run.steps(15);
    run.sent();
    run.check("without one of three");
    cluster.node(2).start().unwrap();

    // One node hangs.
    run.steps(5);
    cluster.node(1).pause();
    run.steps(10);
    run.check("while one of three hangs");
    cluster.node(1).resume();
    run.sent();

    // Two nodes are killed: points are spooled, and survive a kill of the daemon.
    cluster.node(1).kill();
    cluster.node(2).kill();
    run.steps(10);
    wait_until("rows to wait", || run.unsent() > 0);
    wait_until("the problem to be reported", || run.ready().status == 503);
    run.kill_and_start();
    run.steps(10);
    run.kill_and_start();
    cluster.start_all().unwrap();
    run.sent();
    run.check("after two of three were away");

    // All nodes are killed at the same time.
    run.steps(10);
    cluster.kill_all();
    run.steps(5);
    cluster.start_all().unwrap();
    run.steps(5);
    run.starts_noted(&cluster);
    run.check_server("after all were away");
    run.stop_and_start();
    run.check("at the end");
}

/// At first there is no schema. Later a table is dropped and created again while the daemon is running.
#[test]
fn without_a_schema_and_without_a_table() {
    let Some(server) = server::for_tests() else { return };
    let mut cql = server.connect().unwrap();
    server.drop_keyspaces("faults_schema").unwrap();
    let mut run = Run::new("faults_schema", &[server.contact_point()], 63);
    run.start();
    run.steps(10);
    wait_until("the problem to be reported", || run.ready().body.contains("syncdb"));
    run.kill_and_start();
    run.syncdb();
    run.sent();
    run.check("after the schema was made");

    run.steps(10);
    run.sent();
    let tables =
        cql.query("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'faults_schema'");
    let table =
        tables.unwrap().texts().into_iter().find(|name| name.starts_with("datapoints_1440p_10s")).unwrap();
    cql.query(&format!("DROP TABLE faults_schema.{table}")).unwrap();
    run.steps(10);
    wait_until("rows to wait", || run.unsent() > 0);
    wait_until("the problem to be reported", || run.ready().body.contains("1440p_10s"));
    run.syncdb();
    // The spool retains rows after the server acknowledged them, so the rows of the table can be sent again.
    let response = run.daemon().post_admin(&format!("/admin/replay?since={}", run.load.start - 3600));
    assert!(response.status < 300, "{response:?}");
    run.sent();
    run.check("after the table was made again");
    run.check_server("after the table was made again, by the server");
    server.clean_up("faults_schema").unwrap();
}

/// Data directories that are lost, moved and copied. After a loss the daemon gets a new writer id, and the
/// points of both writers are merged. A moved directory keeps its writer id. A copy beside the original gets
/// a new one: none of its points is lost, but both count the windows that were open
/// (docs/decisions/writer-id.md).
#[test]
fn a_data_directory_lost_and_cloned() {
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces("faults_clone").unwrap();
    let mut run = Run::new("faults_clone", &[server.contact_point()], 64);
    run.syncdb();
    run.lost_until = Some(0);
    run.start();
    run.steps(20);
    let (daemon, _) = run.daemon.take().unwrap();
    daemon.stop_well();
    std::fs::remove_dir_all(run.setup.data()).unwrap();
    run.lost_until = Some(run.load.now + 600);
    run.start();
    run.daemon().wait_names(run.load.metrics.iter().filter(|m| m.exists()).count());
    run.steps(20);
    run.check("after the data directory was lost");

    let (daemon, _) = run.daemon.take().unwrap();
    daemon.stop_well();
    let data = run.setup.data();
    let copy = data.with_extension("copy");
    let copied = std::process::Command::new("cp").arg("-r").arg(&data).arg(&copy).status().unwrap();
    assert!(copied.success());
    // The effect of a move to another file system: all files are new.
    std::fs::remove_dir_all(&data).unwrap();
    run.setup.set("data_dir", copy.to_str().unwrap());
    run.start();
    assert!(run.daemon().log().contains("it keeps its writer id"), "{}", run.daemon().log());
    run.steps(5);
    run.sent();
    run.check("after the data directory was moved");

    let (daemon, _) = run.daemon.take().unwrap();
    daemon.stop_well();
    let copied = std::process::Command::new("cp").arg("-r").arg(&copy).arg(&data).status().unwrap();
    assert!(copied.success());
    run.setup.set("data_dir", data.to_str().unwrap());
    run.lost_until = Some(run.load.now + 600);
    run.start();
    assert!(run.daemon().log().contains("choosing a new writer id"), "{}", run.daemon().log());
    run.steps(20);
    let mut complaints = String::new();
    let judge = |at: usize, slot, seen| {
        let wanted = run.load.metrics[at].shown(0, slot, run.load.now);
        (!alike(seen, wanted)).then(|| format!("wanted {wanted:?}"))
    };
    run.sent();
    compare::stage(run.daemon(), &run.load, 0, judge, &mut complaints);
    assert_eq!(complaints, "", "after the data directory was copied");
    run.daemon.take().unwrap().0.stop_well();
    server.clean_up("faults_clone").unwrap();
}
