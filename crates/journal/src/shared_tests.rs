//! Failing disks: data that was not synced is never treated as durable.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, AtomicU32};

use plumbago_model::ManualClock;

use super::*;
use crate::JournalWriter;
use crate::files::LogFile;

/// A disk with injected faults. It records the synced content, so that a test can simulate power loss.
#[derive(Default)]
struct BadDisk {
    /// Number of syncs that will fail.
    failing_syncs: AtomicU32,
    failing_dir_syncs: AtomicU32,
    /// Number of writes that will stop half-way.
    short_writes: AtomicU32,
    /// Whether a failed sync also loses the pages, so that they read as zeros.
    drops_pages: AtomicBool,
    /// Synced content of files, by inode.
    durable: Mutex<BTreeMap<u64, Vec<u8>>>,
    linked: Mutex<BTreeSet<u64>>,
}

fn take(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

impl Disk for BadDisk {
    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        if take(&self.short_writes) {
            file.write_all_at(&bytes[..bytes.len() / 2], at)?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write_all_at(bytes, at)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        let inode = file.metadata()?.ino();
        let mut durable = lock(&self.durable);
        if !take(&self.failing_syncs) {
            durable.insert(inode, content(file));
            return Ok(());
        }
        if self.drops_pages.load(Ordering::Relaxed) {
            let synced = durable
                .get(&inode)
                .map_or(0, |bytes| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
            let lost = content(file).len() - synced;
            file.write_all_at(&vec![0; lost], synced as u64)?;
        }
        Err(io::Error::other("no answer from the disk"))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if take(&self.failing_dir_syncs) {
            return Err(io::Error::other("no answer from the disk"));
        }
        let inodes = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.metadata()?.ino()));
        *lock(&self.linked) = inodes.collect::<io::Result<_>>()?;
        Ok(())
    }
}

impl BadDisk {
    /// Simulates power loss: puts the directory into its last synced state.
    fn cut_power(&self, dir: &Path) {
        let (durable, linked) = (lock(&self.durable), lock(&self.linked));
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let inode = path.metadata().unwrap().ino();
            match durable.get(&inode).filter(|_| linked.contains(&inode)) {
                Some(bytes) => std::fs::write(&path, bytes).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
        }
    }
}

struct Setup {
    dir: tempfile::TempDir,
    disk: Arc<BadDisk>,
    registry: Registry,
    shared: Arc<Shared>,
    writer: JournalWriter,
    /// Timestamp of the next point.
    next: u32,
}

impl Setup {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(BadDisk::default());
        let registry = Registry::new();
        let shared = open(&dir, &disk, &registry).unwrap();
        let writer = JournalWriter::new(shared.clone());
        Self { dir, disk, registry, shared, writer, next: 0 }
    }

    /// Appends points with increasing timestamps and writes them.
    fn write(&mut self, points: u32) -> Result<usize, JournalError> {
        for _ in 0..points {
            self.writer.point(1, self.next, 0.5);
            self.next += 1;
        }
        self.writer.write_out()
    }

    /// Simulates `kill -9` and a start, with power loss in between if `power_cut` is set. Returns the
    /// timestamps of the replayed points.
    fn restart(&mut self, power_cut: bool) -> Vec<u32> {
        // Releases the lock without the work of a clean close.
        lock(&self.shared.log).state = State::Poisoned { reason: "killed".to_owned() };
        self.shared.close();
        if power_cut {
            self.disk.cut_power(self.dir.path());
        }
        self.registry = Registry::new();
        self.shared = open(&self.dir, &self.disk, &self.registry).unwrap();
        self.writer = JournalWriter::new(self.shared.clone());
        let mut seen = Vec::new();
        let mut note = |record: Record<'_>| match record {
            Record::Point { timestamp, .. } => seen.push(timestamp),
            other => panic!("{other:?}"),
        };
        self.shared.replay(&mut note).unwrap();
        seen
    }

    fn metric(&self, name: &str) -> f64 {
        self.registry.value(name).unwrap()
    }
}

fn open(
    dir: &tempfile::TempDir,
    disk: &Arc<BadDisk>,
    registry: &Registry,
) -> Result<Arc<Shared>, JournalError> {
    let clock = Arc::new(ManualClock::at(1_700_000_100));
    let disk: Arc<dyn Disk> = disk.clone();
    Shared::open(dir.path(), &Config::default(), clock, registry, disk).map(Arc::new)
}

