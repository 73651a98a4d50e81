//! Tests of the note of a clean close: it is used, it does not fit, or a kill comes at any step around it.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use plumbago_model::ManualClock;
use plumbago_telemetry::{Damage, Registry};
use tempfile::TempDir;

use super::*;
use crate::disk::SystemDisk;
use crate::shared::Shared;
use crate::{Config, JournalError, JournalWriter, Record, ReplayReport, SegmentInfo, lock};

/// Points in each of the three segments of [`write_segments`].
const POINTS: u32 = 100;

/// The real disk with injected faults. It can copy the directory before each operation, as a kill at that moment would
/// leave it.
#[derive(Default)]
struct WatchedDisk {
    dir: PathBuf,
    is_watched: AtomicBool,
    copies: Mutex<Vec<TempDir>>,
    failing_syncs: AtomicU32,
    failing_dir_syncs: AtomicU32,
}

impl WatchedDisk {
    fn step(&self) {
        if self.is_watched.load(Ordering::Relaxed) {
            let copy = copied(&self.dir);
            lock(&self.copies).push(copy);
        }
    }

    fn take_copies(&self) -> Vec<TempDir> {
        std::mem::take(&mut *lock(&self.copies))
    }
}

fn fail(count: &AtomicU32) -> io::Result<()> {
    let fails = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
    if fails { Err(io::Error::other("no answer from the disk")) } else { Ok(()) }
}

impl Disk for WatchedDisk {
    fn create(&self, path: &Path) -> io::Result<File> {
        self.step();
        SystemDisk.create(path)
    }

    fn write(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        self.step();
        SystemDisk.write(file, bytes, at)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        self.step();
        fail(&self.failing_syncs)?;
        SystemDisk.sync(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step();
        SystemDisk.rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step();
        fail(&self.failing_dir_syncs)?;
        SystemDisk.sync_dir(dir)
    }
}

/// A copy of a journal's directory. Zeros at the ends of files become holes.
fn copied(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let target = copy.path().join(entry.file_name());
        let bytes = fs::read(entry.path()).unwrap();
        let data = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        fs::write(&target, &bytes[..data]).unwrap();
        set_len(&target, bytes.len() as u64);
    }
    copy
}

fn set_len(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// The log files of a directory, oldest first.
fn logs(dir: &Path) -> Vec<PathBuf> {
    files::list(dir).unwrap().into_iter().map(|id| dir.join(id.name())).collect()
}

fn has_note(dir: &Path) -> bool {
    dir.join(FILE).exists()
}

/// A directory in which one journal after another is opened.
struct Rig {
    dir: TempDir,
    disk: Arc<WatchedDisk>,
    clock: Arc<ManualClock>,
    registry: Registry,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(WatchedDisk { dir: dir.path().to_owned(), ..WatchedDisk::default() });
        let clock = Arc::new(ManualClock::at(1_700_000_100));
        Self { dir, disk, clock, registry: Registry::new() }
    }

    /// A rig whose journal has three segments and was closed well.
    fn closed() -> Self {
        let mut rig = Self::new();
        let shared = rig.open();
        rig.write_segments(&shared);
        shared.sync().unwrap();
        shared.close();
        assert!(has_note(rig.path()));
        rig
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Opens the journal as a new process would. Dropping it without a close is like a kill.
    fn open(&mut self) -> Arc<Shared> {
        self.registry = Registry::new();
        let disk: Arc<dyn Disk> = self.disk.clone();
        open(self.dir.path(), disk, self.clock.clone(), &self.registry)
    }

    /// Writes a frame to each of three segments. Timestamps rise from 0.
    fn write_segments(&self, shared: &Arc<Shared>) {
        let mut writer = JournalWriter::new(Arc::clone(shared));
        for part in 0..3 {
            write(&mut writer, part * POINTS..(part + 1) * POINTS).unwrap();
            self.clock.advance(300);
            writer.write_out().unwrap();
        }
    }
}

fn open(dir: &Path, disk: Arc<dyn Disk>, clock: Arc<ManualClock>, registry: &Registry) -> Arc<Shared> {
    let config = Config { min_free_bytes: 0, ..Config::default() };
    Arc::new(Shared::open(dir, &config, clock, registry, disk).unwrap())
}

fn write(writer: &mut JournalWriter, timestamps: std::ops::Range<u32>) -> Result<usize, JournalError> {
    timestamps.for_each(|timestamp| {
        writer.point(1, timestamp, 0.5);
    });
    writer.write_out()
}

/// The timestamps of all points.
fn replay(shared: &Shared) -> (Vec<u32>, ReplayReport) {
    let mut seen = Vec::new();
    let mut note = |record: Record<'_>| match record {
        Record::Point { timestamp, .. } => seen.push(timestamp),
        other => panic!("{other:?}"),
    };
    let report = shared.replay(&mut note).unwrap();
    (seen, report)
}

/// What an open of this directory and a replay find.
#[derive(Debug, PartialEq)]
struct Found {
    segments: Vec<SegmentInfo>,
    seen: Vec<u32>,
    report: ReplayReport,
    damaged_files: usize,
    lost_points: u64,
}

