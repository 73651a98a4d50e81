//! Failures of `[relay]`: destinations that are unreachable, stuck or killed, kills of the daemon, full
//! queues.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};

use plumbago_tests::capture::{Capture, own_address};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::small_disk::{SmallDisk, with_small_disk};
use plumbago_tests::wait::wait_until;

use crate::relay::{balance, wait_sent};
use crate::senders::{SECONDS, now, relayed, wait_for_points};

/// The number of metrics, and of points of each metric.
const LOAD: (usize, i64) = (200, 500);

/// One point per slot, so that none replaces another.
fn load(prefix: &str, start: i64) -> Vec<Vec<Point>> {
    let second = |s: i64| (0..LOAD.0).map(move |m| (m, s));
    let point =
        |(m, s): (usize, i64)| Point::new(format!("{prefix}.m{m}"), start + s, (m as i64 * 1000 + s) as f64);
    (0..LOAD.1).map(|s| second(s).map(point).collect()).collect()
}

fn assert_has_all(daemon: &Daemon, prefix: &str, start: i64) {
    let names: Vec<String> = (0..LOAD.0).map(|m| format!("{prefix}.m{m}")).collect();
    for (m, name) in names.iter().enumerate() {
        let wanted: BTreeMap<i64, f64> =
            (0..LOAD.1).map(|s| (start + s, (m as i64 * 1000 + s) as f64)).collect();
        wait_until(&format!("all points of {name}"), || {
            let series = daemon.render(name, start - 1, start + LOAD.1 - 1, now());
            series.first().map(|series| series.known()).unwrap_or_default() == wanted
        });
    }
}

/// A daemon that is restarted on the same port.
fn second(address: SocketAddr) -> Setup {
    let mut setup = Setup::new();
    setup.schemas(SECONDS).set("ingest.line.listen", &address.to_string());
    setup
}

fn first(destinations: &str) -> Setup {
    let mut setup = Setup::new();
    setup.schemas(SECONDS).set("relay.destinations", destinations);
    setup
}

fn readiness(daemon: &Daemon) -> String {
    http::get(daemon.admin(), "/readyz").body
}

#[test]
fn points_for_a_destination_that_is_away_survive_a_kill() {
    let address = own_address();
    let setup = first(&format!("line://{address}"));
    let daemon = setup.start();
    let points = relayed("away");
    daemon.sender().send(&points);
    wait_for_points(&daemon, &points);
    wait_until("the points in the queue", || {
        balance(&daemon, &address.to_string())["waiting"] == points.len() as u64
    });
    wait_until("the warning", || readiness(&daemon).contains("\"relay\""));
    let page = readiness(&daemon);
    assert!(
        page.contains("\"ready\":true") && page.contains(&format!("{address} accepts no points")),
        "{page}"
    );
    // The writer pauses for five milliseconds at a time. A kill may lose the points that wait in memory
    // during a pause.
    wait_until("the points on disk", || {
        let queue = setup.data().join("relay");
        let files = walk(&queue);
        files.iter().sum::<u64>() > points.len() as u64 * 16
    });
    daemon.kill();

    let daemon = setup.start();
    let found = balance(&daemon, &address.to_string());
    assert_eq!((found["recovered"], found["accepted"]), (points.len() as u64, 0));
    let other = second(address);
    let second = other.start();
    wait_for_points(&second, &points);
    wait_sent(&daemon, &address.to_string());
    wait_until("the end of the warning", || !readiness(&daemon).contains("\"relay\""));
    daemon.stop_well();
    second.stop_well();
}

/// The sizes of the segment files below a directory, in bytes.
fn walk(dir: &std::path::Path) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let mut sizes = Vec::new();
    for entry in entries.map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            sizes.extend(walk(&entry.path()));
        } else if entry.path().extension().is_some_and(|extension| extension == "segment") {
            sizes.extend(entry.metadata().map(|found| found.len()));
        }
    }
    sizes
}

/// A kill of the destination loses the points that it had not read. The relay sends the last seconds again.
#[test]
fn a_destination_that_is_killed_misses_nothing() {
    let address = own_address();
    let (first, second) = (first(&format!("line://{address}")), second(address));
    let daemon = first.start();
    let mut killed = second.start();
    let start = now() - LOAD.1;
    let mut sender = daemon.sender();
    for (number, points) in load("load", start).iter().enumerate() {
        sender.send(points);
        if [100, 300].contains(&number) {
            wait_until("the destination to get points", || {
                killed.counters().sum("plumbago_engine_received_points_total") > 0
            });
            killed.kill();
            killed = second.start();
        }
    }
    wait_sent(&daemon, &address.to_string());
    assert_has_all(&killed, "load", start);
    assert!(daemon.counters().sum("plumbago_relay_resent_points_total") > 0);
    daemon.stop_well();
    killed.stop_well();
}