fn all(end: u32) -> Vec<u32> {
    (0..end).collect()
}

#[test]
fn after_a_failed_sync_everything_is_written_again() {
    let mut setup = Setup::new();
    setup.write(1000).unwrap();
    setup.shared.sync().unwrap();
    setup.write(1000).unwrap();
    setup.disk.failing_syncs.store(1, Ordering::Relaxed);
    // The sync fails. The same call writes the data again and syncs it.
    setup.shared.sync().unwrap();
    assert!(setup.shared.healthy());
    assert_eq!(setup.metric("plumbago_journal_sync_errors_total"), 1.0);
    assert_eq!(setup.metric("plumbago_journal_rewrites_total"), 1.0);
    assert_eq!(setup.restart(true), all(2000));
}

#[test]
fn a_later_clean_sync_does_not_hide_a_failed_one() {
    let mut setup = Setup::new();
    setup.write(10).unwrap();
    setup.disk.failing_syncs.store(2, Ordering::Relaxed);
    let error = setup.shared.sync().unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(!setup.shared.healthy());
    let error = setup.write(10).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("sync"), "{error}");
    assert_eq!(setup.metric("plumbago_journal_healthy"), 0.0);
    assert_eq!(setup.writer.pending_points(), 10);

    Chores::housekeeping(&*setup.shared);
    assert!(setup.shared.healthy());
    assert_eq!(setup.write(0).unwrap(), 10);
    setup.shared.sync().unwrap();
    assert_eq!(setup.restart(true), all(20));
}

#[test]
fn what_cannot_be_read_back_is_loud_and_final() {
    let mut setup = Setup::new();
    setup.write(1000).unwrap();
    setup.shared.sync().unwrap();
    setup.write(1000).unwrap();
    setup.disk.drops_pages.store(true, Ordering::Relaxed);
    setup.disk.failing_syncs.store(1, Ordering::Relaxed);
    let error = setup.shared.sync().unwrap_err();
    assert!(matches!(error, JournalError::Poisoned { .. }) && !error.is_transient(), "{error}");
    Chores::housekeeping(&*setup.shared);
    assert!(matches!(setup.write(1), Err(JournalError::Poisoned { .. })));
    assert!(matches!(setup.shared.sync(), Err(JournalError::Poisoned { .. })));
    assert!(!setup.shared.healthy());
    assert!(setup.shared.trouble().unwrap().contains("read back"));
    assert_eq!(setup.writer.pending_points(), 1);
    assert_eq!(setup.metric("plumbago_journal_sync_errors_total"), 1.0);
    assert_eq!(setup.metric("plumbago_journal_written_points_total"), 2000.0);
    assert_eq!(setup.metric("plumbago_journal_healthy"), 0.0);
    assert_eq!(setup.restart(true), all(1000));
}

/// The process is killed between the failed sync and the next attempt. The kernel still returns data that is
/// not on the disk, and syncs of that data succeed.
#[test]
fn a_restart_does_not_hide_a_failed_sync() {
    let mut setup = Setup::new();
    setup.write(100).unwrap();
    setup.shared.sync().unwrap();
    setup.write(100).unwrap();
    setup.disk.failing_syncs.store(2, Ordering::Relaxed);
    setup.shared.sync().unwrap_err();
    assert_eq!(setup.restart(false), all(200));
    assert_eq!(setup.metric("plumbago_journal_torn_tails_total"), 0.0);
    assert_eq!(setup.metric("plumbago_journal_corrupt_frames_total"), 0.0);
    assert_eq!(setup.restart(true), all(200));
}

/// Nothing was synced before the kill, and the sync at the next start fails once.
#[test]
fn a_start_syncs_what_it_finds() {
    let mut setup = Setup::new();
    setup.write(100).unwrap();
    setup.disk.failing_syncs.store(1, Ordering::Relaxed);
    assert_eq!(setup.restart(false), all(100));
    assert_eq!(setup.restart(true), all(100));
}