/// Opens a directory. Also returns whether the note is still there afterwards: a note that is not used is
/// removed.
fn find(dir: &Path) -> (Found, bool) {
    let registry = Registry::new();
    let clock = Arc::new(ManualClock::at(1_700_000_100));
    let shared = open(dir, Arc::new(SystemDisk), clock, &registry);
    let segments = shared.segments();
    let (seen, report) = replay(&shared);
    let damage = Damage::of(&registry);
    let (damaged_files, lost_points) = (damage.list().len(), damage.lost_points());
    (Found { segments, seen, report, damaged_files, lost_points }, has_note(dir))
}

/// What an open of a copy of this directory finds without a note.
fn find_by_reading(dir: &Path) -> Found {
    let copy = copied(dir);
    remove_file(&copy.path().join(FILE)).unwrap();
    find(copy.path()).0
}

#[test]
fn after_a_clean_close_no_log_file_is_read() {
    let mut rig = Rig::new();
    let shared = rig.open();
    rig.write_segments(&shared);
    shared.sync().unwrap();
    let (segments, sequence) = (shared.segments(), shared.last_sequence());
    shared.close();
    // The lengths stay, but there is not one sound frame.
    for log in logs(rig.path()) {
        fs::write(&log, vec![0xa5_u8; len(&log) as usize]).unwrap();
    }
    let shared = rig.open();
    assert_eq!(segments.len(), 3);
    assert_eq!((shared.segments(), shared.last_sequence()), (segments, sequence));
    assert!(has_note(rig.path()) && Damage::of(&rig.registry).is_empty());
    // Only a replay finds the damage, because it reads the records.
    let (seen, report) = replay(&shared);
    assert_eq!((seen.len(), report.corrupt_frames), (0, 3));
    let damage = Damage::of(&rig.registry);
    let named: Vec<PathBuf> = damage.list().into_iter().map(|found| found.path).collect();
    assert_eq!((named, damage.lost_points()), (logs(rig.path()), u64::from(3 * POINTS)));
}

#[test]
fn a_damaged_last_frame_is_found_by_a_replay() {
    let mut rig = Rig::closed();
    let log = logs(rig.path()).remove(1);
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    fs::write(&log, bytes).unwrap();
    let shared = rig.open();
    let (seen, report) = replay(&shared);
    assert!(seen.into_iter().eq((0..POINTS).chain(2 * POINTS..3 * POINTS)));
    assert_eq!(report.corrupt_frames, 1);
    let damage = Damage::of(&rig.registry);
    assert_eq!((damage.list().len(), damage.list()[0].path == log), (1, true));
    assert_eq!(damage.lost_points(), u64::from(POINTS));
}

#[test]
fn a_note_that_does_not_fit_is_removed_and_the_files_are_read() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 6] = [
        ("a missing file", |dir| fs::remove_file(&logs(dir)[1]).unwrap()),
        ("a shorter file", |dir| set_len(&logs(dir)[0], len(&logs(dir)[0]) - 8)),
        ("a longer file", |dir| set_len(&logs(dir)[2], len(&logs(dir)[2]) + 4096)),
        ("one file more", |dir| {
            fs::copy(&logs(dir)[0], dir.join("0000000001-0001.log")).unwrap();
        }),
        ("a failed sync", |dir| fs::write(logs(dir)[2].with_extension("unsynced"), "0\n").unwrap()),
        ("a note that is no text", |dir| fs::write(dir.join(FILE), [0xff_u8; 100]).unwrap()),
    ];
    for (what, change) in changes {
        let rig = Rig::closed();
        change(rig.path());
        let expected = find_by_reading(rig.path());
        assert_eq!(find(rig.path()), (expected, false), "{what}");
    }
    // A later version, with a checksum that is right.
    let rig = Rig::closed();
    let text = fs::read_to_string(rig.path().join(FILE)).unwrap();
    let content =
        text.trim_end().rsplit_once('\n').unwrap().0.replacen(TITLE, "plumbago-journal-closed 2", 1);
    let crc = crc32fast::hash(content.as_bytes());
    fs::write(rig.path().join(FILE), format!("{content}\n{crc:08x}\n")).unwrap();
    assert!(matches!(read(rig.path()), Err(Unfit::Version)));
    let expected = find_by_reading(rig.path());
    assert_eq!(expected.seen.len(), 3 * POINTS as usize);
    assert_eq!(find(rig.path()), (expected, false));
}

#[test]
fn a_note_is_read_back_or_refused() {
    let id = |segment, part| FileId { segment, part };
    let file = |end, first_sequence| ClosedFile { end, first_sequence };
    let listed = [(id(5, 1), file(4096, 4096)), (id(5, 2), file(64, 1 << 41)), (id(6, 1), file(8, 1))];
    for files in [BTreeMap::new(), BTreeMap::from(listed)] {
        let closed = Closed { last_sequence: 1 << 42, files };
        let text = closed.text();
        assert_eq!(Closed::parse(&text).unwrap(), closed);
        for at in 0..text.len() {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            assert!(Closed::parse(&String::from_utf8_lossy(&damaged)).is_err(), "byte {at}");
            assert!(Closed::parse(&text[..at]).is_err(), "{at} bytes");
        }
    }
}

