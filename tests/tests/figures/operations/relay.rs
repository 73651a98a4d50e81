//! The relay with two destinations, one of which is down for a while.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use plumbago_tests::capture::own_address;
use plumbago_tests::daemon::Setup;
use plumbago_tests::wait::{wait_for, wait_until};

use super::super::amount;
use super::{PORTIONS, Paced, columns, figure};
use crate::relay::{balance, wait_sent};
use crate::senders::{SECONDS, now};

/// Delays that differ by less than this count as equal, because the sender itself is not more exact.
const EXACT: Duration = Duration::from_millis(2);
/// How long the sender continues before something is measured, so that the names exist.
const WARM_UP: Duration = Duration::from_secs(5);

/// The points that a destination has received. The value of each point is a unique number.
#[derive(Debug, Default)]
struct Seen {
    /// A bit for each number: whether it has arrived.
    bits: Vec<u64>,
    /// Number of different numbers that arrived.
    points: u64,
    /// Number of repeated arrivals of numbers that had already arrived.
    again: u64,
    /// The time at which the first point of each portion arrived for the first time.
    arrivals: Vec<Option<Instant>>,
}

impl Seen {
    fn note(&mut self, lines: &[u8], at: Instant, portion: u64) {
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let value = line.split(|byte| *byte == b' ').nth(1).unwrap();
            let number = std::str::from_utf8(value).unwrap().parse::<f64>().unwrap() as u64;
            let (word, bit) = ((number / 64) as usize, 1_u64 << (number % 64));
            if word >= self.bits.len() {
                self.bits.resize(word + 1, 0);
            }
            if self.bits[word] & bit != 0 {
                self.again += 1;
                continue;
            }
            self.bits[word] |= bit;
            self.points += 1;
            if number.is_multiple_of(portion) {
                let mark = (number / portion) as usize;
                if mark >= self.arrivals.len() {
                    self.arrivals.resize(mark + 1, None);
                }
                self.arrivals[mark] = Some(at);
            }
        }
    }
}

/// A destination that can go down and come back at the same address.
struct Sink {
    address: SocketAddr,
    portion: u64,
    seen: Arc<Mutex<Seen>>,
    running: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
}

impl Sink {
    fn start(portion: u64) -> Self {
        let mut sink = Self { address: own_address(), portion, seen: Arc::default(), running: None };
        sink.come();
        sink
    }

