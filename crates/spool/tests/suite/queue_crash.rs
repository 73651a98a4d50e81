//! `kill -9` during commits and sending. Every reported commit is still in the queue or was sent, its state
//! rows exist, and no timestamp is assigned twice.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plumbago_model::SystemClock;
use plumbago_spool::queue::{Id, Slice, State};
use plumbago_spool::{Spool, SpoolConfig};
use plumbago_telemetry::Registry;
use plumbago_tests::crash::{Victim, child_directory, child_test};
use plumbago_tests::wait::wait_until;
use rand::{RngExt, SeedableRng, rngs::StdRng};

const KILLS: u64 = 12;
const METRICS: u64 = 300;

fn open(dir: &Path) -> Spool {
    let config = SpoolConfig {
        min_free_bytes: 0,
        linger: Duration::from_millis(3),
        retain: Some(Duration::from_secs(3600)),
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

/// The number of the newest commit, read from the state rows.
fn last_commit(spool: &Spool) -> u64 {
    let mut last = 0;
    spool
        .scan_states(&mut |_, bytes| last = last.max(u64::from_le_bytes(bytes.try_into().unwrap())))
        .unwrap();
    last
}

/// The process that the test kills. Commit `n` writes its number into slices and state rows of a few metrics.
/// The sender reports each slice before it acknowledges it.
#[test]
#[ignore = "runs as a child of a test below"]
fn child() {
    let Some(dir) = child_directory() else { return };
    let spool = open(&dir);
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

/// The reports of a child, by commit number: the timestamp and number of slices of each commit, and how many
/// slices were sent.
#[derive(Default)]
struct Report {
    commits: BTreeMap<u64, (i64, u64)>,
    sent: BTreeMap<u64, u64>,
}

fn run_and_kill(dir: &Path, reports: u64, later: Duration, report: &Arc<Mutex<Report>>) {
    let command = child_test("queue_crash::child", dir);
    let report = Arc::clone(report);
    Victim::start(command, move |line| note(line, &mut report.lock().unwrap())).kill_after(reports, later);
}

fn note(line: &str, report: &mut Report) -> bool {
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
        _ => return false,
    }
    true
}

#[test]
fn a_kill_loses_no_commit_and_gives_no_timestamp_twice() {
    let dir = tempfile::tempdir().unwrap();
    let report = Arc::new(Mutex::new(Report::default()));
    let mut rng = StdRng::seed_from_u64(9);
    for kill in 0..KILLS {
        // The first kill happens during the start.
        let reports = if kill == 0 { 0 } else { rng.random_range(0..600) };
        run_and_kill(dir.path(), reports, Duration::from_micros(rng.random_range(0..30_000)), &report);
        let spool = open(dir.path());
        let there = last_commit(&spool);
        let reported = report.lock().unwrap().commits.keys().next_back().copied().unwrap_or(0);
        assert!(there >= reported, "kill {kill}: {there} of {reported} are there");
        assert!(there <= reported + 1, "kill {kill}: {there} but only {reported} were reported");
    }
    // Send the slices that no child has sent. Together with theirs, every slice was sent.
    let spool = open(dir.path());
    let report = report.lock().unwrap();
    let mut sent = report.sent.clone();
    let mut position = None;
    wait_until("the rest to be sent", || {
        while let Some(chunk) = spool.next_chunk(position, 50_000).unwrap() {
            position = Some(chunk.end);
            for slice in &chunk.slices {
                let commit = u64::from_le_bytes(slice.bytes()[..8].try_into().unwrap());
                *sent.entry(commit).or_default() += 1;
            }
            spool.acknowledge(&chunk).unwrap();
        }
        spool.stats().pending_rows == 0
    });
    assert!(report.commits.len() > 100, "only {} commits", report.commits.len());
    for (commit, (_, slices)) in &report.commits {
        let found = sent.get(commit).copied().unwrap_or(0);
        assert!(found >= *slices, "commit {commit}: {found} of its {slices} slices were sent");
    }
    let timestamps: Vec<i64> = report.commits.values().map(|(timestamp, _)| *timestamp).collect();
    assert!(timestamps.is_sorted_by(|a, b| a < b), "timestamps rise");
}