#[test]
fn a_file_whose_name_is_not_on_the_disk_is_not_synced() {
    let mut setup = Setup::new();
    setup.write(100).unwrap();
    setup.disk.failing_dir_syncs.store(2, Ordering::Relaxed);
    setup.shared.sync().unwrap_err();
    assert!(!setup.shared.healthy());
    Chores::housekeeping(&*setup.shared);
    assert!(setup.shared.healthy());
    assert_eq!(setup.restart(true), all(100));
}

#[test]
fn a_short_write_is_written_over() {
    let mut setup = Setup::new();
    for round in 0..20 {
        setup.disk.short_writes.store(1, Ordering::Relaxed);
        let error = setup.write(round * 100 + 1).unwrap_err();
        assert!(error.is_transient(), "{error}");
        assert!(!setup.shared.healthy());
        setup.write(0).unwrap();
        assert!(setup.shared.healthy());
    }
    let points = setup.next;
    assert_eq!(setup.restart(false), all(points));
    // The same, but with the short write as the last write before the restart.
    setup.write(10).unwrap();
    setup.disk.short_writes.store(1, Ordering::Relaxed);
    setup.write(2000).unwrap_err();
    assert_eq!(setup.restart(false), all(points + 10));
    assert_eq!(setup.metric("plumbago_journal_torn_tails_total"), 1.0);
}

/// Random faults between writes: after power loss, every synced point is replayed once and in order.
#[test]
fn no_fault_takes_what_was_synced() {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    for seed in 0..60 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut setup = Setup::new();
        let mut synced = 0;
        for _ in 0..40 {
            let faults = [&setup.disk.failing_syncs, &setup.disk.failing_dir_syncs, &setup.disk.short_writes];
            if rng.random_bool(0.3) {
                faults[rng.random_range(0..3)].store(rng.random_range(0..4), Ordering::Relaxed);
            }
            let _ = setup.write(rng.random_range(0..300));
            if rng.random_bool(0.5) && setup.shared.sync().is_ok() {
                synced = setup.next - setup.writer.pending_points() as u32;
            }
            if rng.random_bool(0.2) {
                for fault in
                    [&setup.disk.failing_syncs, &setup.disk.failing_dir_syncs, &setup.disk.short_writes]
                {
                    fault.store(0, Ordering::Relaxed);
                }
                let seen = setup.restart(rng.random_bool(0.5));
                assert!(seen.len() >= synced as usize, "seed {seed}: {} of {synced}", seen.len());
                assert_eq!(seen, all(seen.len() as u32), "seed {seed}");
                setup.next = seen.len() as u32;
                // Opening the journal syncs everything that it replays.
                synced = setup.next;
            }
        }
    }
}

/// A position stays valid when a failed sync moves the records after it to another file.
#[test]
fn records_that_were_written_again_are_read_again() {
    let mut setup = Setup::new();
    setup.write(1000).unwrap();
    setup.shared.sync().unwrap();
    setup.write(1000).unwrap();
    let mut seen = Vec::new();
    let read = |setup: &Setup, position, seen: &mut Vec<u32>| {
        let mut note = |record: Record<'_>| match record {
            Record::Point { timestamp, .. } => seen.push(timestamp),
            other => panic!("{other:?}"),
        };
        setup.shared.read_again(position, u64::MAX, &mut note).unwrap()
    };
    let (position, is_end) = read(&setup, Position::default(), &mut seen);
    assert!(is_end && seen == all(2000));
    setup.disk.failing_syncs.store(1, Ordering::Relaxed);
    setup.shared.sync().unwrap();
    setup.write(1000).unwrap();
    read(&setup, position, &mut seen);
    // The data that the failed sync covered is visited twice, so that nothing is missed.
    let expected: Vec<u32> = (0..2000).chain(1000..3000).collect();
    assert_eq!(seen, expected);
}

/// Housekeeping may release the reserved space at the end of a file while the file is being read.
#[test]
fn a_file_is_read_while_it_is_closed() {
    const POINTS: u32 = 100_000; // more than the reader keeps in memory
    let mut setup = Setup::new();
    setup.write(POINTS).unwrap();
    let mut points = 0;
    let mut note = |_: Record<'_>| {
        if points == 0 {
            lock(&setup.shared.log).files.values_mut().for_each(LogFile::seal);
        }
        points += 1;
    };
    let (_, is_end) = setup.shared.read_again(Position::default(), u64::MAX, &mut note).unwrap();
    assert!(is_end);
    assert_eq!(points, POINTS);
}
