//! Points reach the journal without a flush, a stop or further points. Once the journal's counter covers them,
//! a SIGKILL loses none. The time that this takes is printed, but it is not limited.

use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use plumbago_tests::counters::JOURNAL_WRITTEN;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::{Point, lines};
use plumbago_tests::wait::wait_until;

const METRICS: usize = 20_000;
const CONNECTIONS: usize = 4;
const ROUNDS: i64 = 3;

/// Uses the machine's clock and default settings.
#[test]
fn a_kill_loses_nothing_that_the_journal_has() {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1h,10s:1d\n");
    let first = now() - 60;
    for round in 0..ROUNDS {
        let daemon = setup.start();
        let mut senders: Vec<_> = (0..CONNECTIONS).map(|_| daemon.sender()).collect();
        for (number, sender) in senders.iter_mut().enumerate() {
            let points: Vec<Point> =
                (number..METRICS).step_by(CONNECTIONS).map(|m| point(m, first + round)).collect();
            sender.try_bytes(lines(&points).as_bytes()).unwrap();
        }
        let sent = Instant::now();
        wait_until("the points to be in the journal", || {
            daemon.counters().sum(JOURNAL_WRITTEN) >= METRICS as u64
        });
        println!("{METRICS} points were in the journal {:?} after the last was sent", sent.elapsed());
        daemon.kill();
        let daemon = setup.start();
        assert_eq!(missing(&daemon, first, first + round), 0, "after kill {round}");
        daemon.stop_well();
    }
}

fn point(metric: usize, second: i64) -> Point {
    Point::new(format!("journaled.g{}.m{metric}", metric % 100), second, value(metric, second))
}

fn value(metric: usize, second: i64) -> f64 {
    (metric as i64 * 31 + second % 1000) as f64 / 8.0
}

/// Number of points in the seconds from `first` to `last` that are missing or wrong.
fn missing(daemon: &Daemon, first: i64, last: i64) -> usize {
    let mut known = vec![BTreeMap::new(); METRICS];
    for group in 0..100 {
        for series in daemon.render(&format!("journaled.g{group}.*"), first - 1, last, now()) {
            let metric: usize = series.name.rsplit_once(".m").unwrap().1.parse().unwrap();
            known[metric] = series.known();
        }
    }
    let wanted = (0..METRICS).flat_map(|m| (first..=last).map(move |second| (m, second)));
    wanted.filter(|(m, second)| known[*m].get(second) != Some(&value(*m, *second))).count()
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
}
