//! Gives points priority over work in the background: after each piece, such work rests until the process has
//! used ten times the processor time of the piece for everything else.
//!
//! The work does not rest while hardly any points arrive, because there is no better use for the processor
//! time.

use std::time::Duration;

use plumbago_telemetry::process::cpu_seconds;
use tokio::time::Instant;

/// The processor time of the work, as a share of the processor time that the process uses for everything
/// else.
const SHARE: f64 = 0.1;
/// Up to this many points per second, the work does not rest. They take less than one percent of a core.
const FEW_POINTS: f64 = 10_000.0;
/// Points are counted over this time, or up to twice as long, because many senders send once a minute.
const WINDOW: Duration = Duration::from_secs(60);
/// The pause between two readings of the processor time.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A function that returns how many points the process has received so far.
pub(crate) type Received = Box<dyn Fn() -> u64 + Send + Sync>;

/// Paces work that is done in pieces.
pub(crate) struct Pace {
    /// Processor time of the process, in seconds.
    used: fn() -> f64,
    received: Received,
    /// For the present and the next counting window: when it began, and the number of points at that time.
    counted: [(Instant, u64); 2],
    /// The processor time when the last piece began, in seconds.
    began: f64,
    /// The processor time of the last piece that must still be compensated by rest, in seconds.
    owed: f64,
}

impl Pace {
    pub(crate) fn new(received: Received) -> Self {
        let counted = [(Instant::now(), received()); 2];
        Self { used: cpu_seconds, received, counted, began: 0.0, owed: 0.0 }
    }

    /// Begins a piece, after resting for the previous one. Returns whether no rest was needed.
    pub(crate) async fn begin(&mut self) -> bool {
        let is_quiet = self.is_quiet();
        if !is_quiet {
            self.rest().await;
        }
        self.began = (self.used)();
        is_quiet
    }

    /// Ends a piece.
    pub(crate) fn end(&mut self) {
        self.owed = (self.used)() - self.began;
    }

    async fn rest(&mut self) {
        let mut used = (self.used)();
        while self.owed > 0.0 && !self.is_quiet() {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = (self.used)();
            self.owed -= (now - used) * SHARE;
            used = now;
        }
    }

    /// Whether few points have arrived recently.
    fn is_quiet(&mut self) -> bool {
        let count = (self.received)();
        if self.counted[1].0.elapsed() >= WINDOW {
            self.counted = [self.counted[1], (Instant::now(), count)];
        }
        let (since, before) = self.counted[0];
        count.saturating_sub(before) as f64 <= FEW_POINTS * since.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    thread_local! {
        static USED: Cell<f64> = const { Cell::new(0.0) };
        static LOOKS: Cell<u32> = const { Cell::new(0) };
    }

    /// A process that uses 2.5 seconds between any two readings.
    fn used() -> f64 {
        LOOKS.set(LOOKS.get() + 1);
        USED.set(USED.get() + 2.5);
        USED.get()
    }

    fn pace() -> (Pace, Arc<AtomicU64>) {
        let points = Arc::new(AtomicU64::new(7));
        let count = Arc::clone(&points);
        (Pace { used, ..Pace::new(Box::new(move || count.load(Ordering::Relaxed))) }, points)
    }

    #[tokio::test(start_paused = true)]
    async fn a_piece_costs_a_tenth_of_what_the_process_uses_meanwhile() {
        let (mut pace, points) = pace();
        points.fetch_add(1_000_000, Ordering::Relaxed);
        assert!(!pace.begin().await);
        USED.set(USED.get() + 0.9);
        pace.end();
        LOOKS.set(0);
        assert!(!pace.begin().await);
        // The piece took 0.9 + 2.5 seconds, and each of 14 readings compensates a tenth of 2.5. The other two
        // readings are at the beginning and at the end of the rest.
        assert_eq!(LOOKS.get(), 16);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_ends_when_few_points_have_arrived_for_long() {
        let (mut pace, points) = pace();
        assert!(pace.begin().await);
        pace.end();
        pace.owed = f64::INFINITY;
        assert!(pace.begin().await);
        points.fetch_add(1_000_000, Ordering::Relaxed);
        let began = Instant::now();
        assert!(!pace.begin().await);
        let seconds = began.elapsed().as_secs();
        assert!((60..=120).contains(&seconds), "{seconds}");
    }
}
