//! Fills the new stages of many metrics. The slots they need are read for several metrics at once, and the
//! results are stored together.

use plumbago_model::Window;
use plumbago_store::{FlushBatch, ReadRequest, SlotRange, StoreError, WriteBatch};

use super::Work;
use super::fill::{Part, READ_SLOTS};
use crate::engine::Engine;
use crate::read::read_merged;
use crate::slots::Stored;

/// Approximate number of slots of new stages that are stored in one commit. A larger commit would delay
/// flushes for too long.
const COMMIT_SLOTS: usize = 1 << 16;
/// Before a part with more slots than this is read, the store is asked where it has rows: a stage may have
/// years of slots of one second, most of them empty.
const LONG_SLOTS: u64 = 1 << 16;
/// Largest number of parts that are read together.
const PARTS_AT_ONCE: usize = 512;

/// Parts that are read together.
#[derive(Debug)]
struct Group {
    request: ReadRequest,
    /// Number of slots in the request.
    slots: u64,
    /// The parts, each with the position of its metric.
    parts: Vec<(usize, Part)>,
}

/// Values that were filled and are not in the store yet.
#[derive(Debug, Default)]
struct Pending {
    rows: WriteBatch,
    /// Slots whose values from an earlier time must be deleted.
    gone: Vec<SlotRange>,
}

impl Group {
    fn new() -> Self {
        let request = ReadRequest { include_retained: true, ..ReadRequest::default() };
        Self { request, slots: 0, parts: Vec::new() }
    }

    fn add(&mut self, place: usize, part: Part) {
        self.slots += part.read();
        self.request.ranges.extend_from_slice(&part.ranges);
        self.parts.push((place, part));
    }
}

impl Engine {
    /// Fills the new stages of blocked metrics, and finds their open windows.
    pub(super) async fn fill_all(&self, works: &mut [Work], now: i64) -> Result<(), StoreError> {
        let (mut group, mut pending) = (Group::new(), Pending::default());
        for place in 0..works.len() {
            if works[place].is_light() {
                continue;
            }
            let parts = works[place].change(now).parts();
            for mut part in parts {
                if part.read() > LONG_SLOTS {
                    part.narrow(&self.parts().points.occupied(&part.ranges, true).await?);
                }
                let is_full = group.slots + part.read() > READ_SLOTS || group.parts.len() >= PARTS_AT_ONCE;
                if !group.parts.is_empty() && is_full {
                    let full = std::mem::replace(&mut group, Group::new());
                    self.fill_group(works, full, now, &mut pending).await?;
                }
                group.add(place, part);
            }
        }
        self.fill_group(works, group, now, &mut pending).await?;
        self.store_filled(&mut pending).await
    }

    async fn fill_group(
        &self,
        works: &mut [Work],
        group: Group,
        now: i64,
        pending: &mut Pending,
    ) -> Result<(), StoreError> {
        let columns = read_merged(&*self.parts().points, &group.request).await?;
        let ranges = group.request.ranges.iter();
        let read: Vec<Stored> =
            ranges.zip(columns).map(|(range, column)| Stored::new(range.from, column)).collect();
        let mut read = read.into_iter();
        for (place, part) in group.parts {
            let sources: Vec<Stored> = read.by_ref().take(part.ranges.len()).collect();
            fill_part(&mut works[place], &part, &sources, now, pending);
            if pending.rows.values.len() + pending.gone.len() >= COMMIT_SLOTS {
                self.store_filled(pending).await?;
            }
            // Lets other tasks of this thread run meanwhile, such as the connections of senders.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn store_filled(&self, pending: &mut Pending) -> Result<(), StoreError> {
        let Pending { mut rows, gone } = std::mem::take(pending);
        let points = &self.parts().points;
        if !gone.is_empty() {
            points.delete_ranges(&gone).await?;
        }
        if rows.runs.is_empty() {
            return Ok(());
        }
        points.subtract_other_writers(&mut rows).await?;
        self.commit_history(FlushBatch { rows, ..FlushBatch::default() }).await
    }
}

fn fill_part(work: &mut Work, part: &Part, sources: &[Stored], now: i64, pending: &mut Pending) {
    let change = work.change(now);
    let (old, own) = sources.split_at(sources.len() - part.stages.len());
    let mut points = 0;
    for ((stage, slots), own) in part.stages.iter().zip(own) {
        let filled = change.fill(*stage, slots, old, own);
        points += change.push(*stage, &filled, &mut pending.rows);
        let gone = filled.gone.iter();
        let gone = gone.map(|slots| work.layout.range(work.head.id, *stage, slots.start, slots.end));
        pending.gone.extend(gone);
    }
    let open = |stage| change.open(stage, old);
    let open: Option<Vec<Window>> = part.with_open.then(|| (1..=work.layout.coarse()).map(open).collect());
    work.points += points;
    if let Some(open) = open {
        work.open = open;
    }
}
