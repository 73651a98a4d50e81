//! Faults in random order on three nodes. Nodes are killed, paused, slowed down and cut off from the network; daemons
//! are killed, stopped and paused; a clock jumps ahead. Two daemons write one replica, a third one writes another.
//! Late points arrive throughout. Every point must equal the model, and so must every closed window once `plumbago
//! repair windows` has run. `/readyz` must be right at each step. The test has a network of its own, so that it can
//! remove routes.
//!
//! A seed gives the same faults and points each time, though not at the same moments. `PLUMBAGO_CHAOS_ROUNDS` and
//! `PLUMBAGO_CHAOS_SEED` make longer and other runs.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use plumbago_cassandra_node::server::cluster_for_test;
use plumbago_cassandra_node::{Cluster, CommitlogSync, Options};
use plumbago_tests::answer::alike;
use plumbago_tests::counters::JOURNAL_WRITTEN;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::own_network;
use plumbago_tests::rounds::{is_long, number};
use plumbago_tests::send::{LineSender, Point};
use plumbago_tests::wait::{wait_ok, wait_until};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::compare;
use crate::faults;
use crate::load::{Load, Sent};

const KEYSPACE: &str = "chaos";
const NODES: usize = 3;
/// The replica id of each writer.
const REPLICAS: [&str; 3] = ["0", "0", "1"];
/// The two writers of a replica alternate: for this many seconds the points of a metric go to the same
/// writer. This is longer than the windows of a middle stage and shorter than those of the last stage.
const TURN: i64 = 120;
/// How often windows are repaired, in seconds of the load's clock. A window is repaired only an hour and a
/// half after it is closed. The sum of both times is less than the duration of the raw stages, as an operator
/// would configure it.
const REPAIR_EVERY: i64 = 3600;
/// Number of rounds of faults in a usual run, and with `PLUMBAGO_LONG`.
const ROUNDS: usize = 2;
const LONG_ROUNDS: usize = 6;
const SEED: u64 = 1;
/// How often a slow node is paused in a round, and for how long. The pause is the fault itself, not a wait of
/// the test.
const SLOW_STEPS: usize = 8;
const STALL: Duration = Duration::from_millis(300);
/// How far a clock jumps, in seconds.
const JUMP: i64 = 300;

/// The fault of a round.
#[derive(Debug, Clone, Copy)]
enum Fault {
    KillNode(usize),
    PauseNode(usize),
    /// A node is paused most of the time, as if it waited for its disk.
    SlowNode(usize),
    /// No packet arrives at the node's address.
    CutOffNode(usize),
    /// Kills all nodes but one, so that no row can be acknowledged.
    KillOthers(usize),
    KillAllNodes,
    KillWriter(usize),
    StopWriter(usize),
    /// A node restarts while a writer is stopped and cannot notice it.
    RestartUnwatched {
        node: usize,
        writer: usize,
    },
    /// The clock of a writer jumps ahead, and is set back after a flush.
    MoveClock(usize),
}

impl Fault {
    fn random(random: &mut StdRng) -> Self {
        let (node, writer) = (random.random_range(0..NODES), random.random_range(0..REPLICAS.len()));
        match random.random_range(0..14) {
            0 | 1 => Self::KillNode(node),
            2 | 3 => Self::PauseNode(node),
            4 => Self::KillOthers(node),
            5 => Self::KillAllNodes,
            6 | 7 => Self::KillWriter(writer),
            8 => Self::StopWriter(writer),
            9 => Self::SlowNode(node),
            10 | 11 => Self::CutOffNode(node),
            12 => Self::MoveClock(writer),
            _ => Self::RestartUnwatched { node, writer },
        }
    }
}

/// A daemon, and the state of the points that were sent to it.
struct Writer {
    setup: Setup,
    daemon: Option<(Daemon, LineSender)>,
    /// Number of points that the running process has received.
    received: u64,
    /// The clock at its start.
    started: i64,
    /// When its points from the future become due.
    releases: Vec<i64>,
}

impl Writer {
    fn new(replica: &str, contact_points: &[String]) -> Self {
        let mut setup = faults::setup(KEYSPACE, contact_points);
        setup.set("store.cassandra.replica", replica);
        setup.set("store.cassandra.replication.data", "3").set("store.cassandra.replication.metadata", "3");
        Self { setup, daemon: None, received: 0, started: 0, releases: Vec::new() }
    }

    fn daemon(&self) -> &Daemon {
        &self.daemon.as_ref().unwrap().0
    }

    fn start(&mut self, now: i64) {
        let daemon = self.setup.clock(now).start();
        let sender = daemon.sender();
        self.daemon = Some((daemon, sender));
        (self.received, self.started) = (0, now);
    }

    fn send(&mut self, now: i64, sent: &[&Sent]) {
        let points: Vec<Point> = sent.iter().map(|sent| sent.point.clone()).collect();
        self.releases.extend(sent.iter().map(|sent| sent.release).filter(|release| *release > 0));
        self.received += points.len() as u64;
        let (daemon, sender) = self.daemon.as_mut().unwrap();
        daemon.set_clock(now);
        sender.send(&points);
    }

