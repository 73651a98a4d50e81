//! The one reader of points. It reads heads first, then the store, and merges them slot by slot. In this
//! order no point is missed, because a slot leaves its head only after it is in the store.

mod explain;
mod known;
mod metadata_fallback;
mod pending;

pub use pending::RawPoints;

use std::sync::Arc;
use std::time::Instant;

use futures::future::try_join_all;
use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{Aggregation, Series, Window};
use plumbago_store::{
    Column, FetchError, FetchRequest, KnownSlots, MetadataStore, PeerAnswer, PeerRows, Peers, PointStore,
    Provenance, ReadRequest, RowCount, SeriesSource, SlotRange, StoreError, pending_by_range,
};
use plumbago_telemetry::Histogram;
use tokio::sync::mpsc;

use crate::command::{ShardCommand, ask};
use crate::read::metadata_fallback::MetadataFallback;
use crate::router::{NameHash, Router};
use crate::shard::read::{HeadAnswer, HeadQuery};

/// Largest number of metrics in one command, so that a shard's points do not wait long for it.
const QUERY_METRICS: usize = 512;

/// Reads columns for folding: the rows of all writers are merged. The store is not called if there are no
/// ranges.
///
/// # Errors
/// If the store cannot be read.
pub(crate) async fn read_merged(
    store: &dyn PointStore,
    request: &ReadRequest,
) -> Result<Vec<Column>, StoreError> {
    if request.ranges.is_empty() {
        return Ok(Vec::new());
    }
    let mut columns = store.read(request).await?;
    for (column, range) in columns.iter_mut().zip(&request.ranges) {
        column.merge_writers(range.aggregation);
    }
    Ok(columns)
}

/// Reads series from heads and store. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct Reader {
    router: Router,
    workers: Vec<mpsc::Sender<ShardCommand>>,
    pub(crate) store: Arc<dyn PointStore>,
    /// The time that reads from the store take.
    store_seconds: Histogram,
    peers: Option<Arc<dyn Peers>>,
    fallback: Option<Arc<MetadataFallback>>,
}

impl Reader {
    pub(crate) fn new(
        router: Router,
        workers: Vec<mpsc::Sender<ShardCommand>>,
        store: Arc<dyn PointStore>,
        store_seconds: Histogram,
    ) -> Self {
        Self { router, workers, store, store_seconds, peers: None, fallback: None }
    }

    /// Makes the reader add rows of other writers that are not in the store yet.
    pub fn with_peers(self, peers: Arc<dyn Peers>) -> Self {
        Self { peers: Some(peers), ..self }
    }

    /// Makes the reader also read metrics without a head, with their settings from the metadata store.
    /// For a node that does not load all names.
    pub fn with_metadata(self, metadata: Arc<dyn MetadataStore>) -> Self {
        Self { fallback: Some(Arc::new(MetadataFallback::new(metadata))), ..self }
    }

    /// Reads the heads of the metrics, one answer for each name. `None` if the metric has no head or its
    /// retention does not reach the range.
    pub(crate) async fn ask_heads(
        &self,
        request: &FetchRequest,
    ) -> Result<Vec<Option<HeadAnswer>>, FetchError> {
        self.ask_heads_for(request, false).await
    }

    /// Like `ask_heads`; with `whole_raw` it reads the whole raw stage of each metric, whatever the range of the
    /// request is.
    async fn ask_heads_for(
        &self,
        request: &FetchRequest,
        whole_raw: bool,
    ) -> Result<Vec<Option<HeadAnswer>>, FetchError> {
        let began = Instant::now();
        let hashes: Vec<_> = request.names.iter().map(|name| self.router.hash(name)).collect();
        let shards = self.router.group(&hashes).into_iter();
        let query = |hashes| HeadQuery {
            hashes,
            from: request.from,
            until: request.until,
            now: request.now,
            whole_raw,
        };
        let parts = shards.map(|(shard, places)| self.ask_shard(shard, places, &hashes, &query, began));
        let mut answers: Vec<Option<HeadAnswer>> = Vec::with_capacity(hashes.len());
        answers.resize_with(hashes.len(), || None);
        for (place, answer) in try_join_all(parts).await?.into_iter().flatten() {
            answers[place] = answer;
        }
        Ok(answers)
    }

