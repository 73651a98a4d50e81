//! Kept responses, limited to a number of bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plumbago_telemetry::Gauge;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::{FetchPoints, Kept};

/// The limit of one response is the size of the cache divided by this number. The same limit applies to the sum of
/// all responses that are being recorded.
const ANSWER_PART: usize = 4;

/// Estimated bytes that an entry takes in addition to its key and body.
const ENTRY_BYTES: usize = 256;

/// Expected bytes of a response. The initial size of the cache's tables follows from it.
const TYPICAL_ANSWER_BYTES: usize = 16 << 10;

/// Fraction of the cache for responses that were used more than once. New ones get the rest.
const HOT_PART: f64 = 0.5;

/// Kept responses by the keys of their requests.
#[derive(Debug)]
pub(crate) struct Store {
    /// `None` if the cache is switched off.
    answers: Option<Cache<String, Arc<Entry>, Bytes>>,
    /// Largest response to keep, in bytes.
    answer_bytes_max: usize,
    /// Number of bytes reserved for responses that are being recorded.
    recording: AtomicUsize,
    gauge: Gauge,
}

#[derive(Debug)]
struct Entry {
    kept: Kept,
    /// When the response was computed, in seconds since the epoch.
    since: i64,
    /// For how many seconds the response may be used.
    seconds: i64,
}

/// Gives each entry its size in bytes as its weight.
#[derive(Debug, Clone)]
struct Bytes;

impl Weighter<String, Arc<Entry>> for Bytes {
    fn weight(&self, key: &String, entry: &Arc<Entry>) -> u64 {
        let points: usize = entry.kept.points.iter().map(FetchPoints::bytes).sum();
        (key.len() + entry.kept.body.len() + points + ENTRY_BYTES) as u64
    }
}

impl Store {
    /// Creates a store of at most `bytes_max` bytes, which include responses being recorded. 0 switches the
    /// cache off.
    pub(crate) fn new(bytes_max: usize, gauge: Gauge) -> Self {
        let answer_bytes_max = bytes_max / ANSWER_PART;
        let options = OptionsBuilder::new()
            // Each part of the cache has its own share of the bytes, and a response must fit into one part.
            // So there is only one part.
            .shards(1)
            .hot_allocation(HOT_PART)
            .estimated_items_capacity(bytes_max / TYPICAL_ANSWER_BYTES + 1)
            .weight_capacity((bytes_max - answer_bytes_max) as u64)
            .build();
        let cache = |options| {
            Cache::with_options(options, Bytes, DefaultHashBuilder::default(), DefaultLifecycle::default())
        };
        let answers = options.ok().filter(|_| bytes_max > 0).map(cache);
        Self { answers, answer_bytes_max, recording: AtomicUsize::new(0), gauge }
    }

    /// Whether the cache is switched on.
    pub(crate) fn is_on(&self) -> bool {
        self.answers.is_some()
    }

    /// Returns the response kept for `key` if it is less than `age_max` seconds old, and the seconds for
    /// which the client may still use it. `now` is in seconds since the epoch.
    pub(crate) fn get(&self, key: &str, now: i64, age_max: i64) -> Option<(Kept, i64)> {
        let answers = self.answers.as_ref()?;
        let entry = answers.get(key)?;
        if now >= entry.since + entry.seconds {
            // The response is too old for every request. Do not remove a newer one that has replaced it
            // meanwhile.
            answers.remove_if(key, |held| Arc::ptr_eq(held, &entry));
            self.show();
            return None;
        }
        let left = entry.since + entry.seconds.min(age_max) - now;
        // If the clock was set back, the age of a response from the future is unknown: do not use it.
        (left > 0 && now >= entry.since).then(|| (entry.kept.clone(), left))
    }

    /// Reserves `more` bytes for a response that has reserved `already` bytes. Returns `false` if this
    /// response, or all that are being recorded, would take too much.
    pub(crate) fn reserve(&self, already: usize, more: usize) -> bool {
        if already.saturating_add(more) > self.answer_bytes_max {
            return false;
        }
        let grown = |held: usize| Some(held + more).filter(|held| *held <= self.answer_bytes_max);
        let fits = self.recording.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok();
        self.show();
        fits
    }

    /// Ends a reservation of `bytes`.
    pub(crate) fn release(&self, bytes: usize) {
        self.recording.fetch_sub(bytes, Ordering::Relaxed);
        self.show();
    }

    /// Keeps a response. Its body's bytes must be reserved; this releases the reservation.
    pub(crate) fn insert(&self, key: String, kept: Kept, since: i64, seconds: i64) {
        let bytes = kept.body.len();
        if let Some(answers) = &self.answers {
            answers.insert(key, Arc::new(Entry { kept, since, seconds }));
        }
        self.release(bytes);
    }

    fn bytes(&self) -> usize {
        let kept = self.answers.as_ref().map_or(0, Cache::weight) as usize;
        kept + self.recording.load(Ordering::Relaxed)
    }

    fn show(&self) {
        self.gauge.set(self.bytes() as f64);
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
            let kind = HeaderValue::from_static("x");
            let kept = Kept { kind, body: vec![b'x'; length].into(), points: Arc::default() };
            store.insert(key.to_owned(), kept, since, seconds);
        }
        fits
    }

    #[test]
    fn answers_grow_old() {
        let store = store(1 << 20);
        assert!(put(&store, "a", 10, 100, 60));
        let left = |now, age_max| store.get("a", now, age_max).map(|(_, left)| left);
        assert_eq!((left(100, 60), left(159, 60)), (Some(60), Some(1)));
        // A client that accepts only younger responses gets none. No client may use a response for longer
        // than the cache keeps it.
        assert_eq!((left(105, 10), left(110, 10), left(159, 600)), (Some(5), None, Some(1)));
        assert_eq!(left(99, 60), None);
        assert_eq!((left(160, 600), store.bytes()), (None, 0));
        put(&store, "a", 20, 150, 60);
        assert_eq!(left(170, 60), Some(40));
    }

    #[test]
    fn bytes_are_bounded() {
        let store = store(100_000);
        for index in 0..1000 {
            let key = format!("key{}", index % 300);
            assert!(put(&store, &key, index % 3000, 0, 60));
            assert!(store.bytes() <= 100_000);
            assert!(store.get(&key, 1, 60).is_some(), "a new answer is kept");
        }
        assert!(!put(&store, "large", 25_001, 0, 60) && put(&store, "small", 24_000, 0, 60));
        assert!(store.get("small", 1, 60).is_some());
        // Responses that are being recorded share one limit.
        assert!(store.reserve(0, 20_000) && !store.reserve(0, 5_001) && store.bytes() <= 100_000);
        store.release(20_000);
        assert!(put(&store, "a", 10, 0, 60));
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let store = store(0);
        assert!(!store.is_on() && !store.reserve(0, 1) && store.get("a", 1, 60).is_none());
    }
}
