//! Damaged files: unfinished writes, holes after power loss, flipped bytes.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use plumbago_journal::Journal;
use plumbago_telemetry::Damage;

use crate::common::{Fixture, Seen, replay, replay_all};

const PAGE: u64 = 4096;

/// Writes frames of different sizes and returns their records.
fn write_frames(journal: &Journal, frames: u32) -> Vec<Seen> {
    let mut writer = journal.writer();
    let mut expected = Vec::new();
    for frame in 0..frames {
        let name = format!("servers.web{frame}.load");
        expected.push(Seen::Creation(writer.creation(frame, &name), frame, name));
        for i in 0..(frame * 97 % 1200) {
            let value = f64::from(i) + 0.25;
            expected.push(Seen::Point(writer.point(frame, 1000 + i, value), frame, 1000 + i, value));
        }
        writer.write_out().unwrap();
    }
    expected
}

/// The newest log file, and the offset at which its data ends.
fn log_of(dir: &Path) -> (PathBuf, u64) {
    let log = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .max()
        .unwrap();
    let bytes = std::fs::read(&log).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
    (log, end)
}

fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_all(&path, &target);
        } else {
            // Most of a log file is reserved space, which need not be copied.
            let bytes = std::fs::read(&path).unwrap();
            let data = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            std::fs::write(&target, &bytes[..data]).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&target).unwrap();
            file.set_len(bytes.len() as u64).unwrap();
        }
    }
}

/// Overwrites every second page of the log with zeros, one at a time, as if it had not reached the disk. All
/// records before the page are replayed and none after it. Afterwards the journal accepts writes.
#[test]
fn a_hole_in_the_log_is_cut() {
    let mut whole = Fixture::new();
    let expected = {
        let journal = whole.open();
        write_frames(&journal, 30)
    };
    let (_, end) = log_of(whole.dir.path());
    let mut repaired = 0;
    for page in (0..end.div_ceil(PAGE) - 1).step_by(2) {
        let mut fixture = Fixture::new();
        copy_all(whole.dir.path(), fixture.dir.path());
        let (log, _) = log_of(fixture.dir.path());
        let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
        file.write_all_at(&[0; PAGE as usize], page * PAGE).unwrap();
        // The list says what was synced; in this test nothing was.
        std::fs::remove_file(fixture.dir.path().join("files")).unwrap();
        let journal = fixture.open();
        let seen = replay_all(&journal);
        assert!(expected.starts_with(&seen), "page {page}");
        assert!(
            seen.len() as u64 * 16 + 3 * 65536 > page * PAGE,
            "page {page}: only {} are left",
            seen.len()
        );
        if fixture.metric("plumbago_journal_torn_tails_total") > 0.0 {
            repaired += 1;
            let name = log.file_name().unwrap().to_str().unwrap();
            assert!(fixture.dir.path().join(format!("{name}.torn-1")).exists());
        }
        let mut writer = journal.writer();
        let number = writer.point(1, 2, 3.0);
        assert!(seen.last().is_none_or(|last| last.sequence() < number));
        drop((writer, journal));
        assert_eq!(replay_all(&fixture.open()).len(), seen.len() + 1);
    }
    assert!(repaired > 0, "no file was cut");
}

/// A flipped byte anywhere in the newest file: only its frame is lost, and the damage is named and counted.
#[test]
fn a_flipped_byte_in_the_log_costs_its_frame_only() {
    let mut whole = Fixture::new();
    let expected = {
        let journal = whole.open();
        write_frames(&journal, 30)
    };
    let (_, end) = log_of(whole.dir.path());
    let points = |records: &[Seen]| records.iter().filter(|r| matches!(r, Seen::Point(..))).count() as u64;
    for at in (0..end).step_by(5003).chain([end - 20]) {
        let mut fixture = Fixture::new();
        copy_all(whole.dir.path(), fixture.dir.path());
        let (log, _) = log_of(fixture.dir.path());
        flip(&log, at);
        let journal = fixture.open();
        let (seen, _) = replay(&journal);
        let mut all = expected.iter();
        assert!(seen.iter().all(|record| all.any(|other| other == record)), "{at}: wrong records");
        let lost = points(&expected) - points(&seen);
        assert!(seen.len() < expected.len() && lost <= 1200, "{at}: {lost} points are lost");
        let damage = Damage::of(&fixture.registry);
        assert_eq!(damage.list().iter().map(|found| &found.path).collect::<Vec<_>>(), [&log], "{at}");
        assert!((lost..=lost + 20).contains(&damage.lost_points()), "{at}: {lost}, {damage:?}");
        assert_eq!(fixture.metric("plumbago_journal_torn_tails_total"), 0.0, "{at}");
        drop(journal);
        assert_eq!(replay(&fixture.open()).0, seen, "{at}");
    }
}

