//! A full disk. The log reports it, reads continue, writes resume once there is space again, and no point
//! that the journal's counter covers is lost.

use plumbago_tests::counters::JOURNAL_WRITTEN;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::{Point, lines};
use plumbago_tests::small_disk::{SmallDisk, with_small_disk};
use plumbago_tests::wait::wait_until;

const NOW: i64 = 1_700_000_000;
/// Number of metrics: large enough that the points sent to the full disk do not fit into the space that the
/// journal has reserved.
const METRICS: i64 = 6000;

#[test]
fn a_full_disk_loses_nothing() {
    with_small_disk("disk_full::child_with_a_full_disk", 160);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_with_a_full_disk() {
    let Some(disk) = SmallDisk::here() else { return };
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 10s:6h,1m:2d\n").clock(NOW + 2000);
    setup.set("data_dir", disk.path().join("data").to_str().unwrap());
    setup.set("journal.min_free_bytes", "4MiB").set("store.embedded.min_free_bytes", "8MiB");
    let daemon = setup.start();
    let mut sent = 0;
    daemon.sender().send(&seconds(0..40));
    sent += 40 * METRICS as u64;
    daemon.ledger_at(sent);

    disk.fill();
    let blocked = background(&daemon, 40..120);
    wait_until("the error in the log", || {
        let log = daemon.log();
        log.lines().any(|l| l.contains("ERROR") && l.contains("failed to write points to the journal"))
    });
    assert!(
        daemon.log().contains(disk.path().to_str().unwrap()),
        "the message names the place: {}",
        daemon.log()
    );
    wait_until("the warning", || readiness(&daemon).contains("journal.min_free_bytes"));
    // All earlier points can still be read.
    check(&daemon, 0..40, NOW + 2000);
    disk.empty();
    blocked.join().unwrap();
    sent += 80 * METRICS as u64;
    daemon.ledger_at(sent);
    daemon.flush();
    check(&daemon, 0..120, NOW + 2000);
    wait_until("the warning to end", || readiness(&daemon).contains("\"warnings\":[]"));

    // Once more, with a kill while the disk is full.
    disk.fill();
    let before = daemon.counters().sum(JOURNAL_WRITTEN);
    let blocked = background(&daemon, 120..200);
    wait_until("another error in the log", || {
        daemon.log().matches("failed to write points to the journal").count() > 1
            || daemon.counters().sum("plumbago_engine_paused") == 1
    });
    let written = daemon.counters().sum(JOURNAL_WRITTEN);
    assert!(written >= before && before >= sent, "{written} {before} {sent}");
    daemon.kill();
    let _ = blocked.join();
    disk.empty();
    let daemon = setup.start();
    check(&daemon, 0..120, NOW + 2000);
    check_first(&daemon, written, NOW + 2000);
    daemon.stop_well();
}

fn readiness(daemon: &Daemon) -> String {
    http::get(daemon.admin(), "/readyz").body
}

/// The points of all metrics in these slots, slot by slot.
fn seconds(slots: std::ops::Range<i64>) -> Vec<Point> {
    slots
        .flat_map(|slot| {
            (0..METRICS).map(move |m| Point::new(format!("full.m{m}"), NOW + slot * 10, value(m, slot)))
        })
        .collect()
}

fn value(metric: i64, slot: i64) -> f64 {
    // Values that do not compress, so that the disk fills.
    ((metric * 7919 + slot * 104_729) as f64).sin()
}

/// Sends from another thread, because the daemon may stop reading.
fn background(daemon: &Daemon, slots: std::ops::Range<i64>) -> std::thread::JoinHandle<()> {
    let mut sender = daemon.sender();
    std::thread::spawn(move || {
        for slot in slots {
            if sender.try_bytes(lines(&seconds(slot..slot + 1)).as_bytes()).is_err() {
                return;
            }
        }
    })
}

fn check(daemon: &Daemon, slots: std::ops::Range<i64>, now: i64) {
    check_first(daemon, (slots.end * METRICS) as u64, now);
}

/// Waits until the first `count` points, in the order of sending, can be read.
fn check_first(daemon: &Daemon, count: u64, now: i64) {
    // After a start or a pause some points are late, and late points reach the store after the others.
    wait_until(&format!("the first {count} points"), || missing(daemon, count, now) == 0);
}

fn missing(daemon: &Daemon, count: u64, now: i64) -> u64 {
    let series = daemon.render("full.*", NOW - 10, now, now);
    assert_eq!(series.len() as i64, METRICS);
    let mut missing = 0;
    for one in &series {
        let metric: i64 = one.name.trim_start_matches("full.m").parse().unwrap();
        let known = one.known();
        for slot in 0..200 {
            if ((slot * METRICS + metric) as u64) < count {
                missing += u64::from(known.get(&(NOW + slot * 10)) != Some(&value(metric, slot)));
            }
        }
    }
    missing
}
