//! Kills the daemon under load with SIGKILL, many times on the same data directory. Afterwards every point
//! that the journal's counter covered can be read, and every aggregate equals that of a run without crashes,
//! bit for bit.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plumbago_tests::counters::{Counters, JOURNAL_WRITTEN, Ledger};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::fold::floor;
use plumbago_tests::http;
use plumbago_tests::rounds::{is_long, number};
use plumbago_tests::send::{LineSender, lines};
use plumbago_tests::wait::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::compare::{self, same};
use crate::load::{self, Load, Sent};

/// Number of kills under load in an ordinary run, and with `PLUMBAGO_LONG`.
const KILLS_UNDER_LOAD: usize = 12;
const LONG_KILLS_UNDER_LOAD: usize = 20;
/// After every third kill the next start is killed, too.
const KILLS_FOR_ONE_AT_START: usize = 3;

#[test]
fn crashes_lose_and_change_nothing() {
    let seed = number("PLUMBAGO_SEED").unwrap_or(20_261_121);
    println!("seed {seed} (PLUMBAGO_SEED)");
    let mut setup = Setup::new();
    setup.schemas(load::SCHEMAS).aggregation(&load::aggregation());
    // Short segments, so that some are dropped during the test.
    setup.set("journal.segment", "1m").set("engine.checkpoint_after", "3m");
    let mut run = Run {
        setup,
        load: Load::new(seed, 20),
        random: StdRng::seed_from_u64(seed),
        unproven: Vec::new(),
        process_start: 0,
        releases: Vec::new(),
        kills: 0,
    };
    run.process_start = run.load.now;
    let kills = if is_long() { LONG_KILLS_UNDER_LOAD } else { KILLS_UNDER_LOAD };
    for round in 0..kills {
        run.round(round);
    }
    run.end();
    println!("{} kills, {} metrics", run.kills, run.load.metrics.len());
}

/// A data directory and what the test knows about its points.
struct Run {
    setup: Setup,
    load: Load,
    random: StdRng,
    /// Points that the journal's counter does not cover yet, in the order of sending. All were sent to the
    /// current process.
    unproven: Vec<Sent>,
    /// The clock at the start of the process.
    process_start: i64,
    /// The times at which points from the future become due. The journal then counts them a second time.
    releases: Vec<i64>,
    kills: usize,
}

/// How a round sends points.
#[derive(Debug, Clone, Copy)]
struct Shape {
    connections: usize,
    /// Whether there is only one connection and one shard, so that points reach the journal in the order of
    /// sending.
    ordered: bool,
}

impl Run {
    fn round(&mut self, round: usize) {
        let shape = if round % 3 == 2 {
            Shape { connections: 4, ordered: false }
        } else {
            Shape { connections: 1, ordered: true }
        };
        let shards = if shape.ordered { "1" } else { "2" };
        self.setup.set("engine.shards", shards).clock(self.load.now);
        if round > 0 && round.is_multiple_of(KILLS_FOR_ONE_AT_START) {
            self.kill_at_start();
        }
        let what = format!("round {round}, {shape:?}");
        let daemon = self.setup.start();
        assert!(daemon.log().contains("unexplained=0"), "{what}: {}", daemon.log());
        self.check_unproven(&daemon, &what);
        self.process_start = self.load.now;
        let mut process = Process::new(&daemon, shape);
        let resend = std::mem::take(&mut self.unproven);
        self.send(&mut process, resend).unwrap();
        wait_until("the points sent again", || Ledger::of(&daemon.counters()).received >= process.sent);
        compare::all(&daemon, &self.load, same, &format!("{what}, sent again"));
        self.load_until_killed(daemon, process);
    }

    /// Starts the daemon and kills it at about the time when it becomes ready.
    fn kill_at_start(&mut self) {
        let starting = self.setup.launch();
        std::thread::sleep(Duration::from_millis(self.random.random_range(5..400)));
        starting.kill();
        self.kills += 1;
    }

