//! A directory of format 1, which was a fjall database, is converted and replayed.
//!
//! `fixtures/journal-1` was written by the last version with that format (commit 06b42e0). Three processes
//! ran one after the other, each with two writers and 40 rounds 30 s apart, as in [`expected`]. After the
//! first process, `drop_before` removed all but its last two segments.

use std::path::{Path, PathBuf};

use crate::common::{Fixture, Seen, replay_all};

fn fixture_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/journal-1")
}

/// Every record in the fixture.
fn expected() -> Vec<Seen> {
    let mut records = Vec::new();
    for process in 0..3u32 {
        // The segments with the first 21 rounds of the first process were dropped.
        for round in if process == 0 { 21..40 } else { 0..40u32 } {
            for shard in 0..2 {
                let metric = process * 1000 + round / 10 * 10 + shard;
                let mut sequence = 4096 * u64::from(1 + process * 80 + round * 2 + shard);
                let mut push = |make: &dyn Fn(u64) -> Seen| {
                    records.push(make(sequence));
                    sequence += 1;
                };
                if round % 10 == 0 {
                    push(&|sequence| Seen::Creation(sequence, metric, format!("servers.web{metric}.load")));
                }
                for k in 0..round {
                    let timestamp = 1_700_000_100 + process * 1200 + round * 30 + k;
                    let value = f64::from(metric) + f64::from(k) / 4.0;
                    push(&|sequence| Seen::Point(sequence, metric, timestamp, value));
                }
                if round == 39 {
                    push(&|sequence| Seen::Removal(sequence, metric));
                }
            }
        }
    }
    records
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// Copies the fixture and creates fjall's empty directories, which git does not store.
fn copy_fixture(to: &Path) {
    copy(&fixture_dir(), to);
    for keyspace in ["0", "1", "2"] {
        std::fs::create_dir_all(to.join("keyspaces").join(keyspace).join("tables")).unwrap();
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_record_of_format_1_is_replayed() {
    let mut fixture = Fixture::new();
    copy_fixture(fixture.dir.path());
    let journal = fixture.open();
    assert_eq!(replay_all(&journal), expected());
    let numbers: Vec<u32> = journal.segments().iter().map(|segment| segment.number).collect();
    assert_eq!(numbers, (5_666_669..=5_666_678).collect::<Vec<_>>());

    let last = expected().last().unwrap().sequence();
    let mut writer = journal.writer();
    assert!(writer.point(1, 2, 3.0) > last);
    drop((writer, journal));

    // Only files of the new format are left, and the points are still there.
    let left = names(fixture.dir.path());
    assert!(
        left.iter()
            .all(|name| name.ends_with(".log")
                || ["files", "lock", "plumbago-format"].contains(&name.as_str())),
        "{left:?}"
    );
    let journal = fixture.open();
    assert_eq!(replay_all(&journal).len(), expected().len() + 1);
    journal.drop_before(5_666_675).unwrap();
    assert_eq!(journal.segments().len(), 4);
}

/// A conversion that was interrupted by a kill starts again.
#[test]
fn an_interrupted_conversion_is_repeated() {
    let mut fixture = Fixture::new();
    copy_fixture(fixture.dir.path());
    drop(fixture.open());
    copy_fixture(fixture.dir.path());
    let log = fixture.dir.path().join("0005666670-0001.log");
    std::fs::write(&log, b"half a file").unwrap();
    assert_eq!(replay_all(&fixture.open()), expected());
}

/// The process was killed after it had written the new version and before it had removed all old files.
#[test]
fn what_is_left_of_format_1_is_removed() {
    let mut fixture = Fixture::new();
    copy_fixture(fixture.dir.path());
    drop(fixture.open());
    copy(&fixture_dir().join("keyspaces"), &fixture.dir.path().join("keyspaces"));
    std::fs::copy(fixture_dir().join("0.jnl"), fixture.dir.path().join("0.jnl")).unwrap();
    assert_eq!(replay_all(&fixture.open()), expected());
    assert!(!fixture.dir.path().join("keyspaces").exists());
    assert!(!fixture.dir.path().join("0.jnl").exists());
}
