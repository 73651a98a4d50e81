//! Kills the daemon with SIGKILL at a steady 50,000 points/s on the machine's clock. Points sent more than
//! 100 ms before the kill should have survived, and the number of missing ones is printed. Points sent more
//! than a second before must have survived.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::number;
use plumbago_tests::send::LineSender;
use plumbago_tests::wait::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Number of metrics. Each gets one point per second.
const METRICS: usize = 50_000;
const CONNECTIONS: usize = 4;
/// Number of portions that are sent per second.
const PORTIONS: usize = 100;
const PORTION: usize = METRICS / PORTIONS;
const KILLS: usize = 3;
/// Points that were older than this at the kill should have survived; the number of missing ones is printed.
const EXPECTED: Duration = Duration::from_millis(100);
/// Points that were older than this at the kill must have survived.
const CERTAIN: Duration = Duration::from_secs(1);
/// Rounds in which the sender or the daemon did not get enough processor time are repeated, up to this many.
const TRIES: usize = 12;

/// Points passed to the kernel in one `write`.
#[derive(Debug, Clone, Copy)]
struct Portion {
    second: i64,
    number: usize,
    /// The time when `write` returned.
    at: Instant,
}

#[test]
#[ignore = "a figure"]
fn what_was_sent_100_ms_before_a_kill_is_there() {
    let seed: u64 = number("PLUMBAGO_SEED").unwrap_or(5);
    println!("seed {seed} (PLUMBAGO_SEED)");
    let mut random = StdRng::seed_from_u64(seed);
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1h,10s:1d\n");
    let mut kept: Vec<Portion> = Vec::new();
    let mut certain: Vec<Portion> = Vec::new();
    let (mut proofs, mut tries) = (0, 0);
    while proofs < KILLS {
        tries += 1;
        assert!(tries <= TRIES, "the machine cannot keep the pace: {proofs} of {tries} rounds did");
        let daemon = setup.start();
        let after = Duration::from_millis(random.random_range(2500..4500));
        let (sent, killed, paced) = send_until_killed(daemon, after);
        let expected: Vec<_> = sent.iter().filter(|p| p.at + EXPECTED < killed).copied().collect();
        let late = sent.len() - expected.len();
        certain.extend(sent.iter().filter(|p| p.at + CERTAIN < killed));
        let daemon = setup.start();
        kept.extend(expected);
        let missing = missing(&daemon, &kept);
        println!(
            "{} points sent in {after:?}, kept pace: {paced}, {} of them in the last 100 ms; missing {missing} of {}",
            sent.len() * PORTION,
            late * PORTION,
            kept.len() * PORTION,
        );
        if paced {
            assert_eq!(self::missing(&daemon, &certain), 0, "points sent more than a second before the kill");
            proofs += 1;
        } else {
            kept.clear();
            certain.clear();
        }
        daemon.stop_well();
    }
}

/// Sends at a steady rate until the kill. Returns the portions sent, the time of the kill, and whether sender and
/// daemon kept up.
fn send_until_killed(daemon: Daemon, after: Duration) -> (Vec<Portion>, Instant, bool) {
    let over = Arc::new(AtomicBool::new(false));
    let mut senders: Vec<LineSender> = (0..CONNECTIONS).map(|_| daemon.sender()).collect();
    let flag = Arc::clone(&over);
    let sender = std::thread::spawn(move || {
        let (start, mut sent, mut behind) = (Instant::now(), Vec::new(), Duration::ZERO);
        let first = now() + 1;
        for number in 0.. {
            let due = start + Duration::from_secs(1) * number as u32 / PORTIONS as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let (second, part) = (first + (number / PORTIONS) as i64, number % PORTIONS);
            let text: String = (part * PORTION..(part + 1) * PORTION)
                .map(|m| format!("paced.g{}.m{m} {} {second}\n", m % 100, value(m, second)))
                .collect();
            if flag.load(Ordering::SeqCst)
                || senders[number % CONNECTIONS].try_bytes(text.as_bytes()).is_err()
            {
                break;
            }
            let at = Instant::now();
            behind = behind.max(at.saturating_duration_since(due));
            sent.push(Portion { second, number: part, at });
        }
        (sent, behind)
    });
    std::thread::sleep(after);
    let admin = daemon.admin();
    // The points that the daemon has received just before the kill.
    let metrics = http::get(admin, "/metrics").body;
    let (taken_at, killed) = (Instant::now(), Instant::now());
    kill(Pid::from_raw(daemon.id().cast_signed()), Signal::SIGKILL).unwrap();
    over.store(true, Ordering::SeqCst);
    let (sent, behind) = sender.join().unwrap();
    daemon.kill();
    let taken =
        plumbago_tests::counters::Counters::parse(&metrics).sum("plumbago_engine_received_points_total");
    let due = sent.iter().filter(|p| p.at + EXPECTED < taken_at).count() * PORTION;
    // The new names of the first second may delay the sender, but at the end it must be on time.
    let paced = taken as usize >= due && behind < Duration::from_secs(1);
    (sent, killed, paced)
}

fn value(metric: usize, second: i64) -> f64 {
    (metric as i64 * 31 + second % 1000) as f64 / 8.0
}

/// Number of points that are missing or wrong.
fn missing(daemon: &Daemon, portions: &[Portion]) -> usize {
    let Some(first) = portions.iter().map(|p| p.second).min() else { return 0 };
    let last = portions.iter().map(|p| p.second).max().unwrap_or(first);
    wait_until("the clock to pass the points", || now() > last);
    let mut known = vec![std::collections::BTreeMap::new(); METRICS];
    for group in 0..100 {
        for series in daemon.render(&format!("paced.g{group}.*"), first - 1, last, now()) {
            let metric: usize = series.name.rsplit_once(".m").unwrap().1.parse().unwrap();
            known[metric] = series.known();
        }
    }
    portions
        .iter()
        .flat_map(|p| (p.number * PORTION..(p.number + 1) * PORTION).map(move |m| (m, p.second)))
        .filter(|(m, second)| known[*m].get(second) != Some(&value(*m, *second)))
        .count()
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
}
