//! A cache of decoded columns that were read recently. Dashboards repeat their queries, and a repeated read
//! gets a copy from the cache.
//!
//! Every write of a metric makes its columns stale. A writer calls [`Columns::written`] after its commit and before it
//! returns. A column is cached together with the mark that its metric had before the read ([`Columns::mark`]). If a
//! write came in between, the mark has changed, and the column is never returned.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use plumbago_model::MetricId;
use plumbago_store::{Column, SlotRange};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use xxhash_rust::xxh3::xxh3_64;

use crate::catalogue::StageKey;

/// The number of marks, which metrics share. A write also drops the columns of metrics with the same mark.
const MARKS: usize = 1 << 18;

/// Maximum number of slots after the end of a range that are read too, for requests that follow a little
/// later.
const AHEAD: u32 = 64;

/// Size of an entry without its values, in bytes.
const ENTRY_BYTES: usize = 200;

/// A typical size of a column in bytes, which is used to estimate the number of entries: a day at a
/// resolution of one minute.
const COLUMN_BYTES: u64 = 12 << 10;

/// The cache of columns, with a limited size in bytes.
pub(crate) struct Columns {
    /// The cache; `None` if the settings disable it.
    cache: Option<Cache<ColumnKey, Arc<Kept>, Bytes>>,
    /// For each mark, how often the metrics that share it were written; wraps.
    marks: Box<[AtomicU32]>,
}

/// Identifies a column.
type ColumnKey = (MetricId, StageKey);

/// The mark of a metric at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u32);

struct Kept {
    mark: Mark,
    range: SlotRange,
    column: Column,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<ColumnKey, Arc<Kept>> for Bytes {
    fn weight(&self, _: &ColumnKey, kept: &Arc<Kept>) -> u64 {
        (kept.column.values.len() * 8 + kept.column.counts.len() * 4 + ENTRY_BYTES) as u64
    }
}

impl Columns {
    /// A cache of at most this many bytes; with 0 it keeps nothing.
    pub(crate) fn new(bytes: u64) -> Self {
        let cache = || Cache::with_weighter((bytes / COLUMN_BYTES + 1) as usize, bytes, Bytes);
        let marks = if bytes > 0 { MARKS } else { 1 };
        Self {
            cache: (bytes > 0).then(cache),
            marks: std::iter::repeat_with(AtomicU32::default).take(marks).collect(),
        }
    }

    /// The cached column for a range.
    pub(crate) fn get(&self, range: &SlotRange) -> Option<Column> {
        let kept = self.cache.as_ref()?.get(&column_key(range))?;
        let covers = kept.range.from <= range.from && range.until <= kept.range.until;
        (covers && kept.mark == self.mark(&range.id)).then(|| part(&kept.column, &kept.range, range))
    }

    /// The mark of a metric. Take it before reading a column that is to be kept.
    pub(crate) fn mark(&self, id: &MetricId) -> Mark {
        Mark(self.of(id).load(Ordering::Acquire))
    }

    /// A wider range to read instead, so that its column can serve later requests. `None` if nothing is cached.
    pub(crate) fn wider(&self, range: &SlotRange) -> Option<SlotRange> {
        self.cache.as_ref()?;
        let ahead = (range.until - range.from).min(AHEAD);
        Some(SlotRange { until: range.until.saturating_add(ahead), ..*range })
    }

    /// Keeps the column of a wider range, and returns the part for `range`.
    pub(crate) fn keep(&self, mark: Mark, wider: &SlotRange, column: Column, range: &SlotRange) -> Column {
        let answer = part(&column, wider, range);
        if let Some(cache) = &self.cache {
            let kept = Kept { mark, range: *wider, column };
            cache.insert(column_key(range), Arc::new(kept));
        }
        answer
    }

    /// Makes the columns of a metric stale, because its rows were written or deleted.
    pub(crate) fn written(&self, id: &MetricId) {
        if self.cache.is_some() {
            self.of(id).fetch_add(1, Ordering::Release);
        }
    }

    /// Drops all columns.
    pub(crate) fn clear(&self) {
        self.marks.iter().for_each(|mark| {
            mark.fetch_add(1, Ordering::Release);
        });
        if let Some(cache) = &self.cache {
            cache.clear();
        }
    }

    fn of(&self, id: &MetricId) -> &AtomicU32 {
        &self.marks[xxh3_64(&id.0) as usize & (self.marks.len() - 1)]
    }
}

fn column_key(range: &SlotRange) -> ColumnKey {
    (range.id, StageKey { stage: range.stage, coarse: range.stage_index > 0 })
}

/// The part of a wider range's column that belongs to a range.
pub(crate) fn part(column: &Column, wider: &SlotRange, range: &SlotRange) -> Column {
    let slots = (range.from - wider.from) as usize..(range.until - wider.from) as usize;
    let counts = column.counts.get(slots.clone()).unwrap_or_default();
    Column { values: column.values[slots].to_vec(), counts: counts.to_vec(), others: None }
}
