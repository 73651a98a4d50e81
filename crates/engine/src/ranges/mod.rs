//! Deletes a range of time from metrics that may get points meanwhile.
//!
//! `plan` decides which slots are deleted and which windows are folded again. The code for the heads is in
//! `shard/ranges.rs`. The reasons are in `docs/decisions/delete.md`.

pub(crate) mod plan;

use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{
    ErrorKind, FlushBatch, RangeDeleter, RangeReport, SlotRange, StateRow, StoreError, TimeRange,
};

use self::plan::{Edge, RangePlan, Subject};
use crate::engine::Engine;
use crate::shard::import::{Begun, End, ImportHead};
use crate::shard::ranges::{Ask, BeginRange, raw_slots};
use crate::slots::{Stored, read_pieces, read_stored};

/// How many times metrics are requested while points of them are on their way to the store.
const TRIES: u32 = 400;
/// Pause between two of these requests.
const PAUSE: Duration = Duration::from_millis(20);
/// Approximate number of slots that are read at a time.
const READ_SLOTS: u64 = 1 << 20;
/// Points further ahead of now than this, in seconds, are not counted.
const AHEAD_SECONDS: i64 = 2 * 86_400;

/// A metric whose deletion is in progress.
struct Work {
    place: usize,
    name: Arc<str>,
    head: Box<ImportHead>,
    edges: Vec<Edge>,
    plan: RangePlan,
    /// The new open windows for the head; `None` until they are committed.
    open: Option<Vec<plumbago_model::Window>>,
}

#[boxed_futures]
impl RangeDeleter for Engine {
    async fn delete_range(
        &self,
        names: &[&str],
        range: TimeRange,
        dry_run: bool,
    ) -> Result<Vec<RangeReport>, StoreError> {
        // Runs in a separate task: blocked heads have to be released even if the caller is
        // dropped.
        let (engine, names) = (self.clone(), names.iter().map(|name| Arc::from(*name)).collect::<Vec<_>>());
        let deleting = tokio::spawn(async move { engine.delete_range_of(&names, range, dry_run).await });
        match deleting.await {
            Ok(result) => result,
            Err(error) => Err(StoreError::with(ErrorKind::Internal, "delete a range", error)),
        }
    }
}

