//! Columns that were read lately, decoded: who asks again, as dashboards do, gets a copy of them.
//!
//! Each write of a metric makes what is kept of it worthless. A writer says so behind its commit and
//! before it returns ([`Columns::written`]), and a column is kept with the state that was known before
//! it was read ([`Columns::mark`]): one that a write may have overtaken is never answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use plumbago_model::MetricId;
use plumbago_store::{Column, SlotRange};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use xxhash_rust::xxh3::xxh3_64;

use crate::catalogue::StageKey;

/// Metrics share this many marks; a write of one takes the columns of those that share its mark too.
const MARKS: usize = 1 << 18;

/// Slots behind the end of a range that are read with it at most, for those who ask a little later.
const AHEAD: u32 = 64;

/// What an entry takes beside its values.
const ENTRY_BYTES: usize = 200;

/// For an estimate of how many entries there will be: a day of minutes.
const COLUMN_BYTES: u64 = 12 << 10;

/// Columns, bounded by bytes.
pub(crate) struct Columns {
    /// `None` when the settings leave no room.
    cache: Option<Cache<Owner, Arc<Kept>, Bytes>>,
    /// How often each was written, wrapping.
    marks: Box<[AtomicU32]>,
}

/// Whose column it is.
type Owner = (MetricId, StageKey);

/// How often a metric had been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u32);

struct Kept {
    mark: Mark,
    range: SlotRange,
    column: Column,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<Owner, Arc<Kept>> for Bytes {
    fn weight(&self, _: &Owner, kept: &Arc<Kept>) -> u64 {
        (kept.column.values.len() * 8 + kept.column.counts.len() * 4 + ENTRY_BYTES) as u64
    }
}

impl Columns {
    /// At most so many bytes; 0 for none.
    pub(crate) fn new(bytes: u64) -> Self {
        let cache = || Cache::with_weighter((bytes / COLUMN_BYTES + 1) as usize, bytes, Bytes);
        let marks = if bytes > 0 { MARKS } else { 1 };
        Self {
            cache: (bytes > 0).then(cache),
            marks: std::iter::repeat_with(AtomicU32::default).take(marks).collect(),
        }
    }

    /// What is kept of a range.
    pub(crate) fn get(&self, range: &SlotRange) -> Option<Column> {
        let kept = self.cache.as_ref()?.get(&owner(range))?;
        let covers = kept.range.from <= range.from && range.until <= kept.range.until;
        (covers && kept.mark == self.mark(&range.id)).then(|| part(&kept.column, &kept.range, range))
    }

    /// To be taken before a column is read that is going to be kept.
    pub(crate) fn mark(&self, id: &MetricId) -> Mark {
        Mark(self.of(id).load(Ordering::Acquire))
    }

    /// The range to read in place of another, so that the column serves for a while; `None` when
    /// nothing is kept.
    pub(crate) fn wider(&self, range: &SlotRange) -> Option<SlotRange> {
        self.cache.as_ref()?;
        let ahead = (range.until - range.from).min(AHEAD);
        Some(SlotRange { until: range.until.saturating_add(ahead), ..*range })
    }

    /// Keeps the column of a wider range, and answers the part that was asked for.
    pub(crate) fn keep(&self, mark: Mark, wider: &SlotRange, column: Column, range: &SlotRange) -> Column {
        let answer = part(&column, wider, range);
        if let Some(cache) = &self.cache {
            let kept = Kept { mark, range: *wider, column };
            cache.insert(owner(range), Arc::new(kept));
        }
        answer
    }

    /// Rows of a metric were written or deleted.
    pub(crate) fn written(&self, id: &MetricId) {
        if self.cache.is_some() {
            self.of(id).fetch_add(1, Ordering::Release);
        }
    }

    /// Forgets everything.
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

fn owner(range: &SlotRange) -> Owner {
    (range.id, StageKey { stage: range.stage, coarse: range.stage_index > 0 })
}

/// The slots of a range, of the column of a wider one.
pub(crate) fn part(column: &Column, wider: &SlotRange, range: &SlotRange) -> Column {
    let slots = (range.from - wider.from) as usize..(range.until - wider.from) as usize;
    let counts = column.counts.get(slots.clone()).unwrap_or_default();
    Column { values: column.values[slots].to_vec(), counts: counts.to_vec(), others: None }
}
