//! Stores the history of metrics, which may get points meanwhile, and reads it back.
//!
//! `arrange` maps a history to the stages of its metric, and `plan` decides which rows are stored. The code
//! for the heads is in `shard/import.rs`. The reasons are in `docs/decisions/whisper-import.md`.

mod arrange;
mod plan;
mod read_back;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{
    ErrorKind, FetchError, FlushBatch, History, HistoryOptions, HistoryReport, HistorySink, MetricMeta,
    StateRow, StoreError,
};

use self::arrange::{Arranged, arrange};
use self::plan::{ImportPlan, Subject};
use crate::engine::Engine;
use crate::shard::downsample::MetricLayout;
use crate::shard::import::{Begin, Begun, End, ImportHead};
use crate::slots::{Stored, read_stored};

/// How many times a metric is requested while it is being flushed or gets late points. After that its history
/// is refused.
const TRIES: u32 = 400;
/// Pause between two of these requests.
const PAUSE: Duration = Duration::from_millis(25);
/// How many times a commit is tried if it fails with a transient error.
const COMMITS: u32 = 8;

/// The reason for refusing the history of a metric that is never at rest.
const BUSY: &str = "busy: it is being flushed or gets late points all the time; import it again";

/// A history that is being stored.
struct Work {
    place: usize,
    history: History,
    head: Box<ImportHead>,
    created: bool,
}

#[boxed_futures]
impl HistorySink for Engine {
    async fn take(
        &self,
        histories: Vec<History>,
        options: HistoryOptions,
    ) -> Result<Vec<HistoryReport>, StoreError> {
        // Runs in a separate task: heads that were requested have to be released even if the caller is
        // dropped.
        let engine = self.clone();
        let taking = tokio::spawn(async move { engine.take_histories(histories, options).await });
        match taking.await {
            Ok(result) => result,
            Err(error) => Err(StoreError::with(ErrorKind::Internal, "store histories", error)),
        }
    }

    async fn histories(&self, names: &[&str]) -> Result<Vec<Option<History>>, StoreError> {
        read_back::histories(self, names).await
    }
}

impl Engine {
    /// Implements [`HistorySink::take`].
    pub(crate) async fn take_histories(
        &self,
        histories: Vec<History>,
        options: HistoryOptions,
    ) -> Result<Vec<HistoryReport>, StoreError> {
        let mut reports = vec![HistoryReport::default(); histories.len()];
        let known = self.create_missing(&histories, &mut reports, options.dry_run).await?;
        let mut waiting: VecDeque<(usize, History)> = histories.into_iter().enumerate().collect();
        waiting.retain(|(place, _)| reports[*place].refused.is_empty());
        for try_number in 0..TRIES {
            let works = self.begin_histories(&mut waiting, &mut reports, options, &known).await?;
            self.store_histories(works, &mut reports, options).await?;
            if waiting.is_empty() {
                break;
            }
            if try_number + 1 < TRIES {
                tokio::time::sleep(PAUSE).await;
            }
        }
        for (place, _) in waiting {
            reports[place].refused = BUSY.to_owned();
        }
        Ok(reports)
    }

    /// Creates the metrics that do not exist. Returns for each history whether its metric existed.
    async fn create_missing(
        &self,
        histories: &[History],
        reports: &mut [HistoryReport],
        dry_run: bool,
    ) -> Result<Vec<bool>, StoreError> {
        let parts = self.parts();
        let names: Vec<&str> = histories.iter().map(|history| history.name.as_str()).collect();
        let mut exists = self.contains(&names).await.map_err(stopping)?;
        let stored = parts.metadata.get(&names).await?;
        let (mut new, mut adopted) = (Vec::new(), Vec::new());
        let now = parts.clock.now();
        for (place, history) in histories.iter().enumerate() {
            let has_head = std::mem::replace(&mut exists[place], true);
            match &stored[place] {
                Some(meta) => {
                    reports[place].differs = meta.config != history.config;
                    if !has_head {
                        adopted.push(meta.clone());
                    }
                }
                None if has_head => {}
                None => {
                    exists[place] = false;
                    let Some(refused) = self.refuses(&history.name, dry_run) else {
                        reports[place].created = true;
                        let (name, config) = (history.name.clone(), Arc::clone(&history.config));
                        new.push(MetricMeta { name, config, created_on: u32::try_from(now).unwrap_or(0) });
                        continue;
                    };
                    reports[place].refused = refused;
                }
            }
        }
        if dry_run {
            return Ok(exists);
        }
        let _both = self.between_stores().await;
        if !new.is_empty() {
            parts.metadata.create(&new).await?;
        }
        new.append(&mut adopted);
        self.adopt(&new).await.map_err(stopping)?;
        Ok(exists)
    }