    fn load_until_killed(&mut self, daemon: Daemon, mut process: Process) {
        let after = Duration::from_millis(self.random.random_range(30..1500));
        let (id, killed) = (Pid::from_raw(daemon.id().cast_signed()), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&killed);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            flag.store(true, Ordering::SeqCst);
            kill(id, Signal::SIGKILL).unwrap();
        });
        let mut flushes = Vec::new();
        let (admin, owner) = (daemon.admin(), daemon.authorization());
        while !killed.load(Ordering::SeqCst) {
            let sent = self.load.step();
            let clock = format!("/admin/clock?now={}", self.load.now);
            // Points sent after the kill are unproven, like all points that no scrape covered.
            let moved = http::try_request(admin, "POST", &clock, "", "");
            let gone = self.send(&mut process, sent).is_err() || moved.is_err();
            if gone {
                break;
            }
            match self.random.random_range(0..12) {
                0 => {
                    let owner = owner.clone();
                    flushes.push(std::thread::spawn(move || {
                        let _ = http::try_request(admin, "POST", "/admin/flush", &owner, "");
                    }));
                }
                1..=4 => self.prove(&mut process),
                5 if !process.shape.ordered => self.prove_all(&mut process, &killed),
                _ => std::thread::sleep(Duration::from_millis(self.random.random_range(0..20))),
            }
        }
        killer.join().unwrap();
        for flush in flushes {
            flush.join().unwrap();
        }
        daemon.kill();
        self.kills += 1;
    }

    /// Records points as unproven, then sends them.
    fn send(&mut self, process: &mut Process, sent: Vec<Sent>) -> std::io::Result<()> {
        let connections = process.senders.len();
        let mut parts = vec![Vec::new(); connections];
        for one in &sent {
            parts[one.metric % connections].push(one.point.clone());
        }
        self.releases.extend(sent.iter().map(|s| s.release).filter(|r| *r > 0));
        process.sent += sent.len() as u64;
        self.unproven.extend(sent);
        for (sender, part) in process.senders.iter_mut().zip(&parts) {
            sender.try_bytes(lines(part).as_bytes())?;
        }
        Ok(())
    }

    /// Reads the counter and removes the points that it covers from the unproven ones.
    fn prove(&mut self, process: &mut Process) {
        let (sent, now) = (process.sent, self.load.now);
        let Some(counters) = try_counters(process.admin) else { return };
        let written = counters.sum(JOURNAL_WRITTEN);
        // A point from the future may have been counted again when it became due.
        let since = self.process_start - 600;
        let again = self.releases.iter().filter(|r| (since..=now).contains(*r)).count() as u64;
        let covered = written.saturating_sub(again).min(sent);
        if covered == sent || process.shape.ordered {
            let first = sent - self.unproven.len() as u64;
            self.unproven.drain(..covered.saturating_sub(first) as usize);
        }
    }

    /// Waits until all points are covered. With several shards only the total number proves anything.
    fn prove_all(&mut self, process: &mut Process, killed: &AtomicBool) {
        while !self.unproven.is_empty() && !killed.load(Ordering::SeqCst) {
            let before = self.unproven.len();
            self.prove(process);
            let ripe = self.releases.iter().filter(|r| **r >= self.process_start - 600).count();
            if before == self.unproven.len() && before <= ripe {
                return; // Points that became due may or may not have been counted twice.
            }
        }
    }

    /// Checks stage 0: every proven point is present, an unproven one may be present, and there are no
    /// others.
    fn check_unproven(&self, daemon: &Daemon, what: &str) {
        let mut open: HashMap<(usize, i64), Vec<f64>> = HashMap::new();
        for sent in &self.unproven {
            let metric = &self.load.metrics[sent.metric];
            let slot = floor(sent.point.timestamp, metric.stages[0].0);
            open.entry((sent.metric, slot)).or_default().push(sent.point.value);
        }
        let proven = self.proven();
        compare::settled(daemon, what, || {
            let mut complaints = String::new();
            compare::stage(
                daemon,
                &self.load,
                0,
                |at, slot, seen| {
                    let wanted = proven.get(&(at, slot)).copied();
                    let Some(values) = open.get(&(at, slot)) else {
                        let shown = self.load.metrics[at].shown(0, slot, self.load.now);
                        return (!same(seen, shown)).then(|| format!("wanted {shown:?}, proven"));
                    };
                    let fits = values.iter().any(|v| same(seen, Some(*v))) || same(seen, wanted.flatten());
                    (!fits).then(|| format!("wanted {wanted:?} or one of {values:?}, unproven"))
                },
                &mut complaints,
            );
            complaints
        });
    }

    /// For the slots of unproven points, the value before the first of them. `None` if the slot was empty.
    fn proven(&self) -> BTreeMap<(usize, i64), Option<f64>> {
        let mut before = BTreeMap::new();
        for sent in &self.unproven {
            let slot = floor(sent.point.timestamp, self.load.metrics[sent.metric].stages[0].0);
            before.entry((sent.metric, slot)).or_insert(sent.before);
        }
        before
    }

    /// Starts the daemon once more, stops it cleanly, and starts it again.
    fn end(&mut self) {
        self.setup.clock(self.load.now);
        let daemon = self.setup.start();
        let shape = Shape { connections: 1, ordered: true };
        let mut process = Process::new(&daemon, shape);
        let resend = std::mem::take(&mut self.unproven);
        self.send(&mut process, resend).unwrap();
        self.unproven.clear();
        let ledger = daemon.ledger_at(process.sent);
        assert_eq!(ledger.rejected, 0, "{ledger:?}");
        drop(process);
        compare::all(&daemon, &self.load, same, "at the end");
        daemon.flush();
        compare::all(&daemon, &self.load, same, "flushed");
        let ended = daemon.stop_well();
        assert!(ended.output.contains("missing 0"), "{}", ended.output);
        let daemon = self.setup.start();
        compare::all(&daemon, &self.load, same, "after a clean stop");
        daemon.stop_well();
    }
}

/// The connections to a running daemon, and the number of points sent to it.
struct Process {
    admin: SocketAddr,
    senders: Vec<LineSender>,
    shape: Shape,
    sent: u64,
}

impl Process {
    fn new(daemon: &Daemon, shape: Shape) -> Self {
        let senders = (0..shape.connections).map(|_| daemon.sender()).collect();
        Self { admin: daemon.admin(), senders, shape, sent: 0 }
    }
}

/// Reads the counters of a daemon that may have been killed.
fn try_counters(admin: SocketAddr) -> Option<Counters> {
    let response = http::try_request(admin, "GET", "/metrics", "", "").ok()?;
    Some(Counters::parse(&response.body))
}
