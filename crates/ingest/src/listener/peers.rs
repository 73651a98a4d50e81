//! The open connections of one listener, and who has to go when there are too many.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::stats::Closed;

/// A connection that was silent for so long gives way when others wait.
const SILENT_MS: i64 = 60_000;

/// How often those who wait look for a silent one.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// All of them.
pub(super) struct Peers {
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

/// The place of one connection among the open ones; free again when it is dropped.
pub(super) struct Place {
    peers: Arc<Peers>,
    id: u64,
    peer: Arc<Peer>,
}

impl Peers {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            open: Mutex::new(HashMap::new()),
            next: AtomicU64::new(0),
            freed: Notify::new(),
        })
    }

    /// Waits for a place; meanwhile the listener accepts no one, and what more senders write waits in
    /// the kernel. `None` at shutdown.
    pub(super) async fn enter(
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

    /// Asks the connection that was silent longest to go, if that was long enough.
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
    /// Something was read.
    pub(super) fn active(&self, now_ms: i64) {
        self.peer.last_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Waits until the connection has to end.
    pub(super) async fn stopped(&self) {
        self.peer.stop.cancelled().await;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.peer.stop.is_cancelled()
    }

    /// Why it has to end.
    pub(super) fn cause(&self) -> Closed {
        if self.peer.evicted.load(Ordering::Relaxed) { Closed::Evicted } else { Closed::Shutdown }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.peers.lock().remove(&self.id);
        self.peers.freed.notify_one();
    }
}
