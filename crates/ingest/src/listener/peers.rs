//! The open connections of a listener. When there are too many, the one that has been silent longest is
//! closed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::stats::Closed;

/// A connection may be closed in favour of a new one after this many milliseconds of silence.
const SILENT_MS: i64 = 60_000;

/// How often a waiting connection looks for a silent one.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// All open connections of a listener.
pub(crate) struct Peers {
    max: usize,
    open: Mutex<HashMap<u64, Arc<Peer>>>,
    next: AtomicU64,
    freed: Notify,
}

struct Peer {
    last_ms: AtomicI64,
    evicted: AtomicBool,
    stop: CancellationToken,
}

/// The slot of an open connection. Dropping it frees the slot.
pub(crate) struct Place {
    peers: Arc<Peers>,
    id: u64,
    peer: Arc<Peer>,
}

impl Peers {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            open: Mutex::new(HashMap::new()),
            next: AtomicU64::new(0),
            freed: Notify::new(),
        })
    }

    /// Waits for a free slot. The listener accepts no connections meanwhile, and what new senders write stays
    /// in the kernel. Returns `None` at shutdown.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        stop: &CancellationToken,
        now_ms: impl Fn() -> i64,
    ) -> Option<Place> {
        loop {
            let freed = self.freed.notified();
            if let Some(place) = self.try_enter(stop, now_ms()) {
                return Some(place);
            }
            self.evict(now_ms());
            tokio::select! {
                () = freed => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = stop.cancelled() => return None,
            }
        }
    }

    fn try_enter(self: &Arc<Self>, stop: &CancellationToken, now_ms: i64) -> Option<Place> {
        let mut open = self.lock();
        if open.len() >= self.max {
            return None;
        }
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let peer = Arc::new(Peer {
            last_ms: AtomicI64::new(now_ms),
            evicted: AtomicBool::new(false),
            stop: stop.child_token(),
        });
        open.insert(id, Arc::clone(&peer));
        Some(Place { peers: Arc::clone(self), id, peer })
    }

    /// Stops the connection that has been silent longest, if that is at least [`SILENT_MS`].
    fn evict(&self, now_ms: i64) {
        let open = self.lock();
        let silent = open.values().min_by_key(|peer| peer.last_ms.load(Ordering::Relaxed));
        if let Some(peer) = silent.filter(|peer| now_ms - peer.last_ms.load(Ordering::Relaxed) >= SILENT_MS) {
            peer.evicted.store(true, Ordering::Relaxed);
            peer.stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Peer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Records that the connection sent something.
    pub(crate) fn active(&self, now_ms: i64) {
        self.peer.last_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Waits until the connection has to close.
    pub(crate) async fn stopped(&self) {
        self.peer.stop.cancelled().await;
    }

    /// Is cancelled when the connection has to close.
    pub(super) fn token(&self) -> CancellationToken {
        self.peer.stop.clone()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.peer.stop.is_cancelled()
    }

    /// Why the connection has to close.
    pub(crate) fn cause(&self) -> Closed {
        if self.peer.evicted.load(Ordering::Relaxed) { Closed::Evicted } else { Closed::Shutdown }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.peers.lock().remove(&self.id);
        self.peers.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_longest_silence_gives_way_and_only_after_a_minute() {
        let (peers, stop) = (Peers::new(2), CancellationToken::new());
        let first = peers.enter(&stop, || 0).await.unwrap();
        let second = peers.enter(&stop, || 1).await.unwrap();
        assert!(peers.try_enter(&stop, 1).is_none(), "no more than two");
        peers.evict(SILENT_MS - 1);
        assert!(!first.is_stopped() && !second.is_stopped());
        first.active(2);
        peers.evict(SILENT_MS + 1);
        assert!(!first.is_stopped() && second.is_stopped());
        assert_eq!((first.cause(), second.cause()), (Closed::Shutdown, Closed::Evicted));
        drop(second);
        assert!(peers.try_enter(&stop, SILENT_MS).is_some());
    }
}