#[test]
fn a_kill_at_any_step_of_a_close_or_of_the_next_run_loses_nothing() {
    let mut rig = Rig::new();
    let shared = rig.open();
    rig.write_segments(&shared);
    rig.disk.is_watched.store(true, Ordering::Relaxed);
    shared.sync().unwrap();
    shared.close();
    let closing = rig.disk.take_copies();
    assert!(closing.len() >= 9, "{}", closing.len());
    // Only the last copy has the note, because the note is renamed to its final name just before the
    // directory is synced.
    let noted: Vec<usize> = (0..closing.len()).filter(|at| has_note(closing[*at].path())).collect();
    assert_eq!(noted, [closing.len() - 1]);

    let shared = rig.open();
    let mut writer = JournalWriter::new(shared.clone());
    write(&mut writer, 3 * POINTS..4 * POINTS).unwrap();
    shared.sync().unwrap();
    drop(writer);
    shared.close();
    let running = rig.disk.take_copies();
    rig.disk.is_watched.store(false, Ordering::Relaxed);
    // The removal of the note is synced before anything else happens.
    assert!(!has_note(running[0].path()) && logs(running[0].path()).len() == 3);
    assert_eq!(running.iter().filter(|copy| has_note(copy.path())).count(), 1);

    for (at, copy) in closing.iter().chain(&running).enumerate() {
        let is_noted = has_note(copy.path());
        let expected = find_by_reading(copy.path());
        let (found, is_used) = find(copy.path());
        assert_eq!((&found, is_used), (&expected, is_noted), "step {at}");
        let points = found.seen.len() as u32;
        assert!(points >= 3 * POINTS && found.seen.into_iter().eq(0..points), "step {at}: {points} points");
        assert_eq!(found.damaged_files, 0, "step {at}");
    }
    assert_eq!(find(rig.path()).0.seen.len(), 4 * POINTS as usize);
}

#[test]
fn the_note_is_removed_before_the_first_change() {
    let mut rig = Rig::closed();
    // An open alone changes nothing.
    drop(rig.open());
    assert!(has_note(rig.path()));
    let shared = rig.open();
    let before = logs(rig.path());
    let mut writer = JournalWriter::new(shared.clone());
    rig.disk.failing_dir_syncs.store(1, Ordering::Relaxed);
    let error = write(&mut writer, 3 * POINTS..4 * POINTS).unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert_eq!(logs(rig.path()), before);
    assert_eq!(writer.write_out().unwrap(), POINTS as usize);
    assert!(!has_note(rig.path()));
    drop((writer, shared));
    let (found, is_used) = find(rig.path());
    assert!(!is_used && found.seen.into_iter().eq(0..4 * POINTS));

    let mut rig = Rig::closed();
    let shared = rig.open();
    let segment = shared.segments()[1].number;
    rig.disk.failing_dir_syncs.store(1, Ordering::Relaxed);
    assert!(shared.drop_before(segment).is_err());
    assert_eq!((shared.segments().len(), logs(rig.path()).len()), (3, 3));
    assert_eq!(shared.drop_before(segment).unwrap(), 1);
    assert!(!has_note(rig.path()));
    drop(shared);
    assert!(find(rig.path()).0.seen.into_iter().eq(POINTS..3 * POINTS));
}

#[test]
fn there_is_no_note_if_a_sync_fails() {
    // Two failed syncs: of the records, and of their second copy. One failed sync: of the note.
    for (failing_syncs, is_synced) in [(2, false), (1, true)] {
        let mut rig = Rig::new();
        let shared = rig.open();
        rig.write_segments(&shared);
        if is_synced {
            shared.sync().unwrap();
        }
        rig.disk.failing_syncs.store(failing_syncs, Ordering::Relaxed);
        assert_eq!(shared.sync().is_ok(), is_synced);
        shared.close();
        assert!(!has_note(rig.path()) && !rig.path().join(UNFINISHED).exists());
        let (found, is_used) = find(rig.path());
        assert!(!is_used && found.seen.into_iter().eq(0..3 * POINTS));
    }
}

/// An unfinished note that an interrupted write has left is overwritten.
#[test]
fn an_unfinished_note_is_no_note() {
    let mut rig = Rig::closed();
    fs::rename(rig.path().join(FILE), rig.path().join(UNFINISHED)).unwrap();
    let log = &logs(rig.path())[0];
    let file = File::options().write(true).open(log).unwrap();
    file.write_all_at(&[0xa5; 100], 40).unwrap();
    let shared = rig.open();
    assert_eq!(Damage::of(&rig.registry).list().len(), 1);
    shared.close();
    assert!(has_note(rig.path()) && !rig.path().join(UNFINISHED).exists());
}
