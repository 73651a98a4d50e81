//! Backups: made of a daemon under load, restored into a new directory, and compared slot by slot.
//! `PLUMBAGO_BACKUP_ROUNDS` sets the number of restores.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use plumbago_tests::counters::JOURNAL_WRITTEN;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::number;
use plumbago_tests::send::Point;
use plumbago_tests::small_disk::{SmallDisk, with_small_disk};
use plumbago_tests::wait::wait_until;
use serde_json::Value;

use crate::compare::{self, same};
use crate::load::{self, Load, Sent};

fn setup(load: &Load) -> Setup {
    let mut setup = Setup::new();
    setup.schemas(load::SCHEMAS).aggregation(&load::aggregation()).clock(load.now);
    // One shard: points reach the journal in the order of sending.
    setup.set("journal.segment", "1m").set("engine.shards", "1");
    setup
}

fn run(setup: &Setup, arguments: &[&str]) -> Value {
    let output = setup.run_well(arguments);
    serde_json::from_str(output.trim()).unwrap_or_else(|e| panic!("{e}: {output}"))
}

fn send(daemon: &Daemon, sent: &[Sent]) {
    let points: Vec<Point> = sent.iter().map(|one| one.point.clone()).collect();
    daemon.sender().send(&points);
}

/// Sends the next points of the load, and waits until they are applied. `count` is the total number of points
/// sent so far.
fn send_step(daemon: &Daemon, load: &mut Load, count: &mut u64) -> Vec<Sent> {
    let sent = load.step();
    *count += sent.len() as u64;
    daemon.set_clock(load.now);
    send(daemon, &sent);
    daemon.applied_at(*count);
    sent
}

/// Restores the newest generation and compares it with all points of the load. `later` are the points that
/// were sent after the command began, in order. Some of them may be missing from the backup, so they are sent
/// again. All other points must be in the backup.
fn restored_equals(setup: &mut Setup, backup: &str, name: &str, load: &Load, later: &[Sent]) {
    let new = setup.path().join(name);
    run(setup, &["restore", backup, "--data-dir", new.to_str().unwrap(), "--json"]);
    let old = setup.data();
    setup.set("data_dir", new.to_str().unwrap()).set("admin.listen", "127.0.0.1:0").clock(load.now);
    let daemon = setup.start();
    assert!(!daemon.log().contains("damaged"), "{}", daemon.log());
    let before = daemon.ledger().received;
    send(&daemon, later);
    daemon.applied_at(before + later.len() as u64);
    compare::all(&daemon, load, same, name);
    daemon.flush();
    compare::all(&daemon, load, same, &format!("{name}, flushed"));
    daemon.stop_well();
    setup.set("data_dir", old.to_str().unwrap());
}

#[test]
fn backups_under_load_have_every_point_and_exact_aggregates() {
    let rounds = number("PLUMBAGO_BACKUP_ROUNDS").unwrap_or(3);
    let seed = number("PLUMBAGO_SEED").unwrap_or(20_261_124);
    println!("seed {seed} (PLUMBAGO_SEED), {rounds} rounds (PLUMBAGO_BACKUP_ROUNDS)");
    let mut load = Load::new(seed, 4);
    let mut setup = setup(&load);
    let backup = setup.path().join("backup").to_str().unwrap().to_owned();
    for round in 0..rounds {
        setup.clock(load.now);
        let daemon = setup.start_for_commands();
        let mut count = 0;
        for step in 0..12 {
            send_step(&daemon, &mut load, &mut count);
            if step == 7 {
                daemon.flush();
            }
        }
        wait_until("the journal to have all", || daemon.counters().sum(JOURNAL_WRITTEN) >= count);
        let done = AtomicBool::new(false);
        let mut later = Vec::new();
        // The points that are sent again must be within the raw stage, however long the backup takes.
        let last = load.now + 3600;
        let taken = std::thread::scope(|scope| {
            let setup = &setup;
            let sending = scope.spawn(|| {
                while (!done.load(Ordering::Acquire) || later.is_empty()) && load.now < last {
                    later.extend(send_step(&daemon, &mut load, &mut count));
                    if later.len().is_multiple_of(3) {
                        daemon.flush();
                    }
                }
            });
            let taken = run(setup, &["backup", &backup, "--keep", "2", "--json"]);
            done.store(true, Ordering::Release);
            sending.join().unwrap();
            taken
        });
        assert_eq!(taken["generation"], round + 1, "{taken}");
        if round % 2 == 1 {
            // The next round's daemon must have all of them.
            daemon.kill_journaled();
        } else {
            drop(daemon.stop_well());
        }
        restored_equals(&mut setup, &backup, &format!("restored-{round}"), &load, &later);
        println!("round {round}: {} of {} bytes copied", taken["copied_bytes"], taken["bytes"]);
    }
}

