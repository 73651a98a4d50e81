//! `kill -9` at random moments: every point that was reported as written is replayed once and in order.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use plumbago_journal::{Config, Journal, SyncPolicy};
use plumbago_model::SystemClock;
use plumbago_telemetry::Registry;
use plumbago_tests::crash::{Victim, child_directory, child_test};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::common::{Seen, open, replay_all};

const FROM: &str = "PLUMBAGO_JOURNAL_CRASH_FROM";
const WRITERS: usize = 2;
const KILLS: u64 = 12;

/// Short segments and sync intervals, so that some kills happen during a sync or a change of segment.
fn config() -> Config {
    Config {
        sync: SyncPolicy::Every(Duration::from_millis(20)),
        segment: Duration::from_secs(1),
        ..Config::default()
    }
}

fn value_of(n: u32) -> f64 {
    f64::from(n) * 0.37 + 1.0
}

fn name_of(writer: usize, n: u32) -> String {
    format!("servers.writer{writer}.metric{n}")
}

/// The process that the test kills.
#[test]
#[ignore = "runs as a child of a test below"]
fn child() {
    let Some(dir) = child_directory() else { return };
    let from: Vec<u32> = std::env::var(FROM).unwrap().split(',').map(|n| n.parse().unwrap()).collect();
    let journal = open(&dir, config(), Arc::new(SystemClock), &Registry::new()).unwrap();
    let started = Arc::new(Barrier::new(WRITERS + 1));
    let first_segment = journal.current_segment();
    let mut threads: Vec<_> = from
        .into_iter()
        .enumerate()
        .map(|(writer, from)| {
            let (journal, started) = (journal.clone(), started.clone());
            std::thread::spawn(move || write_for_ever(&journal, writer, from, &started))
        })
        .collect();
    threads.push(std::thread::spawn(move || {
        // The segments of earlier processes are dropped while these threads write.
        started.wait();
        std::thread::sleep(Duration::from_millis(u64::from(first_segment) * 37 % 400));
        journal.drop_before(first_segment).unwrap();
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Point `n` of a writer has the timestamp `n`. A creation precedes every 500th point.
fn write_for_ever(journal: &Journal, writer: usize, from: u32, started: &Barrier) {
    let mut rng = StdRng::seed_from_u64(u64::from(from) + writer as u64);
    let mut end = journal.writer();
    let mut n = from;
    let mut handed = u64::from(from);
    let mut first = false;
    loop {
        let most = if rng.random_bool(0.1) { 9000 } else { 300 };
        for _ in 0..rng.random_range(1..most) {
            if n.is_multiple_of(500) {
                end.creation(writer as u32, &name_of(writer, n));
            }
            end.point(writer as u32, n, value_of(n));
            n += 1;
        }
        handed += end.write_out().unwrap() as u64;
        let line = format!("handed {writer} {handed}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        if handed > u64::from(from) && !first {
            first = true;
            started.wait();
        }
        if rng.random_bool(0.3) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Starts a child, kills it at the time `later` after its report number `reports`, and returns how many
/// points each writer had reported.
fn run_and_kill(dir: &Path, from: &[u32], reports: u64, later: Duration) -> Vec<u64> {
    let mut command = child_test("crash::child", dir);
    command.env(FROM, from.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    let reported: Arc<Vec<AtomicU64>> =
        Arc::new(from.iter().map(|n| AtomicU64::new(u64::from(*n))).collect());
    let noted = Arc::clone(&reported);
    let child = Victim::start(command, move |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["handed", writer, count] = words[..] else { return false };
        let writer: usize = writer.parse().unwrap();
        noted[writer].store(count.parse().unwrap(), Ordering::Relaxed);
        true
    });
    child.kill_after(reports, later);
    reported.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}

/// Checks that each writer's points are complete, with their creations, from `from` or an earlier point on.
/// Returns the number after each writer's last point.
fn check(dir: &Path, from: &[u32]) -> Vec<u32> {
    let journal = open(dir, config(), Arc::new(SystemClock), &Registry::new()).unwrap();
    let mut next: [Option<u32>; WRITERS] = [None; WRITERS];
    let mut announced = [const { None }; WRITERS];
    for seen in replay_all(&journal) {
        match seen {
            Seen::Point(_, metric, timestamp, value) => {
                let writer = metric as usize;
                match next[writer] {
                    Some(next) => assert_eq!(timestamp, next, "writer {writer}"),
                    None => {
                        assert!(timestamp <= from[writer], "{timestamp} is the first, not {}", from[writer]);
                    }
                }
                assert_eq!(value, value_of(timestamp));
                if timestamp.is_multiple_of(500) {
                    assert_eq!(announced[writer], Some(name_of(writer, timestamp)));
                }
                next[writer] = Some(timestamp + 1);
            }
            Seen::Creation(_, metric, name) => announced[metric as usize] = Some(name),
            Seen::Removal(..) => panic!("nobody removed anything"),
        }
    }
    next.iter().zip(from).map(|(next, from)| next.unwrap_or(*from)).collect()
}

#[test]
fn a_kill_loses_nothing_that_was_handed_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let mut from = vec![0; WRITERS];
    for kill in 0..KILLS {
        // The first kill happens during the start.
        let reports = if kill == 0 { 0 } else { rng.random_range(0..600) };
        let later = Duration::from_micros(rng.random_range(0..30_000));
        let reported = run_and_kill(dir.path(), &from, reports, later);
        let there = check(dir.path(), &from);
        for (reported, there) in reported.iter().zip(&there) {
            assert!(u64::from(*there) >= *reported, "kill {kill}: {there} of {reported} are there");
        }
        from = there;
    }
    assert!(from.iter().all(|count| *count > 0), "nothing was written");
}