    fn come(&mut self) {
        let listener = wait_for("the address to be free", || TcpListener::bind(self.address).ok());
        listener.set_nonblocking(true).unwrap();
        let gone = Arc::new(AtomicBool::new(false));
        let (flag, seen, portion) = (Arc::clone(&gone), Arc::clone(&self.seen), self.portion);
        let thread = thread::spawn(move || {
            while !flag.load(Ordering::SeqCst) {
                match listener.accept() {
                    Ok((stream, _)) => read(stream, &flag, &seen, portion),
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        self.running = Some((gone, thread));
    }

    /// Closes the listener and the connection. Data that the kernel has received but the destination has not
    /// read is lost.
    fn leave(&mut self) {
        let Some((gone, thread)) = self.running.take() else { return };
        gone.store(true, Ordering::SeqCst);
        thread.join().unwrap();
    }

    fn points(&self) -> u64 {
        self.seen.lock().unwrap().points
    }

    /// Waits until the destination has all points. The wait has no limit as long as more points arrive.
    fn wait_all(&self, total: u64) {
        while self.points() < total {
            let before = self.points();
            wait_until(&format!("{} more points at {}", total - before, self.address), || {
                self.points() > before
            });
        }
    }

    /// The delays of the marked points of these portions, sorted. All of them have arrived.
    fn delays(&self, times: &[Instant], portions: Range<usize>) -> Vec<Duration> {
        let seen = self.seen.lock().unwrap();
        let delay = |at: usize| seen.arrivals[at].unwrap().duration_since(times[at]);
        let mut delays: Vec<Duration> = portions.map(delay).collect();
        delays.sort_unstable();
        delays
    }
}

/// Reads a connection until it is closed or the destination goes down.
fn read(mut stream: TcpStream, gone: &AtomicBool, seen: &Mutex<Seen>, portion: u64) {
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let (mut buffer, mut kept) = (vec![0; 1 << 18], 0);
    while !gone.load(Ordering::SeqCst) {
        match stream.read(&mut buffer[kept..]) {
            Ok(0) => return,
            Ok(more) => {
                let (at, filled) = (Instant::now(), kept + more);
                let end = buffer[..filled].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                seen.lock().unwrap().note(&buffer[..end], at, portion);
                buffer.copy_within(end..filled, 0);
                kept = filled - end;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

/// Writes the points of a portion: each metric has one point per second.
fn write_portion(number: u64, portion: u64, first: i64, out: &mut String) {
    let second = first + (number / PORTIONS).cast_signed();
    for at in number * portion..(number + 1) * portion {
        let metric = at % (portion * PORTIONS);
        let _ = writeln!(out, "relayed.g{}.m{metric} {at} {second}", metric % 100);
    }
}

fn at(delays: &[Duration], share: f64) -> Duration {
    delays[((delays.len() - 1) as f64 * share) as usize]
}

/// Measures the delay from the sender's write until the destination that stays up reads the point, for one
/// point of each portion. The relay may divide the points differently, but the first point of a portion has
/// the same number at both ends.
#[test]
#[ignore = "a figure"]
fn one_of_two_destinations_is_away() {
    let (rate, seconds) = (amount("RELAY_RATE", 100_000), amount("RELAY_AWAY_SECONDS", 60));
    let (portion, away) = (rate as u64 / PORTIONS, Duration::from_secs(seconds as u64));
    let (stays, mut leaves) = (Sink::start(portion), Sink::start(portion));
    let mut setup = Setup::new();
    setup.schemas(SECONDS).set("log.level", "warn").set("relay.max_bytes", "100GiB");
    setup.set("relay.destinations", &format!("line://{},line://{}", stays.address, leaves.address));
    let daemon = setup.start();
    let first = now() + 1;
    let paced = Paced::start(daemon.sender(), move |number, out| write_portion(number, portion, first, out));
    let phase = |length: Duration| {
        let begin = paced.portions();
        thread::sleep(length);
        begin..paced.portions()
    };
    thread::sleep(WARM_UP);
    let before = phase(away.min(Duration::from_secs(30)));
    leaves.leave();
    let during = phase(away);
    leaves.come();
    let after = phase(Duration::from_secs(10));
    let (times, behind) = paced.finish();
    let total = times.len() as u64 * portion;
    stays.wait_all(total);
    leaves.wait_all(total);

    println!(
        "\n{rate} points/s, {total} points, sender late by {behind:?} at most; away for {seconds} s; delay at the \
         destination that stays\n{:<32} {:>10} {:>10} {:>10}",
        "ms", "p50", "p99", "max"
    );
    let phases = [("before", before), ("during", during), ("while the other one catches up", after)];
    let delays = phases.map(|(what, portions)| {
        let delays = stays.delays(&times, portions);
        let ms = |share| at(&delays, share).as_secs_f64() * 1e3;
        println!("{what:<32} {:>10.2} {:>10.2} {:>10.2}", ms(0.5), ms(0.99), ms(1.0));
        delays
    });
    columns();
    for sink in [&stays, &leaves] {
        let (address, seen) = (sink.address.to_string(), sink.seen.lock().unwrap());
        assert_eq!(seen.points, total, "{address}");
        let lane = wait_sent(&daemon, &address);
        assert_eq!(lane["dropped"], 0, "{lane:?}");
        let measured = format!("0 of {total}; {} sent again", seen.again);
        figure(&format!("points lost at {address}"), "0", &measured, true);
    }
    for (what, share) in [("p50", 0.5), ("p99", 0.99)] {
        let (before, during) = (at(&delays[0], share), at(&delays[1], share));
        let ratio = during.as_secs_f64() / before.as_secs_f64();
        figure(
            &format!("{what} of the delay while one is away, to before"),
            &format!("≤ 1.2 × or within {EXACT:?}"),
            &format!("{ratio:.2} × ({before:.1?} and {during:.1?})"),
            ratio <= 1.2 || during.saturating_sub(before) <= EXACT,
        );
    }
    assert!(balance(&daemon, &leaves.address.to_string())["accepted"] >= total);
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}