    /// Kills the writer once the journal has all its points. The journal contains a point from the future a second
    /// time once it is due.
    fn kill(&mut self, now: i64) {
        let (daemon, _) = self.daemon.take().unwrap();
        let due = self.releases.iter().filter(|release| (self.started + 1..=now).contains(release)).count();
        let journaled = self.received + due as u64;
        wait_until("the points to be in the journal", || daemon.counters().sum(JOURNAL_WRITTEN) >= journaled);
        daemon.kill();
    }

    /// Sets the clock ahead, flushes, and sets it back. The jump ends before the next point from the future is due,
    /// because the model does not know of the wrong clock.
    fn move_clock(&mut self, now: i64) {
        let next = self.releases.iter().filter(|release| **release > now).min();
        let ahead = next.map_or(now + JUMP, |release| (now + JUMP).min(release - 1));
        let daemon = self.daemon();
        daemon.set_clock(ahead);
        daemon.flush();
        daemon.set_clock(now);
    }

    fn stop(&mut self) {
        let (daemon, _) = self.daemon.take().unwrap();
        let ended = daemon.stop();
        assert!(ended.output.contains("missing 0"), "{}", ended.output);
    }

    /// Whether all rows are acknowledged, including those that are sent again.
    fn is_drained(&self) -> bool {
        let counters = self.daemon().counters();
        counters.sum("plumbago_spool_pending_rows") == 0 && counters.sum("plumbago_spool_resend_bytes") == 0
    }

    fn ready(&self) -> http::Response {
        http::get(self.daemon().admin(), "/readyz")
    }
}

struct Chaos {
    cluster: Cluster,
    writers: Vec<Writer>,
    load: Load,
    random: StdRng,
    /// The clock of the load when the windows were last repaired.
    repaired: i64,
}

impl Chaos {
    fn new(cluster: Cluster, seed: u64) -> Self {
        let contact_points = cluster.contact_points();
        let writers = REPLICAS.map(|replica| Writer::new(replica, &contact_points)).into();
        let (load, random) = (Load::new(seed, 1), StdRng::seed_from_u64(seed));
        let repaired = load.now;
        let mut chaos = Self { cluster, writers, load, random, repaired };
        let made = chaos.writers[0].setup.run(&["syncdb"]);
        assert!(made.status.success(), "{}", made.output);
        let now = chaos.load.now;
        chaos.writers.iter_mut().for_each(|writer| writer.start(now));
        chaos
    }

