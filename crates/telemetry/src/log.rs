//! Log set-up, and a throttle for log lines of which bad input could cause many.

use std::cell::Cell;
use std::io::IsTerminal;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::line::Fields;

/// Changes the log level of a running process.
pub type LevelHandle = tracing_subscriber::reload::Handle<EnvFilter, tracing_subscriber::Registry>;

thread_local! {
    /// Whether a caller catches a panic of this thread and explains it.
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Sends log lines to standard error, each event as one line with time and level. `level` is a level such as `info`,
/// or a filter such as `warn,plumbago_engine=debug`. Returns `None` if the filter does not parse, or if logging is
/// already set up.
pub fn init(level: &str) -> Option<LevelHandle> {
    let filter = filter(level)?;
    let (filter, handle) = tracing_subscriber::reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer()
        .fmt_fields(Fields)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry().with(filter).with(lines).try_init().ok()?;
    Some(handle)
}

/// Sends panics to the log instead of printing them, so that they also have a time and a level.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        if IS_EXPECTED.try_with(Cell::get).unwrap_or(false) {
            return;
        }
        let text = info.payload_as_str().unwrap_or("no message");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("without a name");
        tracing::error!(place, "internal error, please report it: thread {thread} panicked: {text}");
    }));
}

/// Runs code that may panic if a file is damaged, and returns the panic as an error. [`log_panics`] does not log such a
/// panic, because it is not an internal error; the caller reports the damaged file.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> std::thread::Result<T> {
    IS_EXPECTED.set(true);
    let result = std::panic::catch_unwind(AssertUnwindSafe(work));
    IS_EXPECTED.set(false);
    result
}

/// Parses a level or filter; `None` if it is not one. Unless the filter names them, fjall is limited to
/// warnings, and the messages of its tables about damage are left out because they name no file. The
/// Cassandra driver is silenced, because it logs every second while a server is unreachable, which the daemon
/// already reports less often.
pub fn filter(level: &str) -> Option<EnvFilter> {
    let store = if level.contains("fjall") {
        ""
    } else {
        ",fjall=warn,lsm_tree=warn,lsm_tree::table=off,lsm_tree::error=off,sfa=off"
    };
    let driver = if level.contains("scylla") { "" } else { ",scylla=off" };
    EnvFilter::try_new(format!("{level}{store}{driver}")).ok()
}

/// Lets one log line through per interval, and counts those that it suppresses.
#[derive(Debug)]
pub struct Throttle {
    every_ms: i64,
    last_ms: AtomicI64,
    suppressed: AtomicU64,
}

impl Throttle {
    /// Allows one line every `every_ms` milliseconds.
    pub const fn new(every_ms: i64) -> Self {
        Self { every_ms, last_ms: AtomicI64::new(i64::MIN), suppressed: AtomicU64::new(0) }
    }

    /// Asks for permission to log at `now_ms` (milliseconds on any clock). `Some` grants it, and contains the
    /// number of lines suppressed since the last one.
    pub fn pass(&self, now_ms: i64) -> Option<u64> {
        let last = self.last_ms.load(Ordering::Relaxed);
        let due = last == i64::MIN || now_ms.saturating_sub(last) >= self.every_ms;
        if due && self.last_ms.compare_exchange(last, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// [`Throttle::pass`] with the system clock, for callers that have no clock.
    pub fn pass_now(&self) -> Option<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64);
        self.pass(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expected_panic_is_returned() {
        assert!(catch_panic(|| -> u32 { panic!("the file is damaged") }).is_err());
        assert_eq!(catch_panic(|| 5).ok(), Some(5));
        assert!(!IS_EXPECTED.get());
    }

    #[test]
    fn one_line_per_interval() {
        let throttle = Throttle::new(1000);
        assert_eq!(throttle.pass(5), Some(0));
        assert_eq!(throttle.pass(6), None);
        assert_eq!(throttle.pass(900), None);
        assert_eq!(throttle.pass(1005), Some(2));
    }
}