#[test]
fn a_second_backup_copies_what_is_new_and_damage_is_named() {
    let mut load = Load::new(7, 20);
    let mut setup = setup(&load);
    let daemon = setup.start_for_commands();
    let backup = setup.path().join("backup").to_str().unwrap().to_owned();
    let mut count = 0;
    for _ in 0..10 {
        send_step(&daemon, &mut load, &mut count);
    }
    daemon.flush();
    let first = run(&setup, &["backup", &backup, "--rate", "1GiB", "--json"]);
    let copied = |taken: &Value| taken["copied_bytes"].as_u64().unwrap();
    assert!(copied(&first) > 100_000, "{first}");
    // The store may merge files between two backups, which creates new files.
    let mut newest = 1;
    wait_until("a backup that copies only what is new", || {
        let next = run(&setup, &["backup", &backup, "--json"]);
        newest = next["generation"].as_i64().unwrap();
        copied(&next) < copied(&first) / 10
    });
    let inside = setup.data().join("backup");
    let ended = setup.run(&["backup", inside.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.output);
    assert!(!setup.data().join("backup-links").exists());
    let inside = Path::new(&backup).join("objects/restored");
    let ended = setup.run(&["restore", &backup, "--data-dir", inside.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.output);
    assert!(ended.output.contains("must be separate") && !inside.exists(), "{}", ended.output);
    daemon.stop_well();
    // Without a running daemon, the command itself makes the backup.
    let third = run(&setup, &["backup", &backup, "--json"]);
    assert_eq!(third["generation"], newest + 1);
    // The copy alone reads all bytes, here in a second.
    let (began, rate) = (Instant::now(), format!("{}B", third["bytes"]));
    let slow = setup.path().join("slow");
    run(&setup, &["restore", &backup, "--data-dir", slow.to_str().unwrap(), "--rate", &rate, "--json"]);
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    restored_equals(&mut setup, &backup, "at-rest", &load, &[]);

    let largest = largest_object(Path::new(&backup).join("objects").as_path());
    let mut bytes = std::fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&largest, bytes).unwrap();
    let new = setup.path().join("never");
    for arguments in
        [&["backup", &backup, "--verify"][..], &["restore", &backup, "--data-dir", new.to_str().unwrap()]]
    {
        let ended = setup.run(arguments);
        assert_eq!(ended.status.code(), Some(5), "{arguments:?}: {}", ended.output);
        assert!(ended.output.contains(largest.to_str().unwrap()), "{}", ended.output);
    }
    assert!(!new.exists(), "nothing is written before all is verified");
    // Sizes are compared, not contents, so the damage stays until the file is removed.
    run(&setup, &["backup", &backup, "--json"]);
    let ended = setup.run(&["backup", &backup, "--verify"]);
    assert_eq!(ended.status.code(), Some(5), "{}", ended.output);
    assert!(ended.output.contains("Remove these files"), "{}", ended.output);
    std::fs::remove_file(&largest).unwrap();
    run(&setup, &["backup", &backup, "--json"]);
    setup.run_well(&["backup", &backup, "--verify"]);
    restored_equals(&mut setup, &backup, "mended", &load, &[]);
}

/// The largest file below `dir` that the newest generation uses.
fn largest_object(dir: &Path) -> std::path::PathBuf {
    let files =
        std::fs::read_dir(dir).unwrap().flat_map(|sub| std::fs::read_dir(sub.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

#[test]
fn a_daemon_that_dies_in_a_backup_is_named_and_the_command_repeated() {
    let mut load = Load::new(11, 20);
    let mut setup = setup(&load);
    let daemon = setup.start_for_commands();
    let sent = load.step();
    daemon.set_clock(load.now);
    send(&daemon, &sent);
    daemon.applied_at(sent.len() as u64);
    daemon.flush();
    let backup = setup.path().join("backup").to_str().unwrap().to_owned();
    // The daemon has nothing else to do, so that the kill most likely hits it during the backup.
    let command = setup.command(&["backup", &backup]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_until("the backup to begin", || {
        Path::new(&backup).exists() || http::get(daemon.admin(), "/admin/jobs").body.contains("backup")
    });
    daemon.kill();
    let ended = command.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    // The backup may have ended just before the kill.
    let was_done = ended.status.success();
    assert!(was_done || ended.status.code() == Some(4) && said.contains("plumbago backup"), "{said}");
    let daemon = setup.start_for_commands();
    assert!(!setup.data().join("backup-links").exists());
    run(&setup, &["backup", &backup, "--json"]);
    daemon.stop_well();
    restored_equals(&mut setup, &backup, "after-the-kill", &load, &[]);
}

#[test]
fn a_full_disk_in_a_backup_is_named_and_counted() {
    with_small_disk("backup::child_with_a_full_disk", 24);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_with_a_full_disk() {
    let Some(disk) = SmallDisk::here() else { return };
    let mut load = Load::new(13, 4);
    let mut setup = setup(&load);
    let daemon = setup.start_for_commands();
    let sent = load.step();
    daemon.set_clock(load.now);
    send(&daemon, &sent);
    daemon.applied_at(sent.len() as u64);
    disk.take(21);
    let backup = disk.path().join("backup").to_str().unwrap().to_owned();
    let ended = setup.run(&["backup", &backup]);
    assert_eq!(ended.status.code(), Some(4), "{}", ended.output);
    let said = &ended.output;
    assert!(
        said.contains(&backup) && said.contains("is full") && said.contains("bytes are needed"),
        "{said}"
    );
    let counters = http::get(daemon.admin(), "/metrics").body;
    assert!(counters.contains("plumbago_backups_total{result=\"disk_full\"} 1"), "{counters}");
    assert_eq!(http::get(daemon.admin(), "/readyz").status, 200);
    let listed = setup.run(&["backup", &backup, "--list"]);
    assert!(listed.status.success() && listed.output.trim().is_empty(), "{}", listed.output);
    disk.empty();
    let taken = run(&setup, &["backup", &backup, "--json"]);
    assert_eq!(taken["generation"], 1);
    daemon.stop_well();
    restored_equals(&mut setup, &backup, "after-the-full-disk", &load, &[]);
}
