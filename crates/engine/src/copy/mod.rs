//! Copies metrics to other names. A move also begins to delete the originals. Points of both may arrive
//! meanwhile.
//!
//! `read` and `snapshot` find out which slots a metric has; `stored` does this for another store. The copy is stored in
//! the same way as an imported history (`import`). The code for the heads is in `shard/copy.rs`; the order and its
//! reasons are in `docs/decisions/copy-and-move.md`.

mod read;
mod snapshot;
mod stored;

use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{PointBatch, Window};
use plumbago_store::{
    CopyOptions, CopyReport, Creation, ErrorKind, FetchError, History, HistoryOptions, MetricCopier,
    MetricCopy, MetricCreator, SettingsChange, StoreError, TimeRange,
};

pub use self::stored::histories_in_tables;

use self::read::{Whole, read_stages};
use crate::engine::Engine;
use crate::shard::copy::{BeginMove, Moved};
use crate::shard::import::{Begun, End, ImportHead};
use crate::shard::ranges::{Ask, BeginRange};

/// How many times a metric is requested again while its points are on their way to the store.
const TRIES: u32 = 400;
/// Pause between two of these requests.
const PAUSE: Duration = Duration::from_millis(25);
/// How many times a move copies the points that arrived since its last try, and then tries again. After that
/// the metric is not moved.
const MOVE_TRIES: u32 = 20;

/// The reason for refusing a metric that is never at rest.
const BUSY: &str = "busy: it is being flushed or gets late points all the time; run the same command again";

/// A metric that is being copied. It is blocked.
struct Work {
    place: usize,
    copy: MetricCopy,
    head: Box<ImportHead>,
}

#[boxed_futures]
impl MetricCopier for Engine {
    async fn copy_metrics(
        &self,
        copies: Vec<MetricCopy>,
        options: CopyOptions,
    ) -> Result<Vec<CopyReport>, StoreError> {
        // Runs in a separate task: blocked heads have to be released even if the caller is
        // dropped.
        let engine = self.clone();
        let copying = tokio::spawn(async move { engine.copy_all(&copies, options).await });
        match copying.await {
            Ok(result) => result,
            Err(error) => Err(StoreError::with(ErrorKind::Internal, "copy metrics", error)),
        }
    }
}

