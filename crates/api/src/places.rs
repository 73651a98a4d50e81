//! The places for connections of a port. If all places are taken, a new connection gets the place of the one
//! that has been idle longest, so that idle clients cannot lock others out.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// How long a connection must have been idle before it can lose its place. A new connection counts as idle
/// until its first request has arrived.
const IDLE: Duration = Duration::from_secs(1);

/// Marks a connection whose request is being answered.
const BUSY: u64 = u64::MAX;

/// The places of one port. Clones share the same places.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    opened: Instant,
    /// The connections that have a place, by number.
    taken: Mutex<HashMap<u64, Arc<Connection>>>,
    last_number: AtomicU64,
}

#[derive(Debug)]
struct Connection {
    /// When the connection became idle, in milliseconds since the port was opened, or `BUSY`.
    idle_since: AtomicU64,
    given_away: CancellationToken,
}

/// The place of a connection. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Inner>,
    number: u64,
    connection: Arc<Connection>,
}

/// A request that is being answered. When it is dropped, the connection becomes idle.
#[derive(Debug)]
pub(crate) struct Busy {
    places: Arc<Inner>,
    connection: Arc<Connection>,
}

impl Places {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            opened: Instant::now(),
            taken: Mutex::default(),
            last_number: AtomicU64::new(0),
        }))
    }

    /// Takes one of `limit` places for a new connection: a free one, or the place of the connection that has
    /// been idle longest, which is then closed. `None` if no place is free and no connection is idle.
    pub(crate) fn take(&self, limit: usize) -> Option<Place> {
        let (inner, now) = (&self.0, self.0.now());
        let mut taken = inner.taken();
        if taken.len() >= limit {
            let since = |connection: &Connection| connection.idle_since.load(Ordering::Relaxed);
            let (number, longest) = taken.iter().min_by_key(|(_, connection)| since(connection))?;
            if now.checked_sub(since(longest)).is_none_or(|idle| u128::from(idle) < IDLE.as_millis()) {
                return None;
            }
            longest.given_away.cancel();
            let number = *number;
            taken.remove(&number);
        }
        let number = inner.last_number.fetch_add(1, Ordering::Relaxed);
        let connection =
            Arc::new(Connection { idle_since: AtomicU64::new(now), given_away: CancellationToken::new() });
        taken.insert(number, Arc::clone(&connection));
        Some(Place { places: Arc::clone(inner), number, connection })
    }

    /// The number of connections that have a place.
    pub(crate) fn taken(&self) -> usize {
        self.0.taken().len()
    }
}

impl Inner {
    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(BUSY - 1)
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Marks the connection as busy until the result is dropped.
    pub(crate) fn busy(&self) -> Busy {
        self.connection.idle_since.store(BUSY, Ordering::Relaxed);
        Busy { places: Arc::clone(&self.places), connection: Arc::clone(&self.connection) }
    }

    /// Waits until another connection has taken this place.
    pub(crate) async fn given_away(&self) {
        self.connection.given_away.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().remove(&self.number);
    }
}

impl Busy {
    /// Keeps the connection busy until the body has been sent or dropped.
    pub(crate) fn until_the_end_of(self, body: Body) -> Body {
        Body::new(Sending { body, _busy: self })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.connection.idle_since.store(self.places.now(), Ordering::Relaxed);
    }
}

/// A body that is being sent.
struct Sending {
    body: Body,
    _busy: Busy,
}

impl hyper::body::Body for Sending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a connection look as if it had been idle for `ms` milliseconds longer.
    fn age(places: &mut Places, ms: u64) {
        let inner = Arc::get_mut(&mut places.0).unwrap();
        inner.opened -= Duration::from_millis(ms);
    }

    #[test]
    fn the_longest_idle_connection_gives_its_place_away() {
        let places = Places::new();
        let (first, second) = (places.take(2).unwrap(), places.take(2).unwrap());
        assert!(places.take(2).is_none(), "both are too young");
        first.connection.idle_since.store(1, Ordering::Relaxed);
        second.connection.idle_since.store(0, Ordering::Relaxed);
        drop((first, second));
        assert_eq!(places.taken(), 0);

        let mut places = Places::new();
        age(&mut places, 10_000);
        let (first, second) = (places.take(2).unwrap(), places.take(2).unwrap());
        first.connection.idle_since.store(5, Ordering::Relaxed);
        let busy = second.busy();
        let third = places.take(2).unwrap();
        assert!(first.connection.given_away.is_cancelled());
        assert!(!second.connection.given_away.is_cancelled(), "it is busy");
        drop(first);
        assert_eq!(places.taken(), 2, "the place is the third's now");
        third.connection.idle_since.store(5_000, Ordering::Relaxed);
        drop(busy);
        second.connection.idle_since.store(7_000, Ordering::Relaxed);
        assert!(places.take(2).is_some());
        assert!(third.connection.given_away.is_cancelled());
    }

    #[test]
    fn busy_connections_keep_their_places() {
        let mut places = Places::new();
        age(&mut places, 60_000);
        let only = places.take(1).unwrap();
        let busy = only.busy();
        assert!(places.take(1).is_none());
        let body = busy.until_the_end_of(Body::from("text"));
        assert!(places.take(1).is_none(), "the answer is being sent");
        drop(body);
        assert_ne!(only.connection.idle_since.load(Ordering::Relaxed), BUSY);
    }
}
