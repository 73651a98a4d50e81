//! The one reader of points: heads first, then the store, merged slot by slot; the head wins.

use std::sync::Arc;

use async_trait::async_trait;
use plumbago_model::{Aggregation, Series, Window};
use plumbago_store::{Column, MetadataStore, PointStore, ReadRequest, SlotRange};
use tokio::sync::{mpsc, oneshot};

use crate::fetch::{FetchError, FetchRequest, SeriesSource};
use crate::peers::{self, PeerAnswer, Peers};
use crate::router::Router;
use crate::shard::read::{HeadAnswer, HeadQuery};
use crate::strangers::Strangers;
use crate::task::Control;

/// Metrics asked of an owner at once, so that points need not wait long.
const QUERY_METRICS: usize = 512;

/// Reads series.
#[derive(Debug, Clone)]
pub struct Reader {
    router: Router,
    owners: Vec<mpsc::Sender<Control>>,
    pub(crate) store: Arc<dyn PointStore>,
    peers: Option<Arc<dyn Peers>>,
    strangers: Option<Arc<Strangers>>,
}

impl Reader {
    pub(crate) fn new(
        router: Router,
        owners: Vec<mpsc::Sender<Control>>,
        store: Arc<dyn PointStore>,
    ) -> Self {
        Self { router, owners, store, peers: None, strangers: None }
    }

    /// Also reads what other processes have and the store has not yet.
    pub fn with_peers(self, peers: Arc<dyn Peers>) -> Self {
        Self { peers: Some(peers), ..self }
    }

    /// Also reads metrics that no head knows, as their metadata say: for a node that has not loaded all
    /// names.
    pub fn with_metadata(self, metadata: Arc<dyn MetadataStore>) -> Self {
        Self { strangers: Some(Arc::new(Strangers::new(metadata))), ..self }
    }

    /// One answer for each name, in order.
    pub(crate) async fn ask_heads(
        &self,
        request: &FetchRequest,
    ) -> Result<Vec<Option<HeadAnswer>>, FetchError> {
        let mut places: Vec<Vec<usize>> = vec![Vec::new(); self.owners.len()];
        let hashes: Vec<_> = request.names.iter().map(|name| self.router.hash(name)).collect();
        for (place, hash) in hashes.iter().enumerate() {
            places[self.router.shard(hash)].push(place);
        }
        let mut answers: Vec<Option<HeadAnswer>> = Vec::with_capacity(hashes.len());
        answers.resize_with(hashes.len(), || None);
        for (owner, places) in self.owners.iter().zip(&places) {
            for part in places.chunks(QUERY_METRICS) {
                let query = HeadQuery {
                    hashes: part.iter().map(|place| hashes[*place]).collect(),
                    from: request.from,
                    until: request.until,
                    now: request.now,
                };
                let (sender, receiver) = oneshot::channel();
                owner.send(Control::Read(query, sender)).await.map_err(|_| FetchError::Stopping)?;
                let part_answers = receiver.await.map_err(|_| FetchError::Stopping)?;
                for (place, answer) in part.iter().zip(part_answers) {
                    answers[*place] = answer;
                }
            }
        }
        Ok(answers)
    }

    /// The same, also for metrics that are only in the metadata.
    async fn ask_all_heads(&self, request: &FetchRequest) -> Result<Vec<Option<HeadAnswer>>, FetchError> {
        let mut answers = self.ask_heads(request).await?;
        if let Some(strangers) = &self.strangers {
            strangers.answer(request, &mut answers).await?;
        }
        Ok(answers)
    }

    async fn ask_peers(&self, request: &FetchRequest) -> Vec<PeerAnswer> {
        match &self.peers {
            Some(peers) => peers.unsent(request).await,
            None => Vec::new(),
        }
    }
}