    /// Reads the heads of one shard: the metrics at these positions of the request.
    async fn ask_shard(
        &self,
        shard: usize,
        places: Vec<usize>,
        hashes: &[NameHash],
        query: &impl Fn(Vec<NameHash>) -> HeadQuery,
        began: Instant,
    ) -> Result<Vec<(usize, Option<HeadAnswer>)>, FetchError> {
        let mut answers = Vec::with_capacity(places.len());
        for part in places.chunks(QUERY_METRICS) {
            let query = query(part.iter().map(|place| hashes[*place]).collect());
            let question = |sender| ShardCommand::Read(query, began, sender);
            answers.extend(part.iter().copied().zip(ask(&self.workers[shard], question).await?));
        }
        Ok(answers)
    }

    /// Reads heads, and adds metrics that have none but are in the metadata store.
    async fn ask_all_heads(&self, request: &FetchRequest) -> Result<Vec<Option<HeadAnswer>>, FetchError> {
        let mut answers = self.ask_heads(request).await?;
        if let Some(fallback) = &self.fallback {
            fallback.answer(request, &mut answers).await?;
        }
        Ok(answers)
    }

    async fn ask_peers(&self, request: &FetchRequest) -> Vec<PeerAnswer> {
        match &self.peers {
            Some(peers) => peers.pending(request).await,
            None => Vec::new(),
        }
    }
}

/// The data that was read for one metric.
#[derive(Debug)]
pub(crate) struct Part {
    name: Arc<str>,
    answer: HeadAnswer,
    /// The slots that the store has in the range of the answer.
    column: Column,
    /// The stored raw slots of the head's first window, if they are needed.
    first_window: Option<Column>,
}

impl Reader {
    /// Reads heads, peers and store for the metrics that answer a request, in the order of the request. The
    /// rows of peers are merged into the columns and also returned; the range number in each of them is the
    /// position of its metric's first range in the read.
    async fn read_all(&self, request: &FetchRequest) -> Result<(Vec<Part>, Vec<PeerRows>), FetchError> {
        let answers = self.ask_all_heads(request).await?;
        if slots(&answers) > request.slots_max as u64 {
            return Err(FetchError::TooManySlots(request.slots_max));
        }
        let peer_rows = self.ask_peers(request).await;
        self.read_parts(&request.names, answers, peer_rows).await
    }

    /// Reads the store for the metrics that have an answer.
    async fn read_parts(
        &self,
        names: &[Arc<str>],
        answers: Vec<Option<HeadAnswer>>,
        peer_rows: Vec<PeerAnswer>,
    ) -> Result<(Vec<Part>, Vec<PeerRows>), FetchError> {
        let mut wanted = ReadRequest::default();
        let mut answering = Vec::with_capacity(answers.len());
        for (place, answer) in answers.iter().enumerate() {
            let Some(answer) = answer else { continue };
            let range = stage_range(answer);
            answering.push((place, wanted.ranges.len() as u32, range));
            wanted.ranges.push(range);
            wanted.ranges.extend(window_ranges(answer));
        }
        wanted.peers = pending_by_range(peer_rows, &answering);
        let mut columns = self.read_store(&wanted).await?.into_iter();
        let part = |(name, answer): (&Arc<str>, Option<HeadAnswer>)| {
            let answer = answer?;
            let column = columns.next().unwrap_or_default();
            let first_window = window_ranges(&answer).and_then(|_| columns.next());
            Some(Part { name: Arc::clone(name), answer, column, first_window })
        };
        Ok((names.iter().zip(answers).filter_map(part).collect(), wanted.peers))
    }

    /// Reads the store and records how long that takes.
    async fn read_store(&self, wanted: &ReadRequest) -> Result<Vec<Column>, StoreError> {
        let started = Instant::now();
        let columns = self.store.read(wanted).await;
        self.store_seconds.record(started.elapsed());
        columns
    }
}

/// The number of slots of all answers together.
fn slots(answers: &[Option<HeadAnswer>]) -> u64 {
    answers.iter().flatten().map(|answer| u64::from(answer.slots.1 - answer.slots.0)).sum()
}