    /// Why a metric cannot be created; `None` if it can.
    pub(crate) fn refuses(&self, name: &str, dry_run: bool) -> Option<String> {
        if (self.parts().name_check)(name).is_err() {
            return Some("name: the store cannot hold this name".to_owned());
        }
        let has_room = dry_run || self.allowance().take();
        (!has_room).then(|| "memory: there is no memory left for new metrics (engine.memory_max)".to_owned())
    }

    /// Asks the shards for the heads of the histories in `left`. Histories whose heads are busy stay in the
    /// list.
    async fn begin_histories(
        &self,
        waiting: &mut VecDeque<(usize, History)>,
        reports: &mut [HistoryReport],
        options: HistoryOptions,
        known: &[bool],
    ) -> Result<Vec<Work>, StoreError> {
        let asked: Vec<(usize, History)> = std::mem::take(waiting).into();
        let begins = asked.iter().map(|(_, history)| Begin {
            hash: self.router().hash(&history.name),
            until: end_of(history),
            dry_run: options.dry_run,
        });
        let answers = self.begin_import(begins.collect()).await.map_err(stopping)?;
        let mut works = Vec::with_capacity(asked.len());
        for ((place, history), begun) in asked.into_iter().zip(answers) {
            let created = !known[place];
            match begun {
                Begun::Ready(head) => works.push(Work { place, history, head, created }),
                Begun::Busy => waiting.push_back((place, history)),
                // A dry run creates nothing.
                Begun::Unknown if options.dry_run => {
                    reports[place].stored = history.points();
                }
                Begun::Unknown => reports[place].refused = "deleted: it was deleted meanwhile".to_owned(),
            }
        }
        Ok(works)
    }

