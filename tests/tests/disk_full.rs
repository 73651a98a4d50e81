//! A full disk: said clearly, reads go on, writes resume when there is room again, and nothing that
//! the journal acknowledged is lost.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use plumbago_tests::counterpart;
use plumbago_tests::counters::JOURNAL_WRITTEN;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::{Point, lines};
use plumbago_tests::wait::wait_until;

const NOW: i64 = 1_700_000_000;
const METRICS: i64 = 2000;

/// A small file system of its own; unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf) -> Option<Self> {
        counterpart::root("to mount a small disk")?;
        let mut mount = counterpart::on_path("mount")?;
        std::fs::create_dir(&at).unwrap();
        let done = mount.args(["-t", "tmpfs", "-o", "size=160m", "tmpfs"]).arg(&at).output().unwrap();
        if !done.status.success() {
            return counterpart::skip(&format!("a mount: {}", String::from_utf8_lossy(&done.stderr)));
        }
        Some(Self(at))
    }

    /// Takes all the room there is.
    fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.0.join("filler")).unwrap();
        for size in [1 << 20, 4096, 1] {
            let chunk = vec![0; size];
            while file.write_all(&chunk).is_ok() {}
        }
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_loses_nothing() {
    let mut setup = Setup::new();
    let Some(disk) = SmallDisk::mount(setup.path().join("disk")) else { return };
    setup.schemas("[all]\npattern = .*\nretentions = 10s:6h,1m:2d\n").clock(NOW + 2000);
    setup.set("data_dir", disk.0.join("data").to_str().unwrap());
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
        log.lines().any(|l| l.contains("ERROR") && l.contains("journal does not take points"))
    });
    assert!(daemon.log().contains(disk_name(&disk.0)), "the message names the place: {}", daemon.log());
    // Reads go on, of everything that was there before.
    check(&daemon, 0..40, NOW + 2000);
    disk.empty();
    blocked.join().unwrap();
    sent += 80 * METRICS as u64;
    daemon.ledger_at(sent);
    daemon.flush();
    check(&daemon, 0..120, NOW + 2000);

    // And once more, with a kill while it is full.
    disk.fill();
    let before = daemon.counters().sum(JOURNAL_WRITTEN);
    let blocked = background(&daemon, 120..200);
    wait_until("another error in the log", || {
        daemon.log().matches("journal does not take points").count() > 1
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

fn disk_name(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Points of these slots, slot by slot.
fn seconds(slots: std::ops::Range<i64>) -> Vec<Point> {
    slots
        .flat_map(|slot| {
            (0..METRICS).map(move |m| Point::new(format!("full.m{m}"), NOW + slot * 10, value(m, slot)))
        })
        .collect()
}

fn value(metric: i64, slot: i64) -> f64 {
    // Hard to compress, so that the disk fills.
    ((metric * 7919 + slot * 104_729) as f64).sin()
}

/// Sends while the daemon may not read.
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

/// The first points, in the order of sending, are there.
fn check_first(daemon: &Daemon, count: u64, now: i64) {
    // Points that a start or a pause made late are on their way to the store for a moment.
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
