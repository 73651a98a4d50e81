//! Accounting of the memory that render requests hold.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plumbago_model::ByteSize;
use plumbago_render::{TimeSeries, Watch};
use plumbago_telemetry::Gauge;

use crate::error::ApiError;
use crate::stream::Pieces;

/// The memory that all render requests share, counted in bytes.
#[derive(Debug)]
pub(crate) struct Pool {
    held: AtomicUsize,
    max: AtomicUsize,
    gauge: Gauge,
}

impl Pool {
    pub(crate) fn new(max: usize, gauge: Gauge) -> Self {
        Self { held: AtomicUsize::new(0), max: AtomicUsize::new(max), gauge }
    }

    /// Changes the size of the pool. Memory that is already reserved stays reserved.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Ordering::Relaxed);
    }

    fn max(&self) -> usize {
        self.max.load(Ordering::Relaxed)
    }

    /// Reserves bytes. Returns `false` if the pool has too few left.
    fn take(&self, bytes: usize) -> bool {
        let fits = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.max());
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        self.show();
        taken
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
        self.show();
    }

    fn show(&self) {
        self.gauge.set(self.held.load(Ordering::Relaxed) as f64);
    }
}

/// The memory that one request has reserved. Dropping it returns the memory to the pool.
#[derive(Debug)]
pub(crate) struct Account {
    pool: Arc<Pool>,
    max: usize,
    state: Mutex<State>,
    /// Whether the client has disconnected, so that evaluations should stop.
    is_abandoned: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Size of the series that the request has read, in bytes.
    read: usize,
    /// Number of bytes taken from the pool.
    held: usize,
    /// Why the last reservation for an evaluation failed; `None` if it succeeded.
    refused: Option<Refused>,
}

#[derive(Debug, Clone, Copy)]
enum Refused {
    /// The request exceeds its own limit.
    Own,
    /// The pool has too little memory left.
    Total,
}

impl Account {
    pub(crate) fn new(pool: &Arc<Pool>, max: ByteSize) -> Self {
        Self {
            pool: Arc::clone(pool),
            max: max.bytes(),
            state: Mutex::default(),
            is_abandoned: AtomicBool::new(false),
        }
    }

    /// Reserves memory for series that were read. Fails if they exceed the request's limit or what is left
    /// in the pool.
    pub(crate) fn add_read(&self, series: usize, points: usize) -> Result<(), ApiError> {
        let mut state = self.lock();
        state.read = state.read.saturating_add(bytes(series, points));
        let wanted = state.read;
        self.hold(&mut state, wanted).map_err(|refused| self.error(refused))
    }

    /// Adjusts the reservation to the size of `series`. Call it when the request holds nothing else.
    pub(crate) fn keep_only(&self, series: &[TimeSeries]) -> Result<(), ApiError> {
        let mut state = self.lock();
        state.read = bytes(series.len(), series.iter().map(|series| series.values.len()).sum());
        let wanted = state.read;
        self.hold(&mut state, wanted).map_err(|refused| self.error(refused))
    }

    /// Makes the next memory check of a running evaluation fail, which stops the evaluation.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    /// Returns the error for the client after an evaluation was stopped.
    pub(crate) fn refusal(&self) -> ApiError {
        let refused = self.lock().refused;
        refused.map_or_else(
            || ApiError::Unavailable("the request was aborted".to_owned()),
            |refused| self.error(refused),
        )
    }

    /// Changes the reservation to `wanted` bytes, unless a limit is exceeded.
    fn hold(&self, state: &mut State, wanted: usize) -> Result<(), Refused> {
        if wanted > self.max {
            return Err(Refused::Own);
        }
        if let Some(more) = wanted.checked_sub(state.held) {
            if more > 0 && !self.pool.take(more) {
                return Err(Refused::Total);
            }
        } else {
            self.pool.give_back(state.held - wanted);
        }
        state.held = wanted;
        Ok(())
    }

