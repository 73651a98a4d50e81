//! A daemon that receives nothing rarely wakes up.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

use crate::senders::{SECONDS, now};

/// The number of wake-ups to wait for.
const WAKES: u64 = 20;
/// These wake-ups take at least this long: an idle worker ticks ten times a second, a busy one a hundred
/// times.
const TIME: Duration = Duration::from_secs(1);

/// The directory of a thread below `/proc`.
fn thread(daemon: &Daemon, name: &str) -> PathBuf {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.id())).unwrap();
    let mut paths = tasks.map(|task| task.unwrap().path());
    let is_named =
        |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    paths.find(is_named).unwrap_or_else(|| panic!("no thread {name}"))
}

/// How often a thread has waited for something.
fn waits(thread: &Path) -> u64 {
    let status = fs::read_to_string(thread.join("status")).unwrap();
    let field = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    field.trim().parse().unwrap()
}

#[test]
fn a_shard_without_points_rarely_wakes_and_takes_the_next_ones_at_once() {
    let mut setup = Setup::new();
    let daemon = setup.schemas(SECONDS).start();
    let shard = thread(&daemon, "shard-0");
    for (round, value) in [1.0, 2.0].into_iter().enumerate() {
        let name = format!("idle.metric{round}");
        let at = now();
        daemon.sender().send(&[Point::new(name.as_str(), at, value)]);
        wait_until("the point to be readable", || {
            let series = daemon.render(&name, at - 10, at + 10, now());
            series.first().is_some_and(|series| series.known().values().any(|known| *known == value))
        });
        wait_until("the shard to be quiet", || {
            let (begun, before) = (Instant::now(), waits(&shard));
            wait_until("the shard to wake up", || waits(&shard) >= before + WAKES);
            begun.elapsed() >= TIME
        });
    }
    daemon.stop_well();
}