#[test]
fn a_destination_that_takes_nothing_delays_nothing_else() {
    let stuck = TcpListener::bind("127.0.0.1:0").unwrap();
    let stuck_address = stuck.local_addr().unwrap();
    let capture = Capture::start();
    let setup = first(&format!("line://{stuck_address},line://{}", capture.address()));
    let daemon = setup.start();
    let start = now() - 1000;
    // More data than the kernel's buffers hold, because the names are long.
    let prefix = "long".repeat(50);
    let mut sender = daemon.sender();
    for points in &load(&prefix, start) {
        sender.send(points);
    }
    let total = (LOAD.0 as i64 * LOAD.1) as u64;
    wait_sent(&daemon, &capture.address().to_string());
    wait_until("all points at the other destination", || capture.points().len() as u64 == total);
    let waiting = balance(&daemon, &stuck_address.to_string());
    assert!(waiting["waiting"] > 0, "{waiting:?}");
    assert_eq!(waiting["accepted"], total);
    assert_has_all(&daemon, &prefix, start);
    daemon.stop_well();
}

#[test]
fn a_full_queue_drops_its_oldest_points_and_says_so() {
    let address = own_address();
    let mut setup = first(&format!("line://{address}"));
    let daemon = setup.set("relay.max_bytes", "1MiB").start();
    let start = now() - 1000;
    let mut sender = daemon.sender();
    let all = load("full", start);
    for points in &all {
        sender.send(points);
    }
    let total = (LOAD.0 as i64 * LOAD.1) as u64;
    let mut seen = BTreeMap::new();
    wait_until("the queue to be at its limit", || {
        seen = balance(&daemon, &address.to_string());
        let bytes = daemon.counters().sum("plumbago_relay_queue_bytes");
        seen["accepted"] == total && seen["dropped"] > 0 && bytes > 0 && bytes <= 1 << 20
    });
    assert_eq!(seen["accepted"], seen["waiting"] + seen["dropped"], "{seen:?}");
    wait_until("the warning", || readiness(&daemon).contains("relay_dropped"));
    assert!(readiness(&daemon).contains("relay.max_bytes"), "{}", readiness(&daemon));
    // Only the newest points arrive.
    let other = second(address);
    let second = other.start();
    wait_for_points(&second, all.last().unwrap());
    let sent = wait_sent(&daemon, &address.to_string());
    assert_eq!(sent["accepted"], sent["sent"] + sent["dropped"]);
    daemon.stop_well();
    second.stop_well();
}

#[test]
fn a_full_disk_under_one_queue_touches_nothing_else() {
    with_small_disk("relay_trouble::child_with_a_full_disk_under_a_queue", 32);
}

/// The queue of one destination is on the small disk; everything else is not.
#[test]
#[ignore = "runs as a child of the test above"]
fn child_with_a_full_disk_under_a_queue() {
    let Some(disk) = SmallDisk::here() else { return };
    let address = own_address();
    let capture = Capture::start();
    let mut setup = first(&format!("line://{address},line://{}", capture.address()));
    setup.set("journal.min_free_bytes", "1MiB");
    let (relay, on_disk) = (setup.data().join("relay"), disk.path().join("queue"));
    std::fs::create_dir_all(&relay).unwrap();
    std::fs::create_dir(&on_disk).unwrap();
    let queue = relay.join(format!("{}_{}", address.ip(), address.port()));
    std::os::unix::fs::symlink(&on_disk, &queue).unwrap();
    let daemon = setup.start();
    let (key, other) = (address.to_string(), capture.address().to_string());
    let total = (LOAD.0 as i64 * LOAD.1) as u64;
    let start = now() - 1000;
    let mut sender = daemon.sender();
    let mut send = |prefix: &str| load(prefix, start).iter().for_each(|points| sender.send(points));
    let settled = |accepted: u64| {
        wait_until("the ledger of the destination", || {
            let seen = balance(&daemon, &key);
            seen["accepted"] == accepted && seen["waiting"] + seen["dropped"] == accepted
        });
    };

    send("before");
    settled(total);
    disk.fill();
    send("during");
    wait_until("the warning", || readiness(&daemon).contains("\"relay_disk\""));
    let page = readiness(&daemon);
    assert!(page.contains("\"ready\":true") && page.contains("No space left"), "{page}");
    assert!(page.contains(&format!("{key} in {}", queue.display())), "{page}");
    assert!(daemon.log().contains("cannot write the relay's queue"), "{}", daemon.log());
    // The other destination and the store get everything while the disk is still full.
    wait_sent(&daemon, &other);
    wait_until("all points at the other destination", || capture.points().len() as u64 == 2 * total);
    assert_eq!(balance(&daemon, &other)["dropped"], 0);
    assert_has_all(&daemon, "before", start);
    assert_has_all(&daemon, "during", start);
    settled(2 * total);
    assert!(readiness(&daemon).contains("\"relay_disk\""), "{}", readiness(&daemon));

    disk.empty();
    wait_until("the end of the warning", || !readiness(&daemon).contains("\"relay_disk\""));
    send("after");
    settled(3 * total);
    let other = second(address);
    let receiver = other.start();
    let sent = wait_sent(&daemon, &key);
    // Points that arrived while the disk was full were kept in memory.
    assert_eq!((sent["sent"], sent["dropped"]), (3 * total, 0), "{sent:?}");
    for prefix in ["before", "during", "after"] {
        assert_has_all(&receiver, prefix, start);
    }
    daemon.stop_well();
    receiver.stop_well();
}