#[boxed_futures]
impl SeriesSource for Reader {
    async fn fetch(&self, request: &FetchRequest) -> Result<Vec<Series>, FetchError> {
        let series = |part: Part| {
            let Part { name, answer, mut column, first_window } = part;
            let values = merge(&answer, &mut column, first_window);
            series_of(name, &answer, values)
        };
        Ok(self.read_all(request).await?.0.into_iter().map(series).collect())
    }

    async fn fetch_known(&self, request: &FetchRequest) -> Result<Vec<KnownSlots>, FetchError> {
        self.known(request).await
    }

    async fn explain(&self, request: &FetchRequest) -> Result<Vec<Provenance>, FetchError> {
        self.provenance(request).await
    }
}

fn series_of(name: Arc<str>, answer: &HeadAnswer, values: Vec<f64>) -> Series {
    let step = answer.layout.stage(answer.stage).resolution;
    Series { name, start: i64::from(answer.slots.0) * i64::from(step), step, values }
}

/// The slots to read from the store for an answer.
pub(crate) fn stage_range(answer: &HeadAnswer) -> SlotRange {
    let (from, until) = answer.slots;
    answer.layout.range(answer.id, answer.stage, from, until)
}

/// The stored raw slots of the head's first window if the answer has that window, for methods that need all slots of a window at once, such
/// as percentiles.
pub(crate) fn window_ranges(answer: &HeadAnswer) -> Option<SlotRange> {
    if answer.stage == 0 || !answer.layout.config.aggregation.needs_all_slots() {
        return None;
    }
    let per = answer.layout.per[answer.stage - 1];
    let window = answer.base / per;
    let from = window * per;
    let is_wanted = (answer.slots.0..answer.slots.1).contains(&window) && from < answer.base;
    is_wanted.then(|| answer.layout.range(answer.id, 0, from, answer.base))
}

pub(crate) fn merge(answer: &HeadAnswer, column: &mut Column, first_window: Option<Column>) -> Vec<f64> {
    overlay(answer, column, first_window);
    if answer.stage == 0 {
        return std::mem::take(&mut column.values);
    }
    column.merge_writers(answer.layout.config.aggregation);
    finish(answer, column)
}

/// Replaces stored slots by those of the head.
pub(crate) fn overlay(answer: &HeadAnswer, column: &mut Column, first_window: Option<Column>) {
    let (first, end) = answer.slots;
    column.values.resize((end - first) as usize, f64::NAN);
    if answer.stage == 0 {
        for (slot, value) in &answer.raw {
            column.values[(slot - first) as usize] = *value;
        }
        return;
    }
    column.counts.resize((end - first) as usize, RowCount::ZERO);
    let mut lay = |slot: u32, window: Window| {
        if window.count > 0 && (first..end).contains(&slot) {
            column.values[(slot - first) as usize] = window.value;
            column.counts[(slot - first) as usize] = window.count.into();
        }
    };
    for (slot, window) in &answer.windows {
        lay(*slot, *window);
    }
    for (slot, window) in whole_windows(answer, answer.layout.config.aggregation, first_window) {
        lay(slot, window);
    }
}

/// The head's windows for a method that needs all slots at once: percentiles.
fn whole_windows(
    answer: &HeadAnswer,
    method: Aggregation,
    first_window: Option<Column>,
) -> Vec<(u32, Window)> {
    if !method.needs_all_slots() {
        return Vec::new();
    }
    let per = answer.layout.per[answer.stage - 1];
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

/// The values of windows as Graphite shows them. A window with too few known slots for the metric's
/// xFilesFactor is unknown.
fn finish(answer: &HeadAnswer, column: &mut Column) -> Vec<f64> {
    let config = &answer.layout.config;
    let slots = answer.layout.per[answer.stage - 1];
    let needed = config.x_files_factor * f64::from(slots);
    let mut values = std::mem::take(&mut column.values);
    for (value, count) in values.iter_mut().zip(&column.counts) {
        let count = count.of_window();
        let shown = count > 0 && f64::from(count) >= needed;
        *value =
            if shown { config.aggregation.finish(Window { value: *value, count }, slots) } else { f64::NAN };
    }
    values
}
