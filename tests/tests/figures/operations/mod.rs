//! The work of an operator besides ingest and queries: aggregation rules, quotas, relaying, deletion, import and
//! export of whisper files, and the migration from carbon. Each test asserts that nothing is lost or wrong, and
//! prints its ratios. The variables with the sizes are in
//! `docs/measurements.md`, "Operations".

mod aggregation;
mod cassandra_import;
mod deletion;
mod migration;
mod relay;
mod unmatched;
mod whisper;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use plumbago_tests::send::LineSender;

use super::table;

/// Number of portions that a paced sender sends per second.
const PORTIONS: u64 = 100;

/// Prints the names of the columns.
fn columns() {
    table::head(&["figure", "target", "measured", "met"]);
}

/// Prints a figure.
fn figure(what: &str, target: &str, measured: &str, is_met: bool) {
    println!("{}", table::row(&[what, target, measured, table::met(is_met)]));
}

/// Prints a ratio that must be at most `limit`.
fn at_most(what: &str, limit: f64, ratio: f64) {
    figure(what, &format!("≤ {limit} ×"), &format!("{ratio:.3} ×"), ratio <= limit);
}

/// Prints a ratio that must be at least `limit`.
fn at_least(what: &str, limit: f64, ratio: f64) {
    figure(what, &format!("≥ {limit} ×"), &format!("{ratio:.2} ×"), ratio >= limit);
}

/// The median of some measurements.
fn median(mut all: Vec<f64>) -> f64 {
    super::median_and_worst(&mut all).0
}

/// A sender with a constant rate, in a separate thread.
struct Paced {
    over: Arc<AtomicBool>,
    /// The time at which each portion was passed to the kernel.
    times: Arc<Mutex<Vec<Instant>>>,
    thread: JoinHandle<Duration>,
}

impl Paced {
    /// Sends what `portion` writes for each number from 0 on, [`PORTIONS`] times a second.
    fn start(mut sender: LineSender, portion: impl Fn(u64, &mut String) + Send + 'static) -> Self {
        let (over, times) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (flag, sent) = (Arc::clone(&over), Arc::clone(&times));
        let thread = thread::spawn(move || {
            let (start, mut behind, mut text) = (Instant::now(), Duration::ZERO, String::new());
            for number in 0.. {
                text.clear();
                portion(number, &mut text);
                let due = start + Duration::from_millis(number * 1000 / PORTIONS);
                thread::sleep(due.saturating_duration_since(Instant::now()));
                if flag.load(Ordering::SeqCst) {
                    break;
                }
                let at = Instant::now();
                sent.lock().unwrap().push(at);
                sender.try_bytes(text.as_bytes()).unwrap();
                behind = behind.max(at.duration_since(due));
            }
            behind
        });
        Self { over, times, thread }
    }

    /// Number of portions sent so far. The last one may not have arrived yet.
    fn portions(&self) -> usize {
        self.times.lock().unwrap().len()
    }

    /// Stops the sender. Returns the time at which each portion was sent, and the largest delay.
    fn finish(self) -> (Vec<Instant>, Duration) {
        self.over.store(true, Ordering::SeqCst);
        let behind = self.thread.join().unwrap();
        let times = self.times.lock().unwrap().clone();
        (times, behind)
    }
}
