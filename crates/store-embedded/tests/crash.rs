//! `kill -9` at any moment: what was acknowledged is there, rows and state rows belong together.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{BLOCK, LONG, START, assert_blocks, block, blocks_by_state, child, child_dir, metrics, open};
use plumbago_store::FlushStore;
use rand::RngExt;

const METRICS: u32 = 60;
const ROUNDS: u32 = 14;

#[test]
fn nothing_acknowledged_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        acknowledged = acknowledged.max(run_and_kill(dir.path(), rand::rng().random_range(20..700)));
        let store = open(dir.path()).store;
        let states = blocks_by_state(&store);
        let metrics = metrics(METRICS, LONG);
        let blocks: Vec<u32> = metrics.iter().map(|m| states.get(&m.id).copied().unwrap_or(0)).collect();
        // One batch holds all metrics: all or none.
        assert!(blocks.iter().all(|b| *b == blocks[0]), "round {round}: half a batch, {blocks:?}");
        assert!(blocks[0] >= acknowledged, "round {round}: {} of {acknowledged} batches", blocks[0]);
        assert_blocks(&store, &metrics, |metric| states.get(&metric.id).copied().unwrap_or(0));
        store.close().unwrap();
    }
    assert!(acknowledged > 50, "only {acknowledged} commits in {ROUNDS} rounds");
}

/// Gives the number of the last batch that the child has acknowledged.
fn run_and_kill(dir: &std::path::Path, millis: u64) -> u32 {
    let mut process = child("child_commits_until_killed", dir).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let numbers =
            output.lines().map_while(Result::ok).filter_map(|line| line.strip_prefix("ack ")?.parse().ok());
        numbers.last().unwrap_or(0)
    });
    std::thread::sleep(Duration::from_millis(millis));
    process.kill().unwrap();
    process.wait().unwrap();
    reader.join().unwrap()
}

/// Commits block after block, while another thread merges what there is, over and over.
#[test]
#[ignore = "runs as a child of the test above"]
fn child_commits_until_killed() {
    let Some(dir) = child_dir() else { return };
    let common::Store { store, clock, .. } = open(&dir);
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
            // One write for the line, so that a kill does not cut it.
            let mut out = std::io::stdout().lock();
            out.write_all(format!("ack {}\n", number + 1).as_bytes()).unwrap();
            out.flush().unwrap();
        }
    });
}