    fn error(&self, refused: Refused) -> ApiError {
        match refused {
            Refused::Own => {
                let limit = ByteSize(self.max as u64);
                ApiError::TooLarge(format!("memory: more than {limit} (api.limits.memory)"))
            }
            Refused::Total => {
                let limit = ByteSize(self.pool.max() as u64);
                ApiError::Busy(format!(
                    "memory of all requests: more than {limit} (api.limits.memory_total); try again"
                ))
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Account {
    fn may_hold(&self, bytes: usize) -> bool {
        if self.is_abandoned.load(Ordering::Relaxed) {
            return false;
        }
        let mut state = self.lock();
        let wanted = state.read.saturating_add(bytes);
        let held = self.hold(&mut state, wanted);
        state.refused = held.err();
        held.is_ok()
    }
}

/// The limits of an evaluation on the connection's own thread: 5 ms and 1 MiB. A larger evaluation is
/// stopped, and the caller repeats it on a thread where it does not block other requests.
#[derive(Debug)]
pub(crate) struct Small<'a> {
    account: &'a Account,
    until: Instant,
    is_spent: Cell<bool>,
}

impl<'a> Small<'a> {
    pub(crate) fn new(account: &'a Account) -> Self {
        const MOMENT: Duration = Duration::from_millis(5);
        Self { account, until: Instant::now() + MOMENT, is_spent: Cell::new(false) }
    }

    /// Whether the evaluation was stopped because it took too long or too much memory for this thread.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent.get()
    }
}

impl Watch for Small<'_> {
    fn may_hold(&self, bytes: usize) -> bool {
        const LITTLE: usize = 1 << 20;
        if bytes > LITTLE || Instant::now() >= self.until {
            self.is_spent.set(true);
        }
        !self.is_spent() && self.account.may_hold(bytes)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let held = self.lock().held;
        self.pool.give_back(held);
    }
}

fn bytes(series: usize, points: usize) -> usize {
    let values = points.saturating_mul(size_of::<f64>());
    values.saturating_add(series.saturating_mul(TimeSeries::BYTES))
}

/// Stops the evaluation of a request when dropped. The future of the request holds it, and is dropped when
/// the client disconnects.
#[derive(Debug)]
pub(crate) struct Waiting(pub(crate) Arc<Account>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// A response body. The memory of its series stays reserved until all of it is written.
pub(crate) struct Held<P> {
    pub(crate) pieces: P,
    pub(crate) _account: Arc<Account>,
}

impl<P: Pieces> Pieces for Held<P> {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        self.pieces.next(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(max: usize) -> Arc<Pool> {
        let registry = plumbago_telemetry::Registry::new();
        Arc::new(Pool::new(max, registry.gauge("held", "", &[])))
    }

    fn held(pool: &Pool) -> usize {
        pool.held.load(Ordering::Relaxed)
    }

    #[test]
    fn what_is_held_is_given_back() {
        let pool = pool(1 << 20);
        let account = Account::new(&pool, ByteSize(1 << 20));
        account.add_read(2, 1000).unwrap();
        let read = held(&pool);
        assert_eq!(read, 8000 + 2 * TimeSeries::BYTES);
        assert!(account.may_hold(5000));
        assert_eq!(held(&pool), read + 5000);
        assert!(account.may_hold(100));
        assert_eq!(held(&pool), read + 100);
        account.keep_only(&[]).unwrap();
        assert_eq!(held(&pool), 0);
        account.add_read(1, 1).unwrap();
        drop(account);
        assert_eq!(held(&pool), 0);
    }

    #[test]
    fn a_request_and_all_of_them_have_limits() {
        let pool = pool(30_000);
        let one = Account::new(&pool, ByteSize(20_000));
        let text = |error: ApiError| (error.status().as_u16(), error.to_string());
        one.add_read(0, 2000).unwrap();
        assert!(!one.may_hold(4001) && one.may_hold(4000));
        assert!(!one.may_hold(4001));
        let limit = ByteSize(20_000);
        assert_eq!(text(one.refusal()), (413, format!("memory: more than {limit} (api.limits.memory)")));
        let two = Account::new(&pool, ByteSize(20_000));
        assert!(two.may_hold(10_000) && !two.may_hold(10_001));
        let (status, refusal) = text(two.refusal());
        assert_eq!(status, 429);
        assert!(refusal.contains("(api.limits.memory_total)"), "{refusal}");
        drop(one);
        assert!(two.may_hold(10_001));
    }

    #[test]
    fn a_small_evaluation_becomes_a_large_one() {
        let account = Account::new(&pool(1 << 30), ByteSize(1 << 30));
        let small = Small::new(&account);
        assert!(!small.may_hold(1 << 21) && small.is_spent());
        assert!(!small.may_hold(1));
        let past = Small { until: Instant::now(), ..Small::new(&account) };
        assert!(!past.may_hold(0) && past.is_spent());
        // The account is full, so the request fails. Repeating the evaluation on another thread would not
        // help.
        let none = Account::new(&pool(0), ByteSize(0));
        let small = Small { until: Instant::now() + Duration::from_secs(3600), ..Small::new(&none) };
        assert!(!small.may_hold(1) && !small.is_spent());
    }

    #[test]
    fn an_abandoned_request_stops() {
        let account = Arc::new(Account::new(&pool(1000), ByteSize(1000)));
        assert!(account.may_hold(1));
        drop(Waiting(Arc::clone(&account)));
        assert!(!account.may_hold(1));
    }
}
