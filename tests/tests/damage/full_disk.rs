//! Damage while the disk is full. A start reports the damage, or the full disk. It leaves no partial copies
//! behind, however often it is repeated. When there is space again, a start has the same result as if the
//! disk had never been full.
//!
//! `PLUMBAGO_FULL_DISK_CASES` sets the number of cases, `PLUMBAGO_SEED` the seed.

use std::path::Path;

use plumbago_tests::counters::JOURNAL_WRITTEN;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::number;
use plumbago_tests::send::Point;
use plumbago_tests::small_disk::{SmallDisk, with_small_disk};
use plumbago_tests::wait::wait_until;

use super::files::files;
use super::{Case, END, Model, Outcome, cases, fill, missing, seed, setup, tail};

/// Number of cases in an ordinary run. Each has at least three starts.
const CASES: usize = 24;
/// Number of starts: a service manager repeats a failed start.
const STARTS: usize = 2;

#[test]
fn damage_on_a_full_disk_is_said_and_survived() {
    with_small_disk("damage::full_disk::child_with_damage_on_a_full_disk", 160);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_with_damage_on_a_full_disk() {
    let Some(disk) = SmallDisk::here() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (model, bases) = fill(directory.path());
    let count = number("PLUMBAGO_FULL_DISK_CASES").unwrap_or(CASES);
    let mut setup = setup();
    setup.set("data_dir", disk.path().join("data").to_str().unwrap());
    setup.set("journal.min_free_bytes", "4MiB").set("store.embedded.min_free_bytes", "8MiB");
    let mut failed = Vec::new();
    for case in cases(&bases, count, seed()) {
        if let Err(problem) = run(&case, &disk, &setup, &model) {
            println!("FAILED {}: {problem}", case.title());
            failed.push(case.title());
        }
    }
    assert!(failed.is_empty(), "{} of {count} cases failed:\n{}", failed.len(), failed.join("\n"));
}

fn run(case: &Case<'_>, disk: &SmallDisk, setup: &Setup, model: &Model) -> Result<(), String> {
    let data = setup.data();
    case.prepare(&data);
    disk.fill();
    let refused = full(case, setup, model);
    disk.empty();
    match refused? {
        // This start has succeeded, and has reported what is missing.
        Full::Ready { missing } => case.check_next_start(setup, model, missing),
        Full::Refused { is_said } => {
            let outcome = case.check_start(setup, model, is_said)?;
            if let Outcome::Ready { points, names } = outcome {
                println!("{}: {points} points and {names} names are missing", case.title());
            }
            Ok(())
        }
    }
}

/// The outcome of the starts on the full disk.
enum Full {
    /// A start succeeded; this many points and names were missing.
    Ready { missing: (usize, usize) },
    /// All starts failed. `is_said`: whether the log of a start named the damaged file.
    Refused { is_said: bool },
}

fn full(case: &Case<'_>, setup: &Setup, model: &Model) -> Result<Full, String> {
    let (mut is_said, mut copies) = (false, Vec::new());
    for start in 0..STARTS {
        let (daemon, is_ready) = case.launch(setup);
        if is_ready {
            let result = if is_said { Ok(()) } else { case.check_ready(&daemon, model) };
            result.map_err(|problem| format!("{problem}\n{}", tail(&daemon.log())))?;
            let missing = missing(&daemon, model)?;
            check_full_disk(&daemon, model);
            daemon.kill();
            return Ok(Full::Ready { missing });
        }
        let ended = daemon.wait();
        let is_full = ended.output.contains("No space left on device");
        let is_named = case.is_named(&ended.output);
        if !matches!(ended.status.code(), Some(4 | 5)) || !(is_full || is_named) {
            return Err(format!("start {start}: {:?}\n{}", ended.status, tail(&ended.output)));
        }
        is_said |= is_named;
        let left = copies_in(&setup.data());
        if start > 0 && left.len() > copies.len() {
            return Err(format!("one more copy with each start: {copies:?}, {left:?}"));
        }
        copies = left;
    }
    Ok(Full::Refused { is_said })
}

/// `/readyz` reports the full disk as well, unless the start has freed enough space.
fn check_full_disk(daemon: &Daemon, model: &Model) {
    daemon.set_clock(END + 60);
    let points: Vec<Point> = model.keys().map(|name| Point::new(name, END + 60, 4.5)).collect();
    let before = daemon.counters().sum(JOURNAL_WRITTEN);
    daemon.sender().send(&points);
    wait_until("the full disk to be reported", || {
        let is_reported = http::get(daemon.admin(), "/readyz").body.contains("journal.min_free_bytes");
        is_reported || daemon.counters().sum(JOURNAL_WRITTEN) > before
    });
}

/// The copies of damaged logs and journal files.
fn copies_in(data: &Path) -> Vec<String> {
    let names = files(data).into_iter().map(|file| file.to_string_lossy().into_owned());
    names.filter(|name| name.contains(".torn-") || name.contains(".damaged-")).collect()
}