    async fn store_histories(
        &self,
        works: Vec<Work>,
        reports: &mut [HistoryReport],
        options: HistoryOptions,
    ) -> Result<(), StoreError> {
        if works.is_empty() {
            return Ok(());
        }
        let result = self.plan_and_commit(&works, reports, options).await;
        if options.dry_run {
            return result.map(drop);
        }
        let (mut plans, result) = match result {
            Ok(plans) => (plans, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        plans.resize_with(works.len(), ImportPlan::default);
        let ends = works.iter().zip(plans).map(|(work, plan)| {
            let open = (plan.open.len() == work.head.layout.coarse()).then_some(plan.open);
            let end = End {
                at: work.head.at,
                name: work.history.name.as_str().into(),
                open,
                fill: plan.fill,
                config: None,
            };
            (self.router().shard(&self.router().hash(&work.history.name)), end)
        });
        self.end_import(ends.collect()).await.map_err(stopping)?;
        result
    }

    async fn plan_and_commit(
        &self,
        works: &[Work],
        reports: &mut [HistoryReport],
        options: HistoryOptions,
    ) -> Result<Vec<ImportPlan>, StoreError> {
        let parts = self.parts();
        let now = parts.clock.now();
        let arranged: Vec<Arranged> =
            works.iter().map(|work| arrange(&work.head.layout, &work.history.stages, now)).collect();
        let stored = self.read_stored(works, &arranged, now).await?;
        let (mut rows, mut shared) = (Vec::new(), Vec::new());
        let mut plans = Vec::with_capacity(works.len());
        for ((work, arranged), stored) in works.iter().zip(&arranged).zip(&stored) {
            let overwrites = options.overwrites;
            let head = &*work.head;
            let subject = Subject { head, stages: &arranged.stages, stored, overwrites, now };
            let mut plan = subject.plan();
            let laid: u64 = arranged.stages.iter().map(|cells| cells.len() as u64).sum();
            let HistoryReport { stored, kept, folded, .. } = plan.report;
            let left_out = arranged.left_out.max(work.history.points().saturating_sub(laid));
            let report = &mut reports[work.place];
            *report = HistoryReport { stored, kept, folded, left_out, ..report.clone() };
            rows.push(std::mem::take(&mut plan.rows));
            shared.push(std::mem::take(&mut plan.shared));
            plans.push(plan);
        }
        if options.dry_run {
            return Ok(plans);
        }
        let mut batch = FlushBatch::default();
        for part in &mut shared {
            if !part.runs.is_empty() {
                parts.points.subtract_other_writers(part).await?;
            }
        }
        for part in rows.iter().chain(&shared) {
            for run in &part.runs {
                batch.rows.push(*run, part.values(run), Some(part.counts(run)));
            }
        }
        for (work, plan) in works.iter().zip(&plans) {
            let state = work.head.state.with_open(&plan.open);
            batch.states.push(StateRow { id: work.head.id, bytes: state.encode() });
        }
        self.commit_history(batch).await?;
        Ok(plans)
    }

    /// Reads the stored slots in the range of each stage; none for metrics that were just created.
    async fn read_stored(
        &self,
        works: &[Work],
        arranged: &[Arranged],
        now: i64,
    ) -> Result<Vec<Vec<Stored>>, StoreError> {
        let mut wanted = Vec::new();
        for (work, arranged) in works.iter().zip(arranged).filter(|(work, _)| !work.created) {
            for (stage, range) in ranges(&work.head, arranged, now).into_iter().enumerate() {
                wanted.push(work.head.layout.range(work.head.id, stage, range.0, range.1));
            }
        }
        let mut read = read_stored(&*self.parts().points, &wanted).await?.into_iter();
        let stored = works.iter().map(|work| {
            let stages = if work.created { 0 } else { work.head.layout.coarse() + 1 };
            read.by_ref().take(stages).collect()
        });
        Ok(stored.collect())
    }

    pub(crate) async fn commit_history(&self, batch: FlushBatch) -> Result<(), StoreError> {
        let batch = Arc::new(batch);
        let mut pause = PAUSE;
        for try_number in 1.. {
            let (flush, batch) = (Arc::clone(&self.parts().flush), Arc::clone(&batch));
            let committed = tokio::task::spawn_blocking(move || flush.commit(&batch)).await;
            let committed = committed
                .unwrap_or_else(|error| Err(StoreError::with(ErrorKind::Internal, "store histories", error)));
            match committed {
                Err(error) if error.is_transient() && try_number < COMMITS => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                result => return result,
            }
        }
        Ok(())
    }
}

/// The start of the slot after the last one of a history, in seconds since the epoch. For a coarse stage it
/// is the start of the last slot, because that slot may not have ended yet.
fn end_of(history: &History) -> u32 {
    let ends = history.stages.iter().enumerate().filter_map(|(index, stage)| {
        let (time, _) = stage.points.last()?;
        Some(if index == 0 { time.saturating_add(stage.resolution) } else { *time })
    });
    ends.max().unwrap_or(0)
}

/// The slots of each stage that a plan may need.
fn ranges(head: &ImportHead, arranged: &Arranged, now: i64) -> Vec<(u32, u32)> {
    let layout: &MetricLayout = &head.layout;
    let range = |(stage, cells): (usize, &Vec<arrange::Cell>)| {
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
            return if stage == 0 { raw_range(head, arranged, now) } else { (0, 0) };
        };
        if stage == 0 { raw_range(head, arranged, now) } else { (first.slot, last.slot + 1) }
    };
    debug_assert_eq!(arranged.stages.len(), layout.coarse() + 1);
    arranged.stages.iter().enumerate().map(range).collect()
}

/// The raw slots in the store that may be needed to fold a window. The range starts at the first slot or
/// window of the history, or at an open window if that begins earlier. Expired slots are left out. Nothing
/// before this range is read, because a raw stage may hold years of slots of one second.
fn raw_range(head: &ImportHead, arranged: &Arranged, now: i64) -> (u32, u32) {
    let raw = head.layout.raw;
    let oldest = u32::try_from(now - raw.duration() as i64).unwrap_or(0);
    let per = |stage: usize| stage.checked_sub(1).map_or(1, |coarse| head.layout.per[coarse]);
    let touched = arranged
        .stages
        .iter()
        .enumerate()
        .filter_map(|(stage, cells)| cells.first().map(|cell| cell.slot.saturating_mul(per(stage))));
    let open = (0..arranged.stages.len()).map(|stage| head.base / per(stage) * per(stage));
    let first = touched.chain(open).min().unwrap_or(head.base);
    (first.max(raw.slot(oldest)).min(head.base), head.base)
}

fn stopping(_: FetchError) -> StoreError {
    StoreError::new(ErrorKind::Closed, "store histories: the engine is stopping")
}
