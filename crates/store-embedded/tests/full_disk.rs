//! A full disk: refused clearly, reads go on, nothing acknowledged is lost, writes resume.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{LONG, assert_blocks, block, blocks_by_state, metrics, read, try_open};
use plumbago_store::{ErrorKind, FlushStore};

const DIR: &str = "PLUMBAGO_STORE_SMALL_DISK";
const SMALL_DISK_MIB: usize = 96;

/// Runs a test of this binary in a mount namespace of its own, with a small file system at `DIR`.
fn with_small_disk(test: &str) {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size={SMALL_DISK_MIB}m none \"$1\" || exit 77; \
         exec \"$2\" --exact \"$3\" --nocapture --ignored"
    );
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .arg(dir.path())
        .arg(std::env::current_exe().unwrap())
        .arg(test)
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
    eprintln!("SKIPPED {test}: no small file system to be had: {why}");
}

#[test]
fn refused_before_the_disk_is_full() {
    with_small_disk("child_least_room");
}

#[test]
fn a_full_disk_loses_nothing() {
    with_small_disk("child_full_disk");
}

fn small_disk() -> Option<PathBuf> {
    std::env::var_os(DIR).map(PathBuf::from)
}

fn ballast(dir: &Path, mib: usize) -> PathBuf {
    let path = dir.join("ballast");
    let _ = fs::write(&path, vec![1; mib << 20]);
    path
}

#[test]
#[ignore = "runs as a child of the tests above"]
fn child_least_room() {
    let Some(dir) = small_disk() else { return };
    let store = try_open(&dir.join("store"), 40 << 20).unwrap();
    let all = metrics(50, LONG);
    store.store.commit(&block(&store.store, &all, 0)).unwrap();
    let path = ballast(&dir, 70);
    let error = store.store.commit(&block(&store.store, &all, 1)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.to_string().contains("min_free_bytes"), "{error}");
    assert_blocks(&store.store, &all, |_| 1);
    fs::remove_file(path).unwrap();
    store.store.commit(&block(&store.store, &all, 1)).unwrap();
    assert_blocks(&store.store, &all, |_| 2);
    assert_eq!(store.registry.value("plumbago_store_refused_no_room_total"), Some(1.0));
}

/// Without the reserve, so that fjall itself runs into the wall, three times.
#[test]
#[ignore = "runs as a child of the tests above"]
fn child_full_disk() {
    let Some(dir) = small_disk() else { return };
    let path = dir.join("store");
    let store = try_open(&path, 0).unwrap();
    let all = metrics(2000, LONG);
    let mut committed = 0;
    for round in 0..3 {
        let ballast = ballast(&dir, 20);
        let error = loop {
            match store.store.commit(&block(&store.store, &all, committed)) {
                Ok(()) => committed += 1,
                Err(error) => break error,
            }
            assert!(committed < 10_000, "the disk does not fill");
        };
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}: {:?}", error.source);
        // Reads go on, and nothing more is taken, except where opening again made a little room.
        let first = all[1].first(&store.store);
        assert_eq!(read(&store.store, &all[1], first, first + 1), [all[1].value(first)], "round {round}");
        for _ in 0..3 {
            // Reopening may have freed a little room; what is then taken counts like the rest.
            match store.store.commit(&block(&store.store, &all, committed)) {
                Ok(()) => committed += 1,
                Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error}: {:?}", error.source),
            }
        }
        fs::remove_file(ballast).unwrap();
        let start = Instant::now();
        while let Err(error) = store.store.commit(&block(&store.store, &all, committed)) {
            assert!(start.elapsed() < Duration::from_secs(120), "{error}: {:?}", error.source);
            std::thread::sleep(Duration::from_millis(200));
        }
        committed += 1;
        // What the refused commits left is replaced by the same rows, and no other block is there.
        assert_blocks(&store.store, &all, |_| committed);
    }
    assert!(store.registry.value("plumbago_store_reopened_total") >= Some(3.0));
    store.store.close().unwrap();
    let store = try_open(&path, 0).unwrap().store;
    assert!(blocks_by_state(&store).values().all(|blocks| *blocks == committed));
    assert_blocks(&store, &all, |_| committed);
}