    /// Sends steps of the load. The clock advances only after all points of a step were applied.
    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            let sent = self.load.step();
            let first = |sent: &&Sent| {
                let turn = sent.point.timestamp.div_euclid(TURN) as usize;
                (turn + sent.metric).is_multiple_of(2)
            };
            let (mine, others): (Vec<&Sent>, Vec<&Sent>) = sent.iter().partition(first);
            let all: Vec<&Sent> = sent.iter().collect();
            for (writer, part) in self.writers.iter_mut().zip([mine, others, all]) {
                writer.send(self.load.now, &part);
            }
            self.writers.iter().for_each(|writer| writer.daemon().applied_at(writer.received));
        }
    }

    fn some_steps(&mut self) {
        let count = self.random.random_range(10..25);
        self.steps(count);
    }

    fn round(&mut self, fault: Fault) {
        let now = self.load.now;
        match fault {
            Fault::KillNode(node) => {
                self.cluster.node(node).kill();
                self.some_steps();
            }
            Fault::PauseNode(node) => {
                self.cluster.nodes()[node].pause();
                self.some_steps();
                self.cluster.nodes()[node].resume();
            }
            Fault::SlowNode(node) => {
                for _ in 0..SLOW_STEPS {
                    self.cluster.nodes()[node].pause();
                    self.steps(1);
                    std::thread::sleep(STALL);
                    self.cluster.nodes()[node].resume();
                    self.steps(1);
                }
            }
            Fault::CutOffNode(node) => {
                let address = self.cluster.nodes()[node].socket().ip().to_string();
                own_network::cut_off(&address);
                self.some_steps();
                own_network::reconnect(&address);
            }
            Fault::MoveClock(writer) => {
                // A flush waits for the server if late points need windows of it.
                self.cluster.start_all().unwrap();
                self.writers[writer].move_clock(now);
            }
            Fault::KillOthers(node) => {
                (0..NODES).filter(|other| *other != node).for_each(|other| self.cluster.node(other).kill());
                self.some_steps();
                self.wait_unready();
            }
            Fault::KillAllNodes => {
                self.cluster.kill_all();
                self.some_steps();
                self.wait_unready();
            }
            Fault::KillWriter(writer) => {
                self.writers[writer].kill(now);
                self.writers[writer].start(now);
                self.some_steps();
            }
            Fault::StopWriter(writer) => {
                self.writers[writer].stop();
                self.writers[writer].start(now);
                self.some_steps();
            }
            Fault::RestartUnwatched { node, writer } => {
                self.writers[writer].daemon().signal(Signal::SIGSTOP);
                self.cluster.node(node).kill();
                // All of them: after an earlier fault the others may be dead, and a node does not start alone.
                self.cluster.start_all().unwrap();
                self.writers[writer].daemon().signal(Signal::SIGCONT);
            }
        }
    }

    fn wait_ready(&self) {
        for (number, writer) in self.writers.iter().enumerate() {
            let what = format!("/readyz of writer {number} to be 200");
            wait_until(&what, || writer.ready().status == 200);
        }
    }

    /// Waits until every writer reports that the server acknowledges no rows. The load continues meanwhile,
    /// because a writer without new rows cannot notice it.
    fn wait_unready(&mut self) {
        for number in 0..self.writers.len() {
            let what = format!("/readyz of writer {number} to be 503");
            wait_until(&what, || {
                let is_unready = self.writers[number].ready().status == 503;
                if !is_unready {
                    self.steps(1);
                }
                is_unready
            });
        }
    }

    /// Ends all faults, and waits until the server has acknowledged everything.
    fn settle(&mut self) {
        self.cluster.start_all().unwrap();
        for writer in &self.writers {
            faults::starts_noted(&writer.setup, &self.cluster);
        }
        for writer in &self.writers {
            writer.daemon().flush();
            wait_until("all rows to be acknowledged", || writer.is_drained());
        }
        self.wait_ready();
    }

    /// Compares the points in the answers of each writer with the model. Windows are not compared: they lack the open
    /// windows of the other writers.
    fn check(&self, what: &str) {
        for (number, writer) in self.writers.iter().enumerate() {
            let ledger = writer.daemon().ledger();
            assert!(ledger.balances(), "{what}, writer {number}: {ledger:?}");
            let what = format!("{what}, by writer {number}");
            compare::raw(writer.daemon(), &self.load, alike, &what);
        }
    }

    /// Stops all writers and repairs the windows that are closed at `clock`.
    fn repair_windows(&mut self, clock: i64) {
        for writer in &mut self.writers {
            writer.stop();
        }
        for writer in &mut self.writers {
            let setup = writer.setup.clock(clock);
            // The lease of the job may still belong to a stopped process, until it expires.
            wait_ok("the repair of the windows", || {
                let ended = setup.run(&["repair", "windows", "--rate", "0"]);
                if ended.status.success() { Ok(()) } else { Err(ended.output) }
            });
        }
        self.repaired = self.load.now;
    }

    /// Repairs the windows if it is time: before the raw slots that it needs expire.
    fn repair_windows_when_due(&mut self) {
        let now = self.load.now;
        if now - self.repaired >= REPAIR_EVERY {
            self.repair_windows(now);
            self.writers.iter_mut().for_each(|writer| writer.start(now));
        }
    }

    /// Stops all writers, repairs the windows, and compares what is on the server with the model. Late points of
    /// windows to which two writers still add are counted twice until then (`repair-windows.md`). Windows that are
    /// open at the end cannot be repaired yet.
    fn check_server(&mut self, what: &str) {
        let names = self.load.metrics.iter().filter(|metric| metric.exists()).count();
        let (node, keyspace) = (&self.cluster.contact_points()[0], format!("{KEYSPACE}_metadata"));
        wait_until("the names to be on the server", || faults::names_on_server(node, &keyspace) >= names);
        self.repair_windows(self.load.now + 2 * 3600);
        for replica in REPLICAS {
            let mut reader = Writer::new(replica, &self.cluster.contact_points());
            reader.start(self.load.now);
            reader.daemon().wait_names(names);
            compare::closed(reader.daemon(), &self.load, near, &format!("{what}, replica {replica}"));
        }
    }
}

/// Equal up to rounding: additions in another order may differ, and large values may cancel out.
fn near(a: Option<f64>, b: Option<f64>) -> bool {
    alike(a, b) || a.zip(b).is_some_and(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn random_faults() {
    if !own_network::inside("chaos::random_faults") {
        return;
    }
    let options =
        Options { heap_mib: 320, sasi: false, commitlog_sync: CommitlogSync::Periodic, ..Options::default() };
    let Some(cluster) = cluster_for_test(NODES, &options) else { return };
    let seed = number("PLUMBAGO_CHAOS_SEED").unwrap_or(SEED);
    let usual = if is_long() { LONG_ROUNDS } else { ROUNDS };
    let rounds = number("PLUMBAGO_CHAOS_ROUNDS").unwrap_or(usual);
    let mut chaos = Chaos::new(cluster, seed);
    chaos.steps(60);
    let start = Instant::now();
    for round in 1..=rounds {
        let faults = chaos.random.random_range(1..=2);
        for _ in 0..faults {
            let fault = Fault::random(&mut chaos.random);
            println!("{:>5.0} s, seed {seed}, round {round}: {fault:?}", start.elapsed().as_secs_f64());
            chaos.round(fault);
        }
        if round % 2 == 0 || round == rounds {
            chaos.settle();
            chaos.check(&format!("seed {seed}, after round {round}"));
            chaos.repair_windows_when_due();
        } else if chaos.random.random_bool(0.5) {
            chaos.cluster.start_all().unwrap();
        }
        chaos.steps(5);
    }
    chaos.settle();
    chaos.check_server(&format!("seed {seed}, at the end"));
}
