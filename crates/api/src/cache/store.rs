//! What is kept, bounded by bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plumbago_telemetry::Gauge;

use super::Kept;

/// The part of all bytes that one answer may take.
const ANSWER_PART: usize = 4;

/// What an entry takes beside its key and its body.
const ENTRY_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct Store {
    bytes_max: usize,
    inner: Mutex<Inner>,
    gauge: Gauge,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<String, Entry>,
    /// Keys in the order in which they came, with the number of their entry: an older number is no more.
    order: VecDeque<(String, u64)>,
    /// Of entries and of answers that are being recorded.
    bytes: usize,
    last: u64,
}

#[derive(Debug)]
struct Entry {
    kept: Kept,
    number: u64,
    since: i64,
    seconds: i64,
}

impl Store {
    pub(crate) fn new(bytes_max: usize, gauge: Gauge) -> Self {
        Self { bytes_max, inner: Mutex::default(), gauge }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.bytes_max > 0
    }

    /// What is kept for a key and how many seconds it may be used, for somebody who takes what is at most
    /// `age_max` seconds old.
    pub(crate) fn get(&self, key: &str, now: i64, age_max: i64) -> Option<(Kept, i64)> {
        let inner = self.lock();
        let entry = inner.entries.get(key)?;
        let left = entry.since + entry.seconds.min(age_max) - now;
        // A clock that was set back makes nothing young again.
        (left > 0 && now >= entry.since).then(|| (entry.kept.clone(), left))
    }

    /// Makes room for some bytes more of an answer of which there are `already` some; false when it gets
    /// too large.
    pub(crate) fn reserve(&self, already: usize, more: usize) -> bool {
        if already.saturating_add(more) > self.bytes_max / ANSWER_PART {
            return false;
        }
        let mut inner = self.lock();
        inner.make_room(self.bytes_max.saturating_sub(more));
        let fits = inner.bytes + more <= self.bytes_max;
        if fits {
            inner.bytes += more;
        }
        self.gauge.set(inner.bytes as f64);
        fits
    }

    /// Gives back what was reserved.
    pub(crate) fn release(&self, bytes: usize) {
        let mut inner = self.lock();
        inner.bytes = inner.bytes.saturating_sub(bytes);
        self.gauge.set(inner.bytes as f64);
    }

    /// Keeps an answer for which room is reserved.
    pub(crate) fn insert(&self, key: String, kept: Kept, since: i64, seconds: i64) {
        let mut inner = self.lock();
        let number = inner.last + 1;
        inner.last = number;
        inner.bytes += 2 * key.len() + ENTRY_BYTES;
        inner.order.push_back((key.clone(), number));
        let before = inner.entries.insert(key.clone(), Entry { kept, number, since, seconds });
        if let Some(before) = before {
            inner.bytes -= before.bytes(&key);
        }
        inner.make_room(self.bytes_max);
        self.gauge.set(inner.bytes as f64);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn bytes(&self, key: &str) -> usize {
        self.kept.body.len() + 2 * key.len() + ENTRY_BYTES
    }
}

impl Inner {
    /// Drops what came first until there are at most so many bytes.
    fn make_room(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let Some((key, number)) = self.order.pop_front() else { return };
            if self.entries.get(&key).is_some_and(|entry| entry.number == number)
                && let Some(entry) = self.entries.remove(&key)
            {
                self.bytes -= entry.bytes(&key);
            }
        }
        // Keys of entries that were replaced must not pile up.
        if self.order.len() > 2 * self.entries.len() + 16 {
            let entries = &self.entries;
            self.order.retain(|(key, number)| entries.get(key).is_some_and(|entry| entry.number == *number));
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use plumbago_telemetry::Registry;

    use super::*;

    fn store(bytes_max: usize) -> Store {
        Store::new(bytes_max, Registry::new().gauge("bytes", "", &[]))
    }

    fn put(store: &Store, key: &str, length: usize, since: i64, seconds: i64) -> bool {
        let fits = store.reserve(0, length);
        if fits {
            let kept = Kept { kind: HeaderValue::from_static("x"), body: vec![b'x'; length].into() };
            store.insert(key.to_owned(), kept, since, seconds);
        }
        fits
    }

    #[test]
    fn answers_grow_old() {
        let store = store(1 << 20);
        assert!(put(&store, "a", 10, 100, 60));
        let left = |now, age_max| store.get("a", now, age_max).map(|(_, left)| left);
        assert_eq!((left(100, 60), left(159, 60), left(160, 60)), (Some(60), Some(1), None));
        // Somebody who wants it younger does not get it; nor does anybody get it longer than it is kept for.
        assert_eq!(
            (left(105, 10), left(110, 10), left(159, 600), left(160, 600)),
            (Some(5), None, Some(1), None)
        );
        assert_eq!(left(99, 60), None);
        put(&store, "a", 20, 150, 60);
        assert_eq!(left(170, 60), Some(40));
    }

    #[test]
    fn bytes_are_bounded() {
        let store = store(100_000);
        for index in 0..1000 {
            assert!(put(&store, &format!("key{}", index % 300), index % 3000, 0, 60));
            let inner = store.lock();
            assert!(inner.bytes <= 100_000 && inner.order.len() <= 2 * inner.entries.len() + 17);
        }
        assert!(store.get("key99", 1, 60).is_some() && store.get("key100", 1, 60).is_none());
        assert!(!put(&store, "large", 25_001, 0, 60) && put(&store, "small", 24_000, 0, 60));
        let counted: usize = store.lock().entries.iter().map(|(key, entry)| entry.bytes(key)).sum();
        assert_eq!(store.lock().bytes, counted);
        // What others are recording is nobody's room.
        for _ in 0..4 {
            assert!(store.reserve(0, 25_000));
        }
        assert!(!store.reserve(0, 1) && store.lock().entries.is_empty());
        store.release(100_000);
        assert!(put(&store, "a", 10, 0, 60));
    }
}
