//! `kill -9` at any moment: acknowledged commits can be read, and rows agree with state rows.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{BLOCK, LONG, START, assert_blocks, block, blocks_by_state, metrics, open};
use plumbago_store::FlushStore;
use plumbago_tests::crash::{Victim, child_directory, child_test};
use rand::RngExt;

const METRICS: u32 = 60;
const ROUNDS: u32 = 14;

#[test]
fn nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        // The first kill happens during the start.
        let reports = if round == 0 { 0 } else { rand::rng().random_range(0..40) };
        let later = Duration::from_micros(rand::rng().random_range(0..30_000));
        acknowledged = acknowledged.max(run_and_kill(dir.path(), reports, later));
        let store = open(dir.path()).store;
        let states = blocks_by_state(&store);
        let metrics = metrics(METRICS, LONG);
        let blocks: Vec<u32> = metrics.iter().map(|m| states.get(&m.id).copied().unwrap_or(0)).collect();
        // One batch has a block of every metric, so either all of them are stored or none.
        assert!(blocks.iter().all(|b| *b == blocks[0]), "round {round}: half a batch, {blocks:?}");
        assert!(blocks[0] >= acknowledged, "round {round}: {} of {acknowledged} batches", blocks[0]);
        assert_blocks(&store, &metrics, |metric| states.get(&metric.id).copied().unwrap_or(0));
        store.close().unwrap();
    }
    assert!(acknowledged > 50, "only {acknowledged} commits in {ROUNDS} rounds");
}

/// The number of the last batch that the child acknowledged.
fn run_and_kill(dir: &Path, reports: u64, later: Duration) -> u32 {
    let command = child_test("crash::child_commits_until_killed", dir);
    let last = Arc::new(AtomicU32::new(0));
    let noted = Arc::clone(&last);
    let child = Victim::start(command, move |line| {
        let Some(number) = line.strip_prefix("ack ") else { return false };
        noted.store(number.parse().unwrap(), Ordering::Relaxed);
        true
    });
    child.kill_after(reports, later);
    last.load(Ordering::Relaxed)
}

/// Commits block after block while another thread merges again and again.
#[test]
#[ignore = "runs as a child of the test above"]
fn child_commits_until_killed() {
    let Some(dir) = child_directory() else { return };
    let crate::common::Store { store, clock, .. } = open(&dir);
    let metrics = metrics(METRICS, LONG);
    let first = blocks_by_state(&store).values().copied().max().unwrap_or(0);
    let failed = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !failed.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(15));
                store.merge_all(&mut |_| true).unwrap();
            }
        });
        for number in first.. {
            clock.set(i64::from(START + number * BLOCK) * 60);
            if store.commit(&block(&store, &metrics, number)).is_err() {
                failed.store(true, Ordering::Relaxed);
                panic!("commit {number}");
            }
            // One write per line, so that a kill does not cut it.
            let mut out = std::io::stdout().lock();
            out.write_all(format!("ack {}\n", number + 1).as_bytes()).unwrap();
            out.flush().unwrap();
        }
    });
}