impl Engine {
    async fn delete_range_of(
        &self,
        names: &[Arc<str>],
        range: TimeRange,
        dry_run: bool,
    ) -> Result<Vec<RangeReport>, StoreError> {
        let mut reports = vec![RangeReport::default(); names.len()];
        self.load_missing(names).await?;
        let mut left: Vec<usize> = (0..names.len()).collect();
        let ask = if dry_run { Ask::Look } else { Ask::Begin };
        let mut result = Ok(());
        for _ in 0..TRIES {
            result = self.handle(names, &left, range, ask, &mut reports).await;
            left.retain(|place| reports[*place].is_busy);
            if left.is_empty() || result.is_err() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        if !dry_run {
            self.ask_for(names, &left, range, Ask::Leave).await?;
        }
        result.map(|()| reports)
    }

    /// Requests metrics and handles those that are at rest.
    async fn handle(
        &self,
        names: &[Arc<str>],
        places: &[usize],
        range: TimeRange,
        ask: Ask,
        reports: &mut [RangeReport],
    ) -> Result<(), StoreError> {
        let mut works = self.begin(names, places, range, ask, reports).await?;
        if ask == Ask::Look {
            return self.count(&mut works, range, reports).await;
        }
        let result = self.carry_out(&mut works, range, reports).await;
        let end = |work: Work| {
            let shard = self.router().shard(&self.router().hash(&work.name));
            let (at, name, open) = (work.head.at, work.name, work.open);
            (shard, End { at, name, open, fill: Vec::new(), config: None })
        };
        self.end_import(works.into_iter().map(end).collect()).await.map_err(stopping)?;
        result
    }

    async fn ask_for(
        &self,
        names: &[Arc<str>],
        places: &[usize],
        range: TimeRange,
        ask: Ask,
    ) -> Result<Vec<Begun>, StoreError> {
        let begin = |place: &usize| BeginRange { hash: self.router().hash(&names[*place]), range, ask };
        self.begin_range(places.iter().map(begin).collect()).await.map_err(stopping)
    }

    /// Loads metrics that are in the store but in no shard, so that points that arrive meanwhile find a head.
    pub(crate) async fn load_missing(&self, names: &[Arc<str>]) -> Result<(), StoreError> {
        self.apply_queued().await.map_err(stopping)?;
        let refs: Vec<&str> = names.iter().map(|name| &**name).collect();
        let known = self.contains(&refs).await.map_err(stopping)?;
        let missing: Vec<&str> =
            refs.into_iter().zip(known).filter(|(_, known)| !known).map(|(name, _)| name).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let found: Vec<_> = self.parts().metadata.get(&missing).await?.into_iter().flatten().collect();
        self.adopt(&found).await.map_err(stopping)
    }

    async fn begin(
        &self,
        names: &[Arc<str>],
        places: &[usize],
        range: TimeRange,
        ask: Ask,
        reports: &mut [RangeReport],
    ) -> Result<Vec<Work>, StoreError> {
        let answers = self.ask_for(names, places, range, ask).await?;
        let now = self.parts().clock.now();
        let mut works = Vec::with_capacity(places.len());
        for (place, begun) in places.iter().copied().zip(answers) {
            let report = &mut reports[place];
            report.exists = !matches!(begun, Begun::Unknown);
            report.is_busy = matches!(begun, Begun::Busy);
            if let Begun::Ready(head) = begun {
                report.points = head.dropped;
                let edges = subject(&head, range, now).edges();
                let (name, plan) = (Arc::clone(&names[place]), RangePlan::default());
                works.push(Work { place, name, head, edges, plan, open: None });
            }
        }
        Ok(works)
    }

    /// Reads the slots from which the windows at the borders are folded, and makes the plan.
    async fn plan(
        &self,
        works: &mut [Work],
        range: TimeRange,
        reports: &mut [RangeReport],
    ) -> Result<(), StoreError> {
        let now = self.parts().clock.now();
        let mut rest = works;
        while !rest.is_empty() {
            let mut ranges = Vec::new();
            let (mut slots, mut taken) = (0, 0);
            while taken < rest.len() && slots < READ_SLOTS {
                let work = &rest[taken];
                for read in subject(&work.head, range, now).reads(&work.edges) {
                    slots += u64::from(read.until - read.from);
                    ranges.push(read);
                }
                taken += 1;
            }
            let stored = read_stored(&*self.parts().points, &ranges).await?;
            let mut stored = stored.as_slice();
            let (now_read, left) = rest.split_at_mut(taken);
            for work in now_read {
                let (own, others) = stored.split_at(2 * work.edges.len());
                stored = others;
                work.plan = subject(&work.head, range, now).plan(&work.edges, own);
                let report = &mut reports[work.place];
                (report.folded, report.kept) = (work.plan.folded, work.plan.kept);
            }
            rest = left;
        }
        Ok(())
    }

    /// Carries out the deletion. The order of the steps matters if a kill comes between them: the slots from
    /// which windows are folded are deleted last, so that repeating the call gives the same result.
    async fn carry_out(
        &self,
        works: &mut [Work],
        range: TimeRange,
        reports: &mut [RangeReport],
    ) -> Result<(), StoreError> {
        self.plan(works, range, reports).await?;
        let parts = self.parts();
        // The store may have rows of windows that the head still folds: rows of other writers, rows from
        // flushes at intervals, and rows from a flush whose slots have changed since then.
        let stale: Vec<SlotRange> = works.iter().flat_map(|work| work.plan.stale.clone()).collect();
        parts.points.delete_ranges(&stale).await?;
        let mut batch = FlushBatch::default();
        for work in works.iter_mut() {
            let rows = &work.plan.rows;
            for run in &rows.runs {
                batch.rows.push(*run, rows.values(run), Some(rows.counts(run)));
            }
            // If the state row of a head was lost, none is written here either, so that the open windows are
            // folded from the store.
            if !work.head.is_refolded {
                let bytes = work.head.state.with_open(&work.plan.open).encode();
                batch.states.push(StateRow { id: work.head.id, bytes });
            }
        }
        // Other writers may have stored windows since the deletion above.
        parts.points.subtract_other_writers(&mut batch.rows).await?;
        self.commit_history(batch).await?;
        for work in works.iter_mut() {
            work.open = Some(std::mem::take(&mut work.plan.open));
        }
        let gone: Vec<SlotRange> = works.iter().flat_map(|work| work.plan.gone.clone()).collect();
        parts.points.delete_ranges(&gone).await
    }

    /// Counts the points in the range, in memory and in the store.
    async fn count(
        &self,
        works: &mut [Work],
        range: TimeRange,
        reports: &mut [RangeReport],
    ) -> Result<(), StoreError> {
        self.plan(works, range, reports).await?;
        for work in works {
            let report = &mut reports[work.place];
            let subject = subject(&work.head, range, self.parts().clock.now());
            let held = |slot: u32| work.head.pairs.binary_search_by_key(&slot, |(slot, _)| *slot).is_ok();
            let in_memory = work.head.pairs.iter().map(|(slot, _)| *slot);
            let ahead = work.head.state.future.iter().map(|(time, _)| work.head.layout.raw.slot(*time));
            report.points = in_memory.chain(ahead).filter(|slot| subject.slots.contains(slot)).count() as u64;
            for stage in 0..=work.head.layout.coarse() {
                let known = self.count_stage(&subject, stage, &held).await?;
                *(if stage == 0 { &mut report.points } else { &mut report.windows }) += known;
            }
        }
        Ok(())
    }

    /// The number of slots of a stage that would be deleted from the store, except those that are also in the
    /// head.
    async fn count_stage(
        &self,
        subject: &Subject<'_>,
        stage: usize,
        held: &(impl Fn(u32) -> bool + Sync),
    ) -> Result<u64, StoreError> {
        let (layout, now) = (&subject.head.layout, subject.now);
        let of = layout.stage(stage);
        let slot = |time: i64| of.slot(u32::try_from(time.max(0)).unwrap_or(u32::MAX));
        let whole = subject.whole(stage);
        let from = whole.start.max(slot(now - of.duration() as i64));
        let end = whole.end.min(slot(now + AHEAD_SECONDS));
        let mut known = 0;
        let range = layout.range(subject.head.id, stage, from, end.max(from));
        let mut count = |_: usize, piece: Stored| {
            known += piece.iter().filter(|(slot, _)| !(stage == 0 && held(*slot))).count() as u64;
        };
        read_pieces(&*self.parts().points, &[range], &mut count).await?;
        Ok(known)
    }
}

fn subject(head: &ImportHead, range: TimeRange, now: i64) -> Subject<'_> {
    Subject { head, slots: raw_slots(range, head.layout.raw), now }
}

fn stopping(_: plumbago_store::FetchError) -> StoreError {
    StoreError::new(ErrorKind::Closed, "delete a range: the engine is stopping")
}
