//! Damaged files: holes after power loss, and flipped bytes.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plumbago_model::ManualClock;
use plumbago_spool::queue::{Id, Slice, State};
use plumbago_spool::{Spool, SpoolConfig, SpoolError};
use plumbago_telemetry::Registry;
use plumbago_tests::wait::wait_until;

const PAGE: u64 = 4096;

fn open(dir: &Path, registry: &Registry) -> Result<Spool, SpoolError> {
    let config =
        SpoolConfig { min_free_bytes: 0, linger: std::time::Duration::ZERO, ..SpoolConfig::default() };
    Spool::open(dir, config, Arc::new(ManualClock::at(1_700_000_000)), registry)
}

fn id(n: u32) -> Id {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&n.to_be_bytes());
    id
}

/// Reads and acknowledges all slices. Returns the metric and the bytes of each, in order.
fn drain(spool: &Spool) -> Vec<(Id, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(chunk) = spool.next_chunk(None, 1 << 20).unwrap() {
        all.extend(chunk.slices.iter().map(|slice| (slice.id, slice.bytes().to_vec())));
        spool.acknowledge(&chunk).unwrap();
    }
    all
}

fn files(dir: &Path, wanted: &dyn Fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, wanted, found);
        } else if wanted(&path) {
            found.push(path);
        }
    }
}

/// A page of the log did not reach the disk: all commits before it are complete, and all later ones are gone.
#[test]
fn a_hole_in_the_log_is_cut() {
    let mut repaired = 0;
    for page in (5..100).step_by(7) {
        let dir = tempfile::tempdir().unwrap();
        let last = {
            let spool = open(dir.path(), &Registry::new()).unwrap();
            let mut last = 0;
            for n in 0..60_u32 {
                let bytes = vec![n as u8; 3000 + n as usize * 997 % 9000];
                let slices = [1, 2].map(|metric| Slice { id: id(metric), rows: 1, bytes: &bytes });
                let state = State { id: id(1), bytes: &n.to_le_bytes() };
                last = spool.commit(&slices, &[state]).unwrap();
            }
            last
        };
        let mut logs = Vec::new();
        files(dir.path(), &|path| path.extension().is_some_and(|ext| ext == "jnl"), &mut logs);
        let log = std::fs::OpenOptions::new().write(true).open(&logs[0]).unwrap();
        log.write_all_at(&[0; PAGE as usize], page * PAGE).unwrap();
        let registry = Registry::new();
        let spool = open(dir.path(), &registry).unwrap();
        repaired += registry.value("plumbago_spool_torn_tails_total").unwrap() as u32;
        let mut state = None;
        spool
            .scan_states(&mut |_, bytes| state = Some(u32::from_le_bytes(bytes.try_into().unwrap())))
            .unwrap();
        let commits = state.map_or(0, |state| state + 1);
        assert!(commits > 0 && commits < 60, "page {page}: {commits}");
        let all = drain(&spool);
        let of =
            |metric| all.iter().filter(move |(found, _)| *found == id(metric)).map(|(_, bytes)| bytes[0]);
        for metric in [1, 2] {
            assert!(of(metric).eq(0..commits as u8), "page {page}");
        }
        // Only unsynced commits are lost, and none of them was sent, so their timestamps can be assigned
        // again.
        assert!(spool.timestamp().unwrap() <= last);
    }
    assert!(repaired > 0, "fjall has opened them all by itself: is the repair needed still?");
}

/// Damage in a table is counted and skipped, and the slices around it are sent.
#[test]
fn a_flipped_byte_in_a_table_costs_that_place_only() {
    const METRICS: u32 = 30_000;
    let dir = tempfile::tempdir().unwrap();
    {
        let spool = open(dir.path(), &Registry::new()).unwrap();
        let bytes = vec![7; 1000];
        for first in (0..METRICS).step_by(500) {
            let ids = first..first + 500;
            let slices: Vec<_> = ids.map(|n| Slice { id: id(n), rows: 1, bytes: &bytes }).collect();
            spool.commit(&slices, &[]).unwrap();
        }
        wait_until("a large table", || {
            let mut tables = Vec::new();
            files(dir.path(), &|path| is_large_table(path), &mut tables);
            !tables.is_empty()
        });
        spool.close().unwrap();
    }
    let mut tables = Vec::new();
    files(dir.path(), &|path| is_large_table(path), &mut tables);
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&tables[0]).unwrap();
    let at = 4_000_000;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();

    let registry = Registry::new();
    let spool = open(dir.path(), &registry).unwrap();
    let all = drain(&spool);
    let lost = METRICS as usize - all.len();
    assert!(lost > 0 && lost < 50, "{lost} slices are lost");
    assert!(registry.value("plumbago_spool_damaged_total").unwrap() > 0.0);
    assert!(all.is_sorted_by_key(|(id, _)| *id));
    assert!(spool.next_chunk(None, 1 << 20).unwrap().is_none());
}

fn is_large_table(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_str().unwrap();
    let is_table = name.bytes().all(|byte| byte.is_ascii_digit());
    is_table && std::fs::metadata(path).is_ok_and(|file| file.len() > 8_000_000)
}
