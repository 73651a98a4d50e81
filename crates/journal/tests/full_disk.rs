//! A full disk: refused clearly, nothing lost, and on again once there is room.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use common::{Seen, eventually, open, replay_all};
use plumbago_journal::{Config, Journal, JournalWriter};
use plumbago_model::ManualClock;
use plumbago_telemetry::Registry;

const DIR: &str = "PLUMBAGO_JOURNAL_SMALL_DISK";
const SMALL_DISK_MIB: usize = 64;

/// Runs `child_…` in a mount namespace of its own, with a small file system at `DIR`.
fn with_small_disk(child: &str) {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size={SMALL_DISK_MIB}m none \"$1\" || exit 77; exec \"$2\" \"$3\" --exact --nocapture"
    );
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .arg(child)
        .env(DIR, dir.path())
        .output();
    let why = match output {
        Ok(output) if output.status.success() => return,
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("running 1 test") => {
            panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var("CI").as_deref() != Ok("true"), "no small file system to be had: {why}");
    eprintln!("SKIPPED {child}: no small file system to be had: {why}");
}

#[test]
fn a_full_disk_loses_nothing() {
    with_small_disk("child_full_disk");
}

#[test]
fn room_is_left_for_others() {
    with_small_disk("child_least_room");
}

/// Appends points that carry their own place in the order.
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

    /// True when everything was handed over.
    fn hand_over(&mut self) -> bool {
        let mut all = true;
        for writer in &mut self.writers {
            match writer.hand_over() {
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

    /// Closes, opens again and compares.
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

fn fill(path: &Path, mib: usize) {
    std::fs::write(path, vec![1; mib << 20]).unwrap();
}

#[test]
fn child_full_disk() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let filler = Path::new(&dir).join("filler");
    let dir = Path::new(&dir).join("journal");
    fill(&filler, SMALL_DISK_MIB / 2);
    let mut load = Load::new(&dir, 0);
    // To the brim, many times over: after each refusal it opens again and finds a little room.
    let mut refused = 0;
    while refused < 60 {
        load.append(3000);
        if !load.hand_over() {
            refused += 1;
            assert!(!load.journal.healthy());
            std::thread::sleep(Duration::from_millis(30));
        }
        let pending: usize = load.writers.iter().map(JournalWriter::pending_points).sum();
        assert!(pending < 1_000_000, "it never took anything again");
    }
    assert!(load.metric("plumbago_journal_refused_total") >= 60.0);
    std::fs::remove_file(&filler).unwrap();
    eventually("it takes points again", || load.hand_over());
    assert!(load.journal.healthy());
    for _ in 0..50 {
        load.append(3000);
        eventually("hand over", || load.hand_over());
    }
    assert!(load.metric("plumbago_journal_reopened_total") >= 1.0);
    load.check(&dir);
}

#[test]
fn child_least_room() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let filler = Path::new(&dir).join("filler");
    let dir = Path::new(&dir).join("journal");
    fill(&filler, SMALL_DISK_MIB / 2);
    let mut load = Load::new(&dir, 16 << 20);
    loop {
        load.append(3000);
        if !load.hand_over() {
            break;
        }
    }
    assert!(!load.journal.healthy());
    assert!(!load.hand_over());
    std::fs::remove_file(&filler).unwrap();
    assert!(load.hand_over());
    assert!(load.journal.healthy());
    assert_eq!(load.metric("plumbago_journal_reopened_total"), 0.0);
    assert_eq!(load.metric("plumbago_journal_written_points_total"), load.handed as f64);
    load.check(&dir);
}