fn flip(file: &Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// Damage in a file that is not the newest one: only the damaged frames are lost.
#[test]
fn a_flipped_byte_in_an_older_file_costs_that_place_only() {
    let mut fixture = Fixture::new();
    let mut expected: Vec<Seen> = {
        let journal = fixture.open();
        let mut writer = journal.writer();
        let points = (0..1_200_000u32).map(|i| {
            if writer.is_full() {
                writer.write_out().unwrap();
            }
            Seen::Point(writer.point(i, i, 0.5), i, i, 0.5)
        });
        points.collect()
    };
    let (older, len) = log_of(fixture.dir.path());
    expected.push(Seen::Point(fixture.open().writer().point(1, 2, 3.0), 1, 2, 3.0));
    for part in [3, 5] {
        flip(&older, len * part / 10);
    }
    let journal = fixture.open();
    let (seen, report) = replay(&journal);
    assert_eq!(report.corrupt_frames, 2);
    assert!(seen.len() < expected.len());
    assert_eq!(seen.last(), expected.last());
    assert_eq!(fixture.metric("plumbago_journal_corrupt_frames_total"), 2.0);
    assert!(expected.len() - seen.len() <= 2 * 4096, "{} of {}", seen.len(), expected.len());
    let mut all = expected.iter();
    assert!(seen.iter().all(|record| all.any(|other| other == record)), "wrong records");
    assert!(older.exists());
}

/// A missing file, or one that ends before what was synced, is named and reported with the largest number of
/// points that can be lost.
#[test]
fn a_synced_end_or_file_that_is_missing_is_said() {
    let mut whole = Fixture::new();
    let expected = {
        let journal = whole.open();
        let expected = write_frames(&journal, 12);
        journal.close().unwrap();
        expected
    };
    let (_, end) = log_of(whole.dir.path());
    for cut in [None, Some(0), Some(end / 2), Some(end - 3)] {
        let mut fixture = Fixture::new();
        copy_all(whole.dir.path(), fixture.dir.path());
        let (log, _) = log_of(fixture.dir.path());
        match cut {
            None => std::fs::remove_file(&log).unwrap(),
            Some(len) => std::fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(len).unwrap(),
        }
        let journal = fixture.open();
        let seen = replay_all(&journal);
        let damage = Damage::of(&fixture.registry);
        assert_eq!(damage.list().iter().map(|found| &found.path).collect::<Vec<_>>(), [&log], "{cut:?}");
        let lost = expected.len() - seen.len();
        assert!(lost > 0 && damage.lost_points() as usize >= lost - 12, "{cut:?}: {lost}, {damage:?}");
        drop(journal);
        fixture.open();
        assert!(Damage::of(&fixture.registry).is_empty(), "{cut:?}: said again");
    }
}

/// A kill or power loss during a write, at any byte of it: the frames before it are replayed, and the partial
/// frame is copied to another file and cut off.
#[test]
fn an_unfinished_write_is_cut_off() {
    let mut whole = Fixture::new();
    let expected = {
        let journal = whole.open();
        write_frames(&journal, 12)
    };
    let (_, end) = log_of(whole.dir.path());
    for cut in (1..end).rev().step_by(4003) {
        let mut fixture = Fixture::new();
        copy_all(whole.dir.path(), fixture.dir.path());
        let (log, _) = log_of(fixture.dir.path());
        let file = std::fs::OpenOptions::new().write(true).open(&log).unwrap();
        file.set_len(cut).unwrap();
        let journal = fixture.open();
        let seen = replay_all(&journal);
        assert!(expected.starts_with(&seen), "cut at {cut}");
        assert!(seen.len() as u64 * 16 + 65536 > cut, "cut at {cut}: only {} are left", seen.len());
        let copy = log.with_extension("log.torn-1");
        assert_eq!(copy.exists(), fixture.metric("plumbago_journal_torn_tails_total") == 1.0);
        drop(journal);
        assert_eq!(replay_all(&fixture.open()), seen);
        assert_eq!(fixture.metric("plumbago_journal_torn_tails_total"), 0.0);
    }
}
