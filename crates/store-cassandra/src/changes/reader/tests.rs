use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use plumbago_model::ManualClock;
use plumbago_store::ErrorKind;

use super::*;

const NOW: i64 = 1_760_000_000;

#[derive(Debug)]
struct Written {
    bucket: i64,
    row: Row,
    /// The time from which a lagging replica has the row, and the time when the row was acknowledged.
    seen_from: i64,
    acknowledged: i64,
}

/// A feed in memory. Each row is seen some time after it was written, as with a replica that lags.
#[derive(Debug)]
struct Feed {
    rows: Mutex<Vec<Written>>,
    clock: Arc<ManualClock>,
    requests: AtomicU64,
    ids: AtomicU64,
    transferred: Mutex<HashMap<Uuid, u64>>,
    /// One in this many requests fails.
    fails_every: u64,
}

impl Feed {
    fn new(fails_every: u64) -> Arc<Self> {
        Arc::new(Self {
            rows: Mutex::default(),
            clock: Arc::new(ManualClock::at(NOW)),
            requests: AtomicU64::new(0),
            ids: AtomicU64::new(0),
            transferred: Mutex::default(),
            fails_every,
        })
    }

    fn reader(self: &Arc<Self>, since: i64) -> FeedReader {
        FeedReader::over(self.clone(), self.clock.clone(), Uuid::from_u128(7), since)
    }

    /// Writes a row on a machine whose clock is ahead by `ahead` seconds, through a server whose clock is right.
    fn write(&self, name: &str, ahead: i64, late: i64, origin: u128) {
        let now = self.clock.now();
        let at = time_uuid((now - late) as u32);
        let row = (at, Some(false), Some(vec![name.to_owned()]), Some(Uuid::from_u128(origin)));
        let bucket = bucket_of(now - late + ahead);
        self.rows.lock().unwrap().push(Written { bucket, row, seen_from: now, acknowledged: now - late });
    }

    fn find(&self, bucket: i64, is_last: bool) -> Result<Vec<Row>, StoreError> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        if number.is_multiple_of(self.fails_every) {
            return Err(StoreError::new(ErrorKind::Timeout, "read changes"));
        }
        let now = self.clock.now();
        let rows = self.rows.lock().unwrap();
        let there = |row: &&Written| row.seen_from <= now || is_last && row.acknowledged <= now;
        Ok(rows.iter().filter(|row| row.bucket == bucket).filter(there).map(|row| row.row.clone()).collect())
    }

    fn count(&self, rows: &[Row]) {
        let mut transferred = self.transferred.lock().unwrap();
        rows.iter().for_each(|row| *transferred.entry(uuid(row.0)).or_default() += 1);
    }
}

#[boxed_futures]
impl FeedRows for Feed {
    async fn rows_after(
        &self,
        bucket: i64,
        after: CqlTimeuuid,
        is_last: bool,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rows = self.find(bucket, is_last)?;
        rows.retain(|row| order(row.0) > order(after));
        self.count(&rows);
        Ok(rows)
    }

    async fn ids_after(
        &self,
        bucket: i64,
        after: CqlTimeuuid,
        is_last: bool,
    ) -> Result<Vec<CqlTimeuuid>, StoreError> {
        let rows = self.find(bucket, is_last)?;
        let ids: Vec<_> = rows.iter().map(|row| row.0).filter(|at| order(*at) > order(after)).collect();
        self.ids.fetch_add(ids.len() as u64, Ordering::Relaxed);
        Ok(ids)
    }

    async fn row(&self, bucket: i64, at: CqlTimeuuid, is_last: bool) -> Result<Option<Row>, StoreError> {
        let row = self.find(bucket, is_last)?.into_iter().find(|row| row.0 == at);
        self.count(row.as_slice());
        Ok(row)
    }
}

/// An hour of rows, some of them late, by machines whose clocks differ, and requests that fail.
#[tokio::test]
async fn each_row_is_read_once_and_none_is_missed() {
    let feed = Feed::new(97);
    let mut reader = feed.reader(NOW);
    let (mut written, mut returned) = (BTreeSet::new(), Vec::new());
    let mut seed = 9_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as i64 % below as i64
    };
    for second in 0..3600 + 4 * LATE_SECONDS {
        feed.clock.advance(1);
        if second < 3600 {
            let name = format!("row.{second}");
            let late = if random(10) == 0 { 1 + random(59) } else { 0 };
            feed.write(&name, random(110) - 55, late, 1);
            written.insert(name);
        }
        if second % 2 == 0
            && let Ok(changes) = reader.poll().await
        {
            assert!(!changes.missed);
            returned.extend(changes.names.into_iter().map(|(name, _)| name));
        }
    }
    assert_eq!(returned.len(), 3600, "each is returned once");
    assert_eq!(returned.into_iter().collect::<BTreeSet<_>>(), written);
    let transferred = feed.transferred.lock().unwrap();
    assert_eq!(transferred.values().sum::<u64>(), 3600, "the names of a row are read once");
    // The times of rows are read about once in 30 s, for four minutes.
    let ids = feed.ids.load(Ordering::Relaxed);
    assert!(ids < 3600 * 12, "{ids} times of rows");
    let requests = feed.requests.load(Ordering::Relaxed);
    assert!(requests < (3600 + 4 * LATE_SECONDS as u64) * 3 / 2, "{requests} requests");
}

