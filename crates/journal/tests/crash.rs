//! `kill -9` at random moments: what was reported as handed over is there, in order, once.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use common::{Seen, open, replay_all};
use plumbago_journal::{Config, Journal, SyncPolicy};
use plumbago_model::SystemClock;
use plumbago_telemetry::Registry;
use rand::{RngExt, SeedableRng, rngs::StdRng};

const DIR: &str = "PLUMBAGO_JOURNAL_CRASH_DIR";
const FROM: &str = "PLUMBAGO_JOURNAL_CRASH_FROM";
const WRITERS: usize = 2;
const KILLS: u64 = 12;

/// Short segments and syncs, so that kills meet them too.
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

/// Not a test by itself: the process that is killed.
#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let from: Vec<u32> = std::env::var(FROM).unwrap().split(',').map(|n| n.parse().unwrap()).collect();
    let journal = open(Path::new(&dir), config(), Arc::new(SystemClock), &Registry::new()).unwrap();
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
        // What earlier processes wrote goes while these write.
        started.wait();
        std::thread::sleep(Duration::from_millis(u64::from(first_segment) * 37 % 400));
        journal.drop_before(first_segment).unwrap();
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Point `n` of a writer has the timestamp `n`; every 500th is announced by a creation.
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
        handed += end.hand_over().unwrap() as u64;
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

/// Starts a child, kills it after `life`, and returns what it had reported.
fn run_and_kill(dir: &Path, from: &[u32], life: Duration) -> Vec<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env(DIR, dir)
        .env(FROM, from.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let reported: Arc<Vec<AtomicU64>> =
        Arc::new(from.iter().map(|n| AtomicU64::new(u64::from(*n))).collect());
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn({
        let reported = reported.clone();
        move || {
            let mut line = String::new();
            // The test harness prints its own lines; a line cut by the kill reports nothing.
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                let words: Vec<&str> = line.split_whitespace().collect();
                if let ["handed", writer, count] = words[..]
                    && line.ends_with('\n')
                {
                    let writer: usize = writer.parse().unwrap();
                    reported[writer].store(count.parse().unwrap(), Ordering::Relaxed);
                }
                line.clear();
            }
        }
    });
    std::thread::sleep(life);
    assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    reported.iter().map(|count| count.load(Ordering::Relaxed)).collect()
}

/// Checks that each writer's points follow each other from `from` or earlier on, with their
/// creations, and returns where they end.
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
        let life = Duration::from_millis(rng.random_range(30..700));
        let reported = run_and_kill(dir.path(), &from, life);
        let there = check(dir.path(), &from);
        for (reported, there) in reported.iter().zip(&there) {
            assert!(u64::from(*there) >= *reported, "kill {kill}: {there} of {reported} are there");
        }
        from = there;
    }
    assert!(from.iter().all(|count| *count > 0), "nothing was written");
}
