//! Measures `plumbago rules apply` during a steady stream of points. Afterwards compares the stages with the
//! points that were sent.
//!
//! `PLUMBAGO_FIGURES_RULES` is the number of metrics (100,000).

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::{LineSender, Point};
use plumbago_tests::wait::wait_until;
use serde_json::Value;

use super::{amount, cpu_of};
use crate::slots::{Slots, shown_at, windows};

const OLD: &str = "[all]\npattern = .*\nretentions = 1s:2h,1m:2d\n";
const NEW: &str = "[all]\npattern = .*\nretentions = 1s:3h,10s:1d,1m:7d\n";
const SUMS: &str = "[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n";
/// Points per second. With fewer metrics the rate is lower, because no metric gets two points in a second.
const RATE: usize = 100_000;
const CONNECTIONS: usize = 5;
/// Number of portions per second in which points are sent.
const PORTIONS: usize = 100;
/// How long the processor time is measured.
const MEASURED: Duration = Duration::from_secs(30);
/// Number of metrics that are compared at the end.
const COMPARED: usize = 1000;
/// Number of points in one call while the metrics are created.
const CREATED: usize = 10_000;

fn name(metric: usize) -> String {
    format!("paced.g{}.m{metric}", metric % 100)
}

/// Whole numbers, so that sums are exact.
fn value(metric: usize, second: i64) -> f64 {
    ((metric as i64 * 31 + second) % 97 + 1) as f64
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

/// A stream of points at a constant rate: the metrics take turns.
struct Stream {
    /// Number of points per portion. The number of metrics is a multiple of it.
    portion: usize,
    metrics: usize,
    /// The second of the first portion.
    first: i64,
    sent: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    /// The sender's thread. It returns the number of portions, and its longest delay.
    sender: JoinHandle<(usize, Duration)>,
}

impl Stream {
    fn start(daemon: &Daemon, metrics: usize, portion: usize) -> Self {
        let (sent, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut senders: Vec<LineSender> = (0..CONNECTIONS).map(|_| daemon.sender()).collect();
        let (count, flag, first) = (Arc::clone(&sent), Arc::clone(&over), now() + 1);
        let sender = std::thread::spawn(move || {
            let (start, mut behind, mut number) = (Instant::now(), Duration::ZERO, 0);
            while !flag.load(Ordering::SeqCst) {
                let due = start + Duration::from_secs(1) * number as u32 / PORTIONS as u32;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let second = first + (number / PORTIONS) as i64;
                let from = number * portion % metrics;
                let text: String = (from..from + portion)
                    .map(|metric| format!("{} {} {second}\n", name(metric), value(metric, second)))
                    .collect();
                senders[number % CONNECTIONS].try_bytes(text.as_bytes()).unwrap();
                behind = behind.max(Instant::now().saturating_duration_since(due));
                count.fetch_add(portion as u64, Ordering::SeqCst);
                number += 1;
            }
            (number, behind)
        });
        Self { portion, metrics, first, sent, over, sender }
    }

    /// Stops the stream. Returns a function that gives the seconds in which a metric got a point.
    fn end(self) -> impl Fn(usize) -> BTreeSet<i64> {
        self.over.store(true, Ordering::SeqCst);
        let (portions, behind) = self.sender.join().unwrap();
        println!("{portions} portions of {} points, {behind:?} late at most", self.portion);
        let (turns, portion, first) = (self.metrics / self.portion, self.portion, self.first);
        move |metric| {
            let sent = (metric / portion..portions).step_by(turns);
            sent.map(|number| first + (number / PORTIONS) as i64).collect()
        }
    }
}

/// Processor time that the daemon needs for each point in a period.
struct Cost {
    seconds: f64,
    /// Processor seconds for a million points.
    cpu: f64,
}

impl Cost {
    fn of(daemon: &Daemon, stream: &Stream, work: impl FnOnce()) -> Self {
        let sent = || stream.sent.load(Ordering::SeqCst);
        let (began, points, cpu) = (Instant::now(), sent(), cpu_of(daemon.id()));
        work();
        let (cpu, points) = (cpu_of(daemon.id()) - cpu, sent() - points);
        Self { seconds: began.elapsed().as_secs_f64(), cpu: cpu / points as f64 * 1e6 }
    }

    fn show(&self, what: &str, changed: u64, quiet: &Self) {
        println!(
            "{what:<32} {:>8.1} s {:>10.0} metrics/s {:>8.3} CPU s a million points, {:.2} times",
            self.seconds,
            changed as f64 / self.seconds,
            self.cpu,
            self.cpu / quiet.cpu
        );
    }
}

fn apply(setup: &Setup, arguments: &[&str]) -> Child {
    let mut command = setup.command(&[&["rules", "apply", "--json"], arguments].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// The number of metrics whose settings are not those of the rules.
fn left(setup: &Setup) -> u64 {
    let answer = apply(setup, &["--dry-run"]).wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
    answer["changed"].as_u64().unwrap()
}

/// Creates the metrics, each with a point of this second.
fn create(daemon: &Daemon, metrics: usize, second: i64) {
    let all: Vec<usize> = (0..metrics).collect();
    for some in all.chunks(CREATED) {
        let points: Vec<Point> =
            some.iter().map(|metric| Point::new(name(*metric), second, value(*metric, second))).collect();
        daemon.put(&points);
    }
    let known = || daemon.counters().sum("plumbago_index_names") >= metrics as u64;
    wait_until("the metrics to be created", known);
}

/// The points of a stage of a metric that are missing, counted twice or wrong.
fn differences(daemon: &Daemon, metric: usize, wanted: &Slots, at: i64) -> usize {
    let stages = [(3 * 3600 - 60, 1), (20 * 3600, 10), (5 * 86_400, 60)];
    let differs = |(seconds, resolution): (i64, i64)| {
        let (shown, wanted) = (shown_at(daemon, &name(metric), seconds, at), windows(wanted, resolution));
        let missing = wanted.iter().filter(|(time, value)| shown.get(time) != Some(value)).count();
        missing + shown.keys().filter(|time| !wanted.contains_key(time)).count()
    };
    stages.into_iter().map(differs).sum()
}

#[test]
#[ignore = "a figure"]
fn rules_are_applied_beside_points() {
    let asked = amount("RULES", 100_000);
    let portion = (RATE.min(asked) / PORTIONS).max(1);
    let metrics = asked / portion * portion;
    let mut setup = Setup::new();
    setup.set("log.level", "warn").schemas(OLD).aggregation(SUMS);
    let daemon = setup.start_for_commands();
    let created = now() - 10;
    create(&daemon, metrics, created);
    let stream = Stream::start(&daemon, metrics, portion);
    // Flushes are a part of the cost of points.
    wait_until("points to be flushed", || daemon.ledger().stored >= metrics as u64);
    println!("\n{metrics} metrics, {} points per second", portion * PORTIONS);
    let quiet = Cost::of(&daemon, &stream, || std::thread::sleep(MEASURED));
    quiet.show("no change", 0, &quiet);
    setup.schemas(NEW);
    daemon.signal(Signal::SIGHUP);
    wait_until("the new rules", || left(&setup) == metrics as u64);
    let beside = Cost::of(&daemon, &stream, || {
        let mut child = apply(&setup, &[]);
        std::thread::sleep(MEASURED);
        // The command may have ended already, which is acceptable.
        let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT);
        child.wait().unwrap();
    });
    let rest = left(&setup);
    beside.show("rules apply", metrics as u64 - rest, &quiet);
    let mut answer = Value::Null;
    let fast = Cost::of(&daemon, &stream, || {
        let output = apply(&setup, &["--rate", "0"]).wait_with_output().unwrap();
        answer = serde_json::from_slice(&output.stdout).unwrap();
    });
    assert_eq!(answer["changed"], rest);
    fast.show("rules apply --rate 0", rest, &quiet);
    println!("{} slots and windows written by the latter", answer["points"]);
    let total = Arc::clone(&stream.sent);
    let seconds_of = stream.end();
    let total = total.load(Ordering::SeqCst) + metrics as u64;
    assert_eq!(daemon.ledger_at(total).rejected, 0);
    assert_eq!(left(&setup), 0);
    let last = (0..metrics).step_by(portion).filter_map(|metric| seconds_of(metric).last().copied()).max();
    wait_until("the clock to pass the points", || Some(now()) > last);
    let step = metrics.div_ceil(COMPARED);
    let compare = || -> usize {
        let at = now();
        let wrong = (0..metrics).step_by(step).map(|metric| {
            let seconds = seconds_of(metric).into_iter().chain([created]);
            let wanted: Slots = seconds.map(|second| (second, value(metric, second))).collect();
            differences(&daemon, metric, &wanted, at)
        });
        wrong.sum()
    };
    let wrong = compare();
    println!("{wrong} points of {} metrics missing, doubled or wrong", metrics.div_ceil(step));
    assert_eq!(wrong, 0);
    daemon.stop_well();
}
