//! Tests with a full disk: commits are refused with a reason, reads continue, nothing acknowledged is lost,
//! and commits resume.

use crate::common::{LONG, assert_blocks, block, blocks_by_state, metrics, read, try_open};
use plumbago_store::{ErrorKind, FlushStore};
use plumbago_tests::small_disk::{SmallDisk, with_small_disk};
use plumbago_tests::wait::wait_ok;

const SMALL_DISK_MIB: usize = 96;

#[test]
fn refused_before_the_disk_is_full() {
    with_small_disk("full_disk::child_least_room", SMALL_DISK_MIB);
}

#[test]
fn a_full_disk_loses_nothing() {
    with_small_disk("full_disk::child_full_disk", SMALL_DISK_MIB);
}

#[test]
#[ignore = "runs as a child of the tests above"]
fn child_least_room() {
    let Some(disk) = SmallDisk::here() else { return };
    let store = try_open(&disk.path().join("store"), 40 << 20).unwrap();
    let all = metrics(50, LONG);
    store.store.commit(&block(&store.store, &all, 0)).unwrap();
    disk.take(70);
    let error = store.store.commit(&block(&store.store, &all, 1)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.to_string().contains("min_free_bytes"), "{error}");
    assert_blocks(&store.store, &all, |_| 1);
    disk.empty();
    store.store.commit(&block(&store.store, &all, 1)).unwrap();
    assert_blocks(&store.store, &all, |_| 2);
    assert_eq!(store.registry.value("plumbago_store_refused_no_room_total"), Some(1.0));
}

/// No space is reserved, so that fjall itself runs out of disk space. This happens three times.
#[test]
#[ignore = "runs as a child of the tests above"]
fn child_full_disk() {
    let Some(disk) = SmallDisk::here() else { return };
    let path = disk.path().join("store");
    let store = try_open(&path, 0).unwrap();
    let all = metrics(2000, LONG);
    let mut committed = 0;
    for round in 0..3 {
        disk.take(20);
        let error = loop {
            match store.store.commit(&block(&store.store, &all, committed)) {
                Ok(()) => committed += 1,
                Err(error) => break error,
            }
            assert!(committed < 10_000, "the disk does not fill");
        };
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}: {:?}", error.source);
        // Reads continue. Commits are refused, unless reopening freed a little space.
        let first = all[1].first(&store.store);
        assert_eq!(read(&store.store, &all[1], first, first + 1), [all[1].value(first)], "round {round}");
        for _ in 0..3 {
            // Reopening may have freed a little space. Commits that succeed then are counted like the others.
            match store.store.commit(&block(&store.store, &all, committed)) {
                Ok(()) => committed += 1,
                Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error}: {:?}", error.source),
            }
        }
        disk.empty();
        wait_ok("a commit", || store.store.commit(&block(&store.store, &all, committed)));
        committed += 1;
        // If a refused commit left rows, the repeated commit has replaced them by the same rows. There is no
        // other block.
        assert_blocks(&store.store, &all, |_| committed);
    }
    assert!(store.registry.value("plumbago_store_reopened_total") >= Some(3.0));
    store.store.close().unwrap();
    let store = try_open(&path, 0).unwrap().store;
    assert!(blocks_by_state(&store).values().all(|blocks| *blocks == committed));
    assert_blocks(&store, &all, |_| committed);
}