impl Engine {
    async fn copy_all(
        &self,
        copies: &[MetricCopy],
        options: CopyOptions,
    ) -> Result<Vec<CopyReport>, StoreError> {
        let mut reports = vec![CopyReport::default(); copies.len()];
        let names: Vec<Arc<str>> = copies.iter().map(|copy| Arc::from(copy.from.as_str())).collect();
        self.load_missing(&names).await?;
        let mut left: Vec<usize> = (0..copies.len()).collect();
        let mut held = Vec::new();
        for try_number in 0..TRIES {
            let result = self.hold(copies, &mut left, &mut reports, options, &mut held).await;
            let is_last = try_number + 1 == TRIES;
            // Blocked metrics wait only a short time for the others.
            if result.is_err() || left.is_empty() || is_last || try_number % 8 == 7 {
                let works = std::mem::take(&mut held);
                let copied = self.copy_held(works, &mut reports, options).await;
                if let Err(error) = result.and(copied) {
                    return unless_going(reports, error);
                }
            }
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        left.into_iter().for_each(|place| BUSY.clone_into(&mut reports[place].refused));
        Ok(reports)
    }

    /// Asks the shards for the metrics in `left`, and blocks those that are at rest. The others stay in
    /// `left`.
    async fn hold(
        &self,
        copies: &[MetricCopy],
        left: &mut Vec<usize>,
        reports: &mut [CopyReport],
        options: CopyOptions,
        held: &mut Vec<Work>,
    ) -> Result<(), StoreError> {
        let range = TimeRange { from: 0, until: 0 };
        let ask = if options.dry_run { Ask::Look } else { Ask::Copy };
        let begin = |place: &usize| BeginRange { hash: self.router().hash(&copies[*place].from), range, ask };
        let answers = self.begin_range(left.iter().map(begin).collect()).await.map_err(stopping)?;
        let asked = std::mem::take(left);
        for (place, begun) in asked.into_iter().zip(answers) {
            match begun {
                Begun::Busy => left.push(place),
                Begun::Unknown => {
                    "deleted: there is no such metric any more".clone_into(&mut reports[place].refused);
                }
                Begun::Ready(head) => held.push(Work { place, copy: copies[place].clone(), head }),
            }
        }
        Ok(())
    }

    /// Copies blocked metrics, and releases them.
    async fn copy_held(
        &self,
        works: Vec<Work>,
        reports: &mut [CopyReport],
        options: CopyOptions,
    ) -> Result<(), StoreError> {
        if works.is_empty() {
            return Ok(());
        }
        let result = self.copy_and_move(&works, reports, options).await;
        if options.dry_run {
            return result;
        }
        let held: Vec<&Work> = works.iter().filter(|work| !reports[work.place].is_going).collect();
        self.let_go(&held).await?;
        result
    }

    /// Releases blocked metrics.
    async fn let_go(&self, works: &[&Work]) -> Result<(), StoreError> {
        let end = |work: &&Work| {
            let shard = self.router().shard(&self.router().hash(&work.copy.from));
            let (at, name) = (work.head.at, work.copy.from.as_str().into());
            (shard, End { at, name, open: None, fill: Vec::new(), config: None })
        };
        self.end_import(works.iter().map(end).collect()).await.map_err(stopping)
    }

    async fn copy_and_move(
        &self,
        works: &[Work],
        reports: &mut [CopyReport],
        options: CopyOptions,
    ) -> Result<(), StoreError> {
        self.refuse_settings(works, reports).await?;
        let fit: Vec<&Work> = works.iter().filter(|work| reports[work.place].refused.is_empty()).collect();
        let stored = self.read_all(&fit).await?;
        let (mut full, mut histories, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for (work, stored) in fit.iter().copied().zip(stored) {
            let stages = snapshot::history(&work.head, stored);
            if stages.iter().all(|stage| stage.points.is_empty()) {
                empty.push(work);
                continue;
            }
            let (name, config) = (work.copy.to.clone(), Arc::clone(&work.head.layout.config));
            histories.push(History { name, config, stages });
            full.push(work);
        }
        self.create_empty(&empty, reports, options.dry_run).await?;
        let as_history = HistoryOptions { overwrites: options.overwrites, dry_run: options.dry_run };
        let taken = self.take_histories(histories, as_history).await?;
        for (work, taken) in full.into_iter().zip(taken) {
            let report = &mut reports[work.place];
            report.created = taken.created;
            (report.stored, report.kept) = (taken.stored, taken.kept);
            (report.folded, report.left_out) = (taken.folded, taken.left_out);
            report.refused = taken.refused;
        }
        if options.dry_run {
            return Ok(());
        }
        let copied: Vec<&Work> =
            fit.into_iter().filter(|work| reports[work.place].refused.is_empty()).collect();
        // Points ahead of now have no slot yet, so they are sent to the copy as new points.
        let ahead = copied.iter().map(|work| (work.copy.to.as_str(), work.head.state.future.as_slice()));
        self.accept(batch_of(ahead)).await?;
        self.make_durable().await?;
        if options.moves { self.begin_moves_of(&copied, reports).await } else { Ok(()) }
    }

    /// Copies metrics without points: only their names and settings.
    async fn create_empty(
        &self,
        works: &[&Work],
        reports: &mut [CopyReport],
        dry_run: bool,
    ) -> Result<(), StoreError> {
        if works.is_empty() {
            return Ok(());
        }
        let metric = |work: &&Work| SettingsChange {
            name: work.copy.to.clone(),
            config: Arc::clone(&work.head.layout.config),
        };
        let metrics = works.iter().map(metric).collect();
        for (work, creation) in works.iter().zip(self.create_metrics(metrics, dry_run).await?) {
            match creation {
                Creation::Created => reports[work.place].created = true,
                Creation::Known(_) | Creation::Starting => {}
                Creation::Refused(why) => reports[work.place].refused = why,
            }
        }
        Ok(())
    }

    /// Refuses copies to existing metrics whose settings do not match.
    async fn refuse_settings(&self, works: &[Work], reports: &mut [CopyReport]) -> Result<(), StoreError> {
        let names: Vec<&str> = works.iter().map(|work| work.copy.to.as_str()).collect();
        for (work, known) in works.iter().zip(self.parts().metadata.get(&names).await?) {
            let Some(known) = known else { continue };
            if let Some(why) = known.config.refuses_points_of(&work.head.layout.config) {
                reports[work.place].refused =
                    format!("settings: {} exists with other settings: {why}", known.name);
            }
        }
        Ok(())
    }

    /// Reads the known slots of each stage of metrics.
    async fn read_all(&self, works: &[&Work]) -> Result<Vec<Vec<Vec<(u32, Window)>>>, StoreError> {
        let whole = |work: &&Work| Whole {
            id: work.head.id,
            layout: Arc::clone(&work.head.layout),
            base: work.head.base,
        };
        let metrics: Vec<Whole> = works.iter().map(whole).collect();
        read_stages(&*self.parts().points, &metrics, self.parts().clock.now()).await
    }

    /// Accepts points as if a sender had sent them.
    async fn accept(&self, batch: PointBatch) -> Result<(), StoreError> {
        if batch.is_empty() || self.push(batch).await { Ok(()) } else { Err(stopping(FetchError::Stopping)) }
    }

    /// Waits until neither a kill nor a power cut can lose what was stored and accepted.
    async fn make_durable(&self) -> Result<(), StoreError> {
        self.journaled().await.map_err(stopping)?;
        let (flush, journal) = (Arc::clone(&self.parts().flush), self.parts().journal.clone());
        let synced = tokio::task::spawn_blocking(move || {
            flush.sync()?;
            journal.sync().map_err(|error| StoreError::with(ErrorKind::Internal, "sync the journal", error))
        });
        let synced = synced.await;
        synced.unwrap_or_else(|error| Err(StoreError::with(ErrorKind::Internal, "sync copies", error)))?;
        self.parts().metadata.sync_names().await
    }

    /// Begins to delete metrics whose copies are durable. Points that arrived since the copy are copied first. A metric
    /// that keeps getting points stays.
    async fn begin_moves_of(&self, works: &[&Work], reports: &mut [CopyReport]) -> Result<(), StoreError> {
        let mut known: Vec<Vec<(u32, f64)>> = works.iter().map(|work| in_memory(&work.head)).collect();
        let mut left: Vec<usize> = (0..works.len()).collect();
        for try_number in 0..MOVE_TRIES {
            if left.is_empty() {
                break;
            }
            if try_number > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            self.try_moves(works, &mut left, &mut known, reports).await?;
        }
        left.into_iter().for_each(|at| reports[works[at].place].stays = true);
        Ok(())
    }

    async fn try_moves(
        &self,
        works: &[&Work],
        left: &mut Vec<usize>,
        known: &mut [Vec<(u32, f64)>],
        reports: &mut [CopyReport],
    ) -> Result<(), StoreError> {
        self.apply_queued().await.map_err(stopping)?;
        let begin = |at: &usize| BeginMove {
            hash: self.router().hash(&works[*at].copy.from),
            at: works[*at].head.at,
            known: known[*at].clone(),
        };
        let moves: Vec<BeginMove> = left.iter().map(begin).collect();
        let answers = self.begin_moves(&moves).await.map_err(stopping)?;
        let (mut again, mut grown) = (Vec::new(), Vec::new());
        for (at, moved) in std::mem::take(left).into_iter().zip(answers) {
            match moved {
                Moved::Begun => {
                    self.parts().index.remove(&works[at].copy.from);
                    reports[works[at].place].is_going = true;
                }
                Moved::Grown(points) => {
                    known[at].extend_from_slice(&points);
                    grown.push((at, points));
                    again.push(at);
                }
                Moved::Busy => again.push(at),
            }
        }
        *left = again;
        let points = grown.iter().map(|(at, points)| (works[*at].copy.to.as_str(), points.as_slice()));
        self.accept(batch_of(points)).await?;
        // This makes the removals durable, and also the copied points before the next try.
        self.make_durable().await
    }
}

/// The result after an error. Once a deletion has begun, the caller must carry it out, because the copy is
/// durable. In that case the reports are returned instead of the error.
fn unless_going(mut reports: Vec<CopyReport>, error: StoreError) -> Result<Vec<CopyReport>, StoreError> {
    if !reports.iter().any(|report| report.is_going) {
        return Err(error);
    }
    let is_open = |report: &&mut CopyReport| !report.is_going && report.refused.is_empty();
    reports.iter_mut().filter(is_open).for_each(|report| report.refused = format!("store: {error}"));
    Ok(reports)
}

fn batch_of<'a>(points: impl Iterator<Item = (&'a str, &'a [(u32, f64)])>) -> PointBatch {
    let mut batch = PointBatch::with_capacity(0);
    for (name, points) in points {
        points.iter().for_each(|(time, value)| batch.push(name, *time, *value));
    }
    batch
}

/// The points of a head that were copied from memory, each with its timestamp: held slots and points ahead of
/// now.
fn in_memory(head: &ImportHead) -> Vec<(u32, f64)> {
    let raw = head.layout.raw.resolution;
    let held = head.pairs.iter().map(|(slot, value)| (slot.saturating_mul(raw), *value));
    held.chain(head.state.future.iter().copied()).collect()
}

fn stopping(_: FetchError) -> StoreError {
    StoreError::new(ErrorKind::Closed, "copy metrics: the engine is stopping")
}