#[async_trait]
impl SeriesSource for Reader {
    async fn fetch(&self, request: &FetchRequest) -> Result<Vec<Series>, FetchError> {
        let (answers, told) = tokio::join!(self.ask_all_heads(request), self.ask_peers(request));
        let answers = answers?;
        let mut wanted = ReadRequest::default();
        let mut answering = Vec::with_capacity(answers.len());
        for (place, answer) in answers.iter().enumerate() {
            let Some(answer) = answer else { continue };
            let range = stage_range(answer);
            answering.push((place, wanted.ranges.len() as u32, range));
            wanted.ranges.push(range);
            wanted.ranges.extend(window_ranges(answer));
        }
        wanted.peers = peers::by_range(told, &answering);
        let mut columns = self.store.read(&wanted).await?.into_iter();
        let mut series = Vec::with_capacity(answers.len());
        for (name, answer) in request.names.iter().zip(answers) {
            let Some(answer) = answer else { continue };
            let mut column = columns.next().unwrap_or_default();
            let first_window = window_ranges(&answer).and_then(|_| columns.next());
            let values = merge(&answer, &mut column, first_window);
            let step = answer.plan.stage(answer.stage).resolution;
            let start = i64::from(answer.slots.0) * i64::from(step);
            series.push(Series { name: Arc::clone(name), start, step, values });
        }
        Ok(series)
    }
}

/// The slots of the store that an answer goes over.
pub(crate) fn stage_range(answer: &HeadAnswer) -> SlotRange {
    let (from, until) = answer.slots;
    answer.plan.range(answer.id, answer.stage, from, until)
}

/// For methods that need all slots of a window at once: the raw slots of the head's first window
/// that the store knows.
pub(crate) fn window_ranges(answer: &HeadAnswer) -> Option<SlotRange> {
    if answer.stage == 0 || !answer.plan.config.aggregation.needs_all_slots() {
        return None;
    }
    let per = answer.plan.per[answer.stage - 1];
    let from = answer.base / per * per;
    (from < answer.base).then(|| answer.plan.range(answer.id, 0, from, answer.base))
}

pub(crate) fn merge(answer: &HeadAnswer, column: &mut Column, first_window: Option<Column>) -> Vec<f64> {
    overlay(answer, column, first_window);
    if answer.stage == 0 {
        return std::mem::take(&mut column.values);
    }
    column.settle(answer.plan.config.aggregation);
    finish(answer, column)
}

/// Lays the head over what is stored of the stage that answers.
pub(crate) fn overlay(answer: &HeadAnswer, column: &mut Column, first_window: Option<Column>) {
    let (first, end) = answer.slots;
    column.values.resize((end - first) as usize, f64::NAN);
    if answer.stage == 0 {
        for (slot, value) in &answer.raw {
            column.values[(slot - first) as usize] = *value;
        }
        return;
    }
    column.counts.resize((end - first) as usize, 0);
    let mut lay = |slot: u32, window: Window| {
        if window.count > 0 && (first..end).contains(&slot) {
            column.values[(slot - first) as usize] = window.value;
            column.counts[(slot - first) as usize] = window.count;
        }
    };
    for (slot, window) in &answer.windows {
        lay(*slot, *window);
    }
    for (slot, window) in whole_windows(answer, answer.plan.config.aggregation, first_window) {
        lay(slot, window);
    }
}

/// Percentile windows of the head, folded from all their slots.
fn whole_windows(
    answer: &HeadAnswer,
    method: Aggregation,
    first_window: Option<Column>,
) -> Vec<(u32, Window)> {
    if !method.needs_all_slots() {
        return Vec::new();
    }
    let per = answer.plan.per[answer.stage - 1];
    let stored = first_window.map(|c| c.values).unwrap_or_default();
    let first = answer.base / per;
    let mut windows = Vec::new();
    if !stored.is_empty() {
        let held = answer.raw.iter().filter(|(slot, _)| slot / per == first).map(|(_, v)| *v);
        windows.push((first, method.fold_all(stored.iter().copied().chain(held))));
    }
    for part in answer.raw.chunk_by(|a, b| a.0 / per == b.0 / per) {
        let window = part[0].0 / per;
        if window != first || stored.is_empty() {
            windows.push((window, method.fold_all(part.iter().map(|(_, v)| *v))));
        }
    }
    windows
}

/// Finished values; a window with too few known slots for the metric's xFilesFactor is unknown.
fn finish(answer: &HeadAnswer, column: &mut Column) -> Vec<f64> {
    let config = &answer.plan.config;
    let slots = answer.plan.per[answer.stage - 1];
    let needed = config.x_files_factor * f64::from(slots);
    let mut values = std::mem::take(&mut column.values);
    for (value, count) in values.iter_mut().zip(&column.counts) {
        let shown = *count > 0 && f64::from(*count) >= needed;
        *value = if shown {
            config.aggregation.finish(Window { value: *value, count: *count }, slots)
        } else {
            f64::NAN
        };
    }
    values
}
