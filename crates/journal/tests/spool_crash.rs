//! `kill -9` while commits are made and sent: what was reported as committed is there, with its state
//! row, unless it was acknowledged; no timestamp is given twice.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumbago_journal::spool::{Id, Slice, State};
use plumbago_journal::{Spool, SpoolConfig};
use plumbago_model::SystemClock;
use plumbago_telemetry::Registry;
use rand::{RngExt, SeedableRng, rngs::StdRng};

const DIR: &str = "PLUMBAGO_SPOOL_CRASH_DIR";
const KILLS: u64 = 12;
const METRICS: u64 = 300;

fn open(dir: &Path) -> Spool {
    let config = SpoolConfig {
        min_free_bytes: 0,
        gather: Duration::from_millis(3),
        retain: Duration::from_secs(3600),
        ..SpoolConfig::default()
    };
    Spool::open(dir, config, Arc::new(SystemClock), &Registry::new()).unwrap()
}

fn id(n: u64) -> Id {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    id[8..].copy_from_slice(&n.to_be_bytes());
    id
}

/// The number of the newest commit that a state row tells of.
fn last_commit(spool: &Spool) -> u64 {
    let mut last = 0;
    spool
        .scan_states(&mut |_, bytes| last = last.max(u64::from_le_bytes(bytes.try_into().unwrap())))
        .unwrap();
    last
}

/// Not a test by itself: the process that is killed. Commit `n` writes its number as slice and state
/// of a few metrics; the sender reports what it hands on and what it acknowledged.
#[test]
fn child() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let spool = open(Path::new(&dir));
    let from = last_commit(&spool);
    let say = |line: String| std::io::stdout().write_all(line.as_bytes()).unwrap();
    let sender = spool.clone();
    std::thread::spawn(move || {
        let mut position = None;
        loop {
            let Some(chunk) = sender.next_chunk(position, 20_000).unwrap() else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            position = Some(chunk.end);
            let mut line = String::from("sent");
            for slice in &chunk.slices {
                let commit = u64::from_le_bytes(slice.bytes()[..8].try_into().unwrap());
                line.push_str(&format!(" {commit}:{}", slice.timestamp_us));
            }
            line.push('\n');
            std::io::stdout().write_all(line.as_bytes()).unwrap();
            sender.acknowledge(&chunk).unwrap();
        }
    });
    let mut rng = StdRng::seed_from_u64(from);
    for commit in from + 1.. {
        let bytes = [commit.to_le_bytes(); 20].concat();
        let first = rng.random_range(0..METRICS);
        let ids: Vec<Id> = (0..rng.random_range(1..40)).map(|n| id((first + n) % METRICS)).collect();
        let slices: Vec<_> = ids.iter().map(|id| Slice { id: *id, rows: 1, bytes: &bytes }).collect();
        let number = commit.to_le_bytes();
        let states: Vec<_> = ids.iter().map(|id| State { id: *id, bytes: &number }).collect();
        let timestamp_us = spool.commit(&slices, &states).unwrap();
        say(format!("committed {commit} {timestamp_us} {}\n", slices.len()));
        if rng.random_bool(0.2) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What a child reported: commits with timestamp and slices, and which slices were sent, how often.
#[derive(Default)]
struct Report {
    commits: BTreeMap<u64, (i64, u64)>,
    sent: BTreeMap<u64, u64>,
    torn: u64,
}

fn run_and_kill(dir: &Path, life: Duration, report: &Arc<Mutex<Report>>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines_seen = Arc::new(AtomicU64::new(0));
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn({
        let (report, lines_seen) = (report.clone(), lines_seen.clone());
        move || {
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                note(&line, &mut report.lock().unwrap());
                lines_seen.fetch_add(1, Ordering::Relaxed);
                line.clear();
            }
        }
    });
    std::thread::sleep(life);
    assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
}

fn note(line: &str, report: &mut Report) {
    if !line.ends_with('\n') {
        report.torn += 1;
        return;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["committed", commit, timestamp, slices] => {
            let row = (timestamp.parse().unwrap(), slices.parse().unwrap());
            report.commits.insert(commit.parse().unwrap(), row);
        }
        ["sent", ..] => {
            for word in &words[1..] {
                let (commit, _) = word.split_once(':').unwrap();
                *report.sent.entry(commit.parse().unwrap()).or_default() += 1;
            }
        }
        _ => {}
    }
}

#[test]
fn a_kill_loses_no_commit_and_gives_no_timestamp_twice() {
    let dir = tempfile::tempdir().unwrap();
    let report = Arc::new(Mutex::new(Report::default()));
    let mut rng = StdRng::seed_from_u64(9);
    for kill in 0..KILLS {
        run_and_kill(dir.path(), Duration::from_millis(rng.random_range(40..700)), &report);
        let spool = open(dir.path());
        let there = last_commit(&spool);
        let reported = report.lock().unwrap().commits.keys().next_back().copied().unwrap_or(0);
        assert!(there >= reported, "kill {kill}: {there} of {reported} are there");
        assert!(there <= reported + 1, "kill {kill}: {there} but only {reported} were reported");
    }
    // What was not sent by the children is sent now; together it is everything.
    let spool = open(dir.path());
    let report = report.lock().unwrap();
    let mut sent = report.sent.clone();
    let mut position = None;
    let mut waiting = 0;
    while waiting < 5 {
        let Some(chunk) = spool.next_chunk(position, 50_000).unwrap() else {
            waiting += 1;
            std::thread::sleep(Duration::from_millis(4));
            continue;
        };
        position = Some(chunk.end);
        for slice in &chunk.slices {
            let commit = u64::from_le_bytes(slice.bytes()[..8].try_into().unwrap());
            *sent.entry(commit).or_default() += 1;
        }
        assert!(spool.acknowledge(&chunk).unwrap());
    }
    assert!(report.commits.len() > 100, "only {} commits", report.commits.len());
    for (commit, (_, slices)) in &report.commits {
        let found = sent.get(commit).copied().unwrap_or(0);
        assert!(found >= *slices, "commit {commit}: {found} of its {slices} slices were sent");
    }
    let timestamps: Vec<i64> = report.commits.values().map(|(timestamp, _)| *timestamp).collect();
    assert!(timestamps.is_sorted_by(|a, b| a < b), "timestamps rise");
}
