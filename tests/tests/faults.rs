//! A daemon on Cassandra while nodes die, hang and lose what they confirmed: afterwards every point and
//! every aggregate is that of a run without faults.

use std::time::Duration;

use plumbago_cassandra_node::server::{self, cluster_for_test};
use plumbago_cassandra_node::{Cluster, CommitlogSync, Options};
use plumbago_tests::answer::alike;
use plumbago_tests::counters::Ledger;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::{LineSender, Point};
use plumbago_tests::wait::wait_until;

use crate::compare;
use crate::load::{self, Load, Sent};

/// A daemon under load, and the model of what it was sent.
pub(crate) struct Run {
    pub(crate) setup: Setup,
    pub(crate) load: Load,
    daemon: Option<(Daemon, LineSender)>,
    /// Points received by the running process.
    received: u64,
    /// The data directory is going to be lost, or was until then. Points far ahead of now would be lost
    /// with it, and what another writer had written cannot be replaced any more.
    lost_until: Option<i64>,
}

impl Run {
    pub(crate) fn new(keyspace: &str, contact_points: &[String], seed: u64) -> Self {
        let mut setup = Setup::new();
        setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", keyspace);
        setup.set("store.cassandra.contact_points", &contact_points.join(","));
        setup.set("store.cassandra.components", "8").set("store.cassandra.indexes", "none");
        setup
            .set("store.cassandra.request_timeout", "3s")
            .set("sender.retry_max", "500ms")
            .set("sender.parked_every", "2s");
        setup.set("spool.gather", "100ms").set("engine.flush_interval", "1s");
        // On the clock of the load, which runs ahead of the machine's.
        setup.set("spool.retain", "1d");
        setup.schemas(load::SCHEMAS).aggregation(&load::aggregation());
        Self { setup, load: Load::new(seed, 2), daemon: None, received: 0, lost_until: None }
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
    }

    pub(crate) fn daemon(&self) -> &Daemon {
        &self.daemon.as_ref().unwrap().0
    }

    /// Minutes of the load, each point received before the clock goes on.
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
            let received = self.received;
            wait_until("the points to be received", || Ledger::of(&daemon.counters()).received >= received);
        }
    }

    /// kill -9 of the daemon once all points are in its journal, and a start.
    pub(crate) fn kill_and_start(&mut self) {
        let (daemon, _) = self.daemon.take().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        daemon.kill();
        self.start();
    }

    fn stop_and_start(&mut self) {
        let (daemon, _) = self.daemon.take().unwrap();
        let ended = daemon.stop_well();
        assert!(ended.output.contains("missing 0"), "{}", ended.output);
        self.start();
    }

    fn unsent(&self) -> u64 {
        self.daemon().counters().sum("plumbago_spool_unsent_rows")
    }

    /// Everything is in the heads or acknowledged by the server.
    pub(crate) fn sent(&self) {
        self.daemon().flush();
        wait_until("the spool to be empty", || self.unsent() == 0);
    }

    pub(crate) fn check(&self, what: &str) {
        wait_until("the answers", || {
            // A read that meets a node in trouble is refused, never short.
            let path = format!("/render?target=load.a.sum.*.*&format=raw&now={}", self.load.now);
            self.daemon().get(&path).status == 200
        });
        compare::all(self.daemon(), &self.load, alike, what);
        let ledger = self.daemon().ledger();
        assert!(ledger.balances(), "{what}: {ledger:?}");
    }

    /// What the server alone has: read by a daemon with an empty data directory.
    pub(crate) fn check_server(&mut self, what: &str) {
        self.sent();
        let (daemon, _) = self.daemon.take().unwrap();
        daemon.stop_well();
        let data = self.setup.data();
        let kept = data.with_extension("kept");
        std::fs::rename(&data, &kept).unwrap();
        self.start();
        let names = self.load.metrics.iter().filter(|m| m.exists()).count();
        self.daemon().wait_names(names);
        self.check(what);
        let (daemon, _) = self.daemon.take().unwrap();
        daemon.stop_well();
        std::fs::remove_dir_all(&data).unwrap();
        std::fs::rename(&kept, &data).unwrap();
        self.start();
    }

    /// How often the daemon has sent again what a returned node may have lost. A start whose first try to
    /// connect fails counts as a return.
    pub(crate) fn returns(&self) -> usize {
        self.daemon().log().matches("a node has returned").count()
    }

    /// The same once the daemon, which looks every second, has seen what there was to see at its start.
    pub(crate) fn returns_at_rest(&self) -> usize {
        std::thread::sleep(Duration::from_secs(2));
        self.returns()
    }

    pub(crate) fn ready(&self) -> http::Response {
        http::get(self.daemon().admin(), "/readyz")
    }
}

fn cluster(size: usize, options: &Options) -> Option<Cluster> {
    cluster_for_test(size, &Options { heap_mib: 320, sasi: false, ..options.clone() })
}

/// A node that was out of reach has what it confirmed: it is told from one that was started anew.
#[test]
fn a_node_out_of_reach_forgets_nothing() {
    let Some(cluster) = cluster(1, &Options::default()) else { return };
    let mut run = Run::new("out_of_reach", &cluster.contact_points(), 65);
    // A busy machine may be long in saying that the node is the same.
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
    wait_until("it to be in reach again", || run.daemon().log().contains("it was not restarted"));
    assert_eq!(count("nodes_returned_total"), returned);
    run.steps(10);
    run.sent();
    run.check("after a node was out of reach");
}