#[tokio::test]
async fn rows_are_found_by_the_next_poll() {
    let feed = Feed::new(u64::MAX);
    let mut reader = feed.reader(NOW);
    let names = |changes: Changes| changes.names.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(reader.poll().await.unwrap()), [""; 0]);
    for (name, ahead, origin) in [("near", 9, 1), ("behind", -9, 1), ("ours", 0, 7)] {
        feed.clock.advance(1);
        feed.write(name, ahead, 0, origin);
        let wanted: &[&str] = if origin == 7 { &[] } else { &[name] };
        assert_eq!(names(reader.poll().await.unwrap()), wanted);
    }
    // The clock was ahead and is set back.
    feed.clock.advance(3600);
    reader.poll().await.unwrap();
    feed.clock.advance(-3600);
    feed.write("after", 0, 0, 1);
    assert!(names(reader.poll().await.unwrap()).contains(&"after".to_owned()));
}

/// Rows that the answering replica lacks are found by the last read, which asks several replicas.
#[tokio::test]
async fn a_replica_that_lags_hides_nothing() {
    let feed = Feed::new(u64::MAX);
    let mut reader = feed.reader(NOW);
    feed.write("hidden", 0, 0, 1);
    feed.rows.lock().unwrap()[0].seen_from = i64::MAX;
    let mut found = Vec::new();
    for _ in 0..LATE_SECONDS {
        feed.clock.advance(2);
        found.extend(reader.poll().await.unwrap().names);
    }
    assert_eq!(found, [("hidden".to_owned(), None)]);
}

#[tokio::test]
async fn a_reader_that_was_away_reads_what_it_missed() {
    let feed = Feed::new(u64::MAX);
    let day = i64::from(CHANGES_TTL_SECONDS);
    feed.clock.set(NOW - day / 2);
    feed.write("old", 0, 0, 1);
    feed.clock.set(NOW);
    feed.write("new", 0, 0, 1);
    let mut reader = feed.reader(NOW - day / 2 - 60);
    let mut found = Vec::new();
    while found.len() < 2 {
        let before = feed.requests.load(Ordering::Relaxed);
        let changes = reader.poll().await.unwrap();
        assert!(feed.requests.load(Ordering::Relaxed) - before <= BUCKETS_MAX as u64);
        assert!(!changes.missed && (found.len() + changes.names.len() == 2 || changes.read_until < NOW));
        found.extend(changes.names);
        feed.clock.advance(2);
    }
    let mut reader = feed.reader(NOW - day - 60);
    assert!(reader.poll().await.unwrap().missed);
    assert!(!reader.poll().await.unwrap().missed, "said once");
}

#[test]
fn later_is_greater() {
    let (early, late) = (time_uuid(1_700_000_000), time_uuid(1_700_000_001));
    assert!(order(early) < order(late));
}

/// A clock that was two days ahead for a moment, in this process or in the previous one.
#[tokio::test]
async fn changes_are_seen_after_a_clock_was_ahead() {
    let feed = Feed::new(u64::MAX);
    let written = async |reader: &mut FeedReader, name: &str| {
        feed.clock.advance(1);
        feed.write(name, 0, 0, 1);
        let changes = reader.poll().await.unwrap();
        assert!(!changes.missed && changes.names.contains(&(name.to_owned(), None)), "{changes:?}");
    };
    let mut reader = feed.reader(NOW);
    written(&mut reader, "before").await;
    feed.clock.jump(2 * 86_400);
    assert!(reader.poll().await.unwrap().missed);
    feed.clock.jump(-2 * 86_400);
    assert!(reader.poll().await.unwrap().missed, "what was written meanwhile looked old");
    written(&mut reader, "after").await;

    let mut reader = feed.reader(NOW + 86_400);
    let changes = reader.poll().await.unwrap();
    assert!(changes.missed && changes.read_until < NOW + 60, "{changes:?}");
    written(&mut reader, "in the next process").await;
}
