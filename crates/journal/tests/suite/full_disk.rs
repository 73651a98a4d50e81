//! A full disk: writes are refused, nothing is lost, and writes succeed again once there is room.

use std::path::Path;
use std::sync::Arc;

use plumbago_journal::{Config, Journal, JournalWriter};
use plumbago_model::ManualClock;
use plumbago_telemetry::Registry;
use plumbago_tests::small_disk::{SmallDisk, with_small_disk};
use plumbago_tests::wait::wait_until;

use crate::common::{Seen, open, replay_all};

const SMALL_DISK_MIB: usize = 64;

#[test]
fn a_full_disk_loses_nothing() {
    with_small_disk("full_disk::child_full_disk", SMALL_DISK_MIB);
}

#[test]
fn room_is_left_for_others() {
    with_small_disk("full_disk::child_least_room", SMALL_DISK_MIB);
}

/// Appends points whose timestamp and value are their position in the order of appending.
struct Load {
    journal: Journal,
    registry: Registry,
    writers: Vec<JournalWriter>,
    appended: u32,
    handed: u64,
}

impl Load {
    fn new(dir: &Path, min_free_bytes: u64) -> Self {
        let registry = Registry::new();
        let journal = open_at(dir, min_free_bytes, &registry);
        let writers = vec![journal.writer(), journal.writer()];
        Self { journal, registry, writers, appended: 0, handed: 0 }
    }

    fn append(&mut self, points: u32) {
        for _ in 0..points {
            let writer = self.appended as usize % self.writers.len();
            self.writers[writer].point(writer as u32, self.appended, f64::from(self.appended));
            self.appended += 1;
        }
    }

    /// Writes all pending points. Returns true if the journal refused none of them.
    fn write_out(&mut self) -> bool {
        let mut all = true;
        for writer in &mut self.writers {
            match writer.write_out() {
                Ok(points) => self.handed += points as u64,
                Err(error) => {
                    assert!(error.is_transient(), "{error}");
                    all = false;
                }
            }
        }
        all
    }

    fn metric(&self, name: &str) -> f64 {
        self.registry.value(name).unwrap()
    }

    /// Reopens the journal and compares the replayed points with the appended ones.
    fn check(self, dir: &Path) {
        let Self { journal, writers, appended, .. } = self;
        drop(writers);
        journal.close().unwrap();
        let mut timestamps: Vec<u32> = replay_all(&open_at(dir, 0, &Registry::new()))
            .into_iter()
            .map(|seen| match seen {
                Seen::Point(_, metric, timestamp, value) => {
                    assert_eq!((metric, value), (timestamp % 2, f64::from(timestamp)));
                    timestamp
                }
                other => panic!("{other:?}"),
            })
            .collect();
        timestamps.sort_unstable();
        assert!(timestamps.iter().copied().eq(0..appended), "{} of {appended}", timestamps.len());
    }
}

fn open_at(dir: &Path, min_free_bytes: u64, registry: &Registry) -> Journal {
    let config = Config { min_free_bytes, ..Config::default() };
    open(dir, config, Arc::new(ManualClock::at(1_700_000_100)), registry).unwrap()
}

#[test]
#[ignore = "runs as a child of a test above"]
fn child_full_disk() {
    let Some(disk) = SmallDisk::here() else { return };
    let dir = disk.path().join("journal");
    disk.take(SMALL_DISK_MIB / 2);
    let mut load = Load::new(&dir, 0);
    // Fill the disk and continue until many writes have been refused.
    let mut refused = 0;
    while refused < 60 {
        load.append(3000);
        if !load.write_out() {
            refused += 1;
            assert!(!load.journal.healthy());
        }
        let pending: usize = load.writers.iter().map(JournalWriter::pending_points).sum();
        assert!(pending < 1_000_000, "it never took anything again");
    }
    assert!(load.metric("plumbago_journal_refused_total") >= 60.0);
    disk.empty();
    wait_until("it takes points again", || load.write_out());
    assert!(load.journal.healthy());
    for _ in 0..50 {
        load.append(3000);
        wait_until("hand over", || load.write_out());
    }
    load.check(&dir);
}

#[test]
#[ignore = "runs as a child of a test above"]
fn child_least_room() {
    let Some(disk) = SmallDisk::here() else { return };
    let dir = disk.path().join("journal");
    disk.take(SMALL_DISK_MIB / 2);
    let mut load = Load::new(&dir, 16 << 20);
    loop {
        load.append(3000);
        if !load.write_out() {
            break;
        }
    }
    assert!(!load.journal.healthy());
    assert!(!load.write_out());
    disk.empty();
    assert!(load.write_out());
    assert!(load.journal.healthy());
    assert_eq!(load.metric("plumbago_journal_written_points_total"), load.handed as f64);
    load.check(&dir);
}