/// The only node of a keyspace without commit log loses all that it holds in memory.
#[test]
fn what_a_killed_node_forgot_is_sent_again() {
    let Some(mut cluster) = cluster(1, &Options::default()) else { return };
    let mut run = Run::new("forgetful", &cluster.contact_points(), 61);
    run.setup.set("store.cassandra.replication.durable_writes", "false");
    run.syncdb();
    run.start();
    run.steps(40);
    run.sent();
    let before = run.returns_at_rest();
    cluster.node(0).kill();
    // Accepted, and kept for the server, while there is none.
    run.steps(10);
    cluster.node(0).start().unwrap();
    wait_until("the return to be seen", || run.returns() > before);
    run.sent();
    run.check_server("after the only node lost its memory");

    // By hand, for what the daemon could not see.
    cluster.node(0).kill();
    let (daemon, _) = run.daemon.take().unwrap();
    // What needs the server's slots stays in the journal.
    let ended = daemon.stop();
    assert!(ended.status.success(), "{}", ended.output);
    cluster.node(0).start().unwrap();
    run.start();
    let since = run.load.start - 3600;
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

/// Three nodes that keep a confirmed write for ten seconds in memory only.
#[test]
fn three_nodes_in_trouble() {
    let options = Options { commitlog_sync: CommitlogSync::Periodic, ..Options::default() };
    let Some(mut cluster) = cluster(3, &options) else { return };
    let mut run = Run::new("three", &cluster.contact_points(), 62);
    for what in ["data", "metadata"] {
        run.setup.set(&format!("store.cassandra.replication.{what}"), "3");
    }
    for what in ["read", "metadata_read"] {
        run.setup.set(&format!("store.cassandra.consistency.{what}"), "LOCAL_QUORUM");
    }
    run.syncdb();
    run.start();
    run.steps(30);

    // One dies: nobody notices.
    cluster.node(2).kill();
    run.steps(15);
    run.sent();
    run.check("without one of three");
    cluster.node(2).start().unwrap();

    // One hangs.
    run.steps(5);
    cluster.node(1).pause();
    run.steps(10);
    run.check("while one of three hangs");
    cluster.node(1).resume();
    run.sent();

    // Two die: what comes is kept, over a kill -9 of the daemon too.
    cluster.node(1).kill();
    cluster.node(2).kill();
    run.steps(10);
    wait_until("rows to wait", || run.unsent() > 0);
    wait_until("the trouble to be told", || run.ready().status == 503);
    run.kill_and_start();
    run.steps(10);
    run.kill_and_start();
    cluster.node(1).start().unwrap();
    cluster.node(2).start().unwrap();
    cluster.wait_settled().unwrap();
    run.sent();
    run.check("after two of three were away");

    // All die at once.
    run.steps(10);
    cluster.kill_all();
    run.steps(5);
    cluster.start_all().unwrap();
    run.steps(5);
    run.check_server("after all were away");
    run.stop_and_start();
    run.check("at the end");
}

/// A table is dropped under the daemon, and made again; before that there was no schema at all.
#[test]
fn without_a_schema_and_without_a_table() {
    let Some(server) = server::for_tests() else { return };
    let mut cql = server.connect().unwrap();
    for keyspace in ["faults_schema", "faults_schema_metadata"] {
        cql.query(&format!("DROP KEYSPACE IF EXISTS {keyspace}")).unwrap();
    }
    let mut run = Run::new("faults_schema", &[server.contact_point()], 63);
    run.start();
    run.steps(10);
    wait_until("the trouble to be told", || run.ready().body.contains("syncdb"));
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
    wait_until("the trouble to be told", || run.ready().body.contains("1440p_10s"));
    run.syncdb();
    // What was in the table is sent again, since it is retained.
    let response =
        http::post(run.daemon().admin(), &format!("/admin/replay?since={}", run.load.start - 3600), "");
    assert!(response.status < 300, "{response:?}");
    run.sent();
    run.check("after the table was made again");
    run.check_server("after the table was made again, by the server");
    for keyspace in ["faults_schema", "faults_schema_metadata"] {
        cql.query(&format!("DROP KEYSPACE IF EXISTS {keyspace}")).unwrap();
    }
}

/// The data directory is lost between two starts: the next writer is another one, and what both wrote
/// adds up. One that was moved is the same writer. A copy beside the original is another; no point of it
/// is lost (the windows that were open are counted by both, see docs/decisions/writer-id.md).
#[test]
fn a_data_directory_lost_and_cloned() {
    let Some(server) = server::for_tests() else { return };
    let mut cql = server.connect().unwrap();
    for keyspace in ["faults_clone", "faults_clone_metadata"] {
        cql.query(&format!("DROP KEYSPACE IF EXISTS {keyspace}")).unwrap();
    }
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
    // As between file systems: the files are others.
    std::fs::remove_dir_all(&data).unwrap();
    run.setup.set("data_dir", copy.to_str().unwrap());
    run.start();
    assert!(run.daemon().log().contains("its writer id is kept"), "{}", run.daemon().log());
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
    assert!(run.daemon().log().contains("a copy: a new one is drawn"), "{}", run.daemon().log());
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
    for keyspace in ["faults_clone", "faults_clone_metadata"] {
        cql.query(&format!("DROP KEYSPACE IF EXISTS {keyspace}")).unwrap();
    }
}
