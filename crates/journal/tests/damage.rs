//! Damaged files: holes after power loss, flipped bytes.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{Fixture, Seen, replay, replay_all};
use plumbago_journal::{Journal, JournalError};

const PAGE: u64 = 4096;

/// Frames of very different sizes, and what they hold.
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
        writer.hand_over().unwrap();
    }
    expected
}

/// The one log file and where its data ends.
fn log_of(dir: &Path) -> (PathBuf, u64) {
    let log = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "jnl"))
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
            // Most of a log is a hole, which need not be copied.
            let bytes = std::fs::read(&path).unwrap();
            let data = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            std::fs::write(&target, &bytes[..data]).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&target).unwrap();
            file.set_len(bytes.len() as u64).unwrap();
        }
    }
}

/// Every page of the log in turn is one that did not reach the disk: what lies before it is there,
/// nothing else, and the journal works again.
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
    assert!(repaired > 0, "fjall has opened them all by itself: is the repair needed still?");
}

#[test]
fn a_flipped_byte_in_the_log_is_a_refusal_that_names_the_file() {
    let mut fixture = Fixture::new();
    {
        let journal = fixture.open();
        write_frames(&journal, 30);
    }
    let (log, end) = log_of(fixture.dir.path());
    flip(&log, end / 2);
    let error = fixture.try_open().err().unwrap();
    assert!(matches!(&error, JournalError::Corrupt { path, .. } if *path == log), "{error}");
}

fn flip(file: &Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// Damage in what fjall has moved into a table: that place is lost, with up to two frames before it.
#[test]
fn a_flipped_byte_in_a_table_costs_that_place_only() {
    let mut fixture = Fixture::new();
    let expected: Vec<Seen> = {
        let journal = fixture.open();
        let mut writer = journal.writer();
        let points = (0..1_200_000u32).map(|i| {
            if writer.is_full() {
                writer.hand_over().unwrap();
            }
            Seen::Point(writer.point(i, i, 0.5), i, i, 0.5)
        });
        points.collect()
    };
    drop(fixture.open());
    let table = largest_table(fixture.dir.path());
    let len = table.metadata().unwrap().len();
    for part in [3, 5] {
        flip(&table, len * part / 10);
    }
    let journal = fixture.open();
    let (seen, report) = replay(&journal);
    assert_eq!(report.corrupt_frames, 2);
    assert!(seen.len() < expected.len());
    assert_eq!(fixture.metric("plumbago_journal_corrupt_frames_total"), 2.0);
    assert!(expected.len() - seen.len() <= 2 * 3 * 4096, "{} of {}", seen.len(), expected.len());
    let mut all = expected.iter();
    assert!(seen.iter().all(|record| all.any(|other| other == record)), "wrong records");
}

fn largest_table(dir: &Path) -> PathBuf {
    let mut tables: Vec<PathBuf> = Vec::new();
    for keyspace in std::fs::read_dir(dir.join("keyspaces")).unwrap() {
        let keyspace = keyspace.unwrap().path();
        if keyspace.file_name().unwrap() != "0" {
            tables.extend(std::fs::read_dir(keyspace.join("tables")).unwrap().map(|e| e.unwrap().path()));
        }
    }
    tables.into_iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}
