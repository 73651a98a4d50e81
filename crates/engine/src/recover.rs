//! The start: metrics from the metadata, heads from state rows, then the journal.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use plumbago_index::Index;
use plumbago_journal::{Journal, JournalError, Record};
use plumbago_model::{MetricConfig, MetricId};
use plumbago_store::{FlushStore, MetaPage, MetadataStore, StoreError};

use crate::create::{ConfigFor, NewMetric};
use crate::head::flag;
use crate::places::{FreeNumbers, Numbers, Place, Places};
use crate::router::Router;
use crate::shard::NUMBER_BITS;
use crate::shard::Shard;
use crate::shard::restore::Replayed;
use crate::state_row::State;

/// Metrics read from the metadata at once.
const PAGE: usize = 50_000;
/// State rows handed from one thread to the other at once.
const STATES: usize = 1000;
/// Metrics or state rows whose cache misses overlap.
const ABREAST: usize = 64;

/// What a start found.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recovered {
    /// Metrics in the metadata.
    pub metrics: u64,
    /// State rows taken over.
    pub states: u64,
    /// Journal records of points applied again.
    pub replayed: u64,
    /// Journal records that state rows covered already.
    pub covered: u64,
    /// Journal records of metrics that nothing explains.
    pub unexplained: u64,
    /// How long the metadata took, until the index was complete.
    pub names: Duration,
    /// How long metadata and state rows took.
    pub load: Duration,
    /// How long the journal took.
    pub replay: Duration,
}

/// Why a start failed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store.
    #[error("failed to load metrics and state rows")]
    Store(#[from] StoreError),
    /// The journal.
    #[error("failed to replay the journal")]
    Journal(#[from] JournalError),
    /// A thread could not be started.
    #[error("failed to start a thread")]
    Thread(#[source] std::io::Error),
    /// The process is going down.
    #[error("the start was interrupted")]
    Aborted,
    /// It was started before.
    #[error("the engine was started before")]
    Again,
}

/// Everything the start reads from.
pub(crate) struct Sources<'a> {
    pub(crate) metadata: &'a Arc<dyn MetadataStore>,
    pub(crate) flush: &'a dyn FlushStore,
    pub(crate) journal: &'a Journal,
    pub(crate) index: &'a Arc<Index>,
    pub(crate) router: Router,
    pub(crate) config_for: &'a ConfigFor,
    pub(crate) now: i64,
}

/// What the owners start with.
pub(crate) struct Start {
    pub(crate) report: Recovered,
    /// Numbers for new metrics.
    pub(crate) numbers: FreeNumbers,
    /// Metrics of each shard that the journal knows and the metadata does not.
    pub(crate) creations: Vec<Vec<NewMetric>>,
}

/// Fills the shards.
pub(crate) async fn recover(sources: &Sources<'_>, shards: &mut [Shard]) -> Result<Start, StartError> {
    let began = Instant::now();
    let mut report = Recovered::default();
    let mut places = load_metrics(sources, shards, &mut report).await?;
    report.names = began.elapsed();
    places.sort();
    let mut numbers = Numbers::default();
    load_states(sources, shards, places, &mut numbers, &mut report)?;
    report.load = began.elapsed();
    let began = Instant::now();
    let mut creations: Vec<Vec<NewMetric>> = shards.iter().map(|_| Vec::new()).collect();
    replay(sources, shards, &mut numbers, &mut creations, &mut report)?;
    report.replay = began.elapsed();
    let sequence = shards.iter().map(|s| s.sequence).max().unwrap_or(0);
    sources.journal.start_at(sources.journal.sequence().max(sequence) + 1);
    shards.iter_mut().for_each(Shard::show);
    Ok(Start { report, numbers: numbers.free(), creations })
}

async fn load_metrics(
    sources: &Sources<'_>,
    shards: &mut [Shard],
    report: &mut Recovered,
) -> Result<Places, StartError> {
    let mut places = Places::default();
    let scan = |position| {
        let metadata = Arc::clone(sources.metadata);
        tokio::spawn(async move { metadata.scan(position, PAGE).await })
    };
    let mut next = scan(None);
    loop {
        let page = Arc::new(next.await.map_err(|_| StartError::Aborted)??);
        let end = page.next.is_none();
        // The store reads the next page while this one is taken in, by the index beside the shards.
        next = if end { tokio::spawn(async { Ok(MetaPage::default()) }) } else { scan(page.next.clone()) };
        let (index, names) = (Arc::clone(sources.index), Arc::clone(&page));
        let indexed = tokio::task::spawn_blocking(move || index.insert(names.iter().map(|(name, _)| name)));
        take_metrics(sources, shards, &mut places, &page);
        report.metrics += page.entries.len() as u64;
        indexed.await.map_err(|_| StartError::Aborted)?;
        if end {
            return Ok(places);
        }
    }
}

/// Takes a page over, in passes over a few metrics: their hashes and ids, their places in the tables,
/// their heads.
fn take_metrics(sources: &Sources<'_>, shards: &mut [Shard], places: &mut Places, page: &MetaPage) {
    let mut entries = page.iter().peekable();
    let mut metrics = Vec::with_capacity(ABREAST);
    while entries.peek().is_some() {
        metrics.clear();
        metrics.extend(entries.by_ref().take(ABREAST).map(|(name, entry)| {
            let hash = sources.router.hash(name);
            (hash, sources.router.shard(&hash), MetricId::of(name), &entry.config)
        }));
        metrics.iter().for_each(|(hash, shard, ..)| shards[*shard].warm_entry(hash));
        for (hash, shard, id, config) in &metrics {
            let at = shards[*shard].insert(*hash, *id, 0, config, flag::CREATED | flag::MERGE);
            places.push(*id, (*shard as u16, at));
        }
    }
}

/// State rows on their way from the store to the heads.
type Rows = Vec<(MetricId, Vec<u8>)>;

/// A thread reads state rows while this one takes them over.
fn load_states(
    sources: &Sources<'_>,
    shards: &mut [Shard],
    mut places: Places,
    numbers: &mut Numbers,
    report: &mut Recovered,
) -> Result<(), StartError> {
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Rows>(8);
        let reading = scope.spawn(move || read_states(sources.flush, &sender));
        let mut values = Vec::new();
        for rows in receiver {
            for rows in rows.chunks(ABREAST) {
                take_states(shards, &mut places, numbers, report, rows, &mut values);
            }
        }
        reading.join().map_err(|_| StartError::Aborted)?.map_err(StartError::from)
    })
}

fn read_states(flush: &dyn FlushStore, sender: &SyncSender<Rows>) -> Result<(), StoreError> {
    let mut rows = Rows::with_capacity(STATES);
    flush.scan_states(&mut |id, bytes| {
        rows.push((id, bytes.to_vec()));
        if rows.len() == STATES {
            // The receiver ends after the last sender only.
            let _ = sender.send(std::mem::replace(&mut rows, Rows::with_capacity(STATES)));
        }
    })?;
    let _ = sender.send(rows);
    Ok(())
}

/// Takes over a few rows, in passes: places and numbers, heads, windows, the rest.
fn take_states(
    shards: &mut [Shard],
    places: &mut Places,
    numbers: &mut Numbers,
    report: &mut Recovered,
    rows: &[(MetricId, Vec<u8>)],
    values: &mut Vec<f64>,
) {
    let mut found = [None; ABREAST];
    for (place, (id, bytes)) in found.iter_mut().zip(rows) {
        *place = places.find(id);
        numbers.warm(State::number_of(bytes).unwrap_or(0));
    }
    found.iter().flatten().for_each(|(shard, at)| shards[usize::from(*shard)].warm_head(*at));
    found.iter().flatten().for_each(|(shard, at)| shards[usize::from(*shard)].warm_windows(*at));
    for (place, (id, bytes)) in found.into_iter().zip(rows) {
        let Some(state) = State::decode(bytes, values) else {
            if let Some(shard) = shards.first() {
                shard.stats.damaged_states.add(1);
            }
            tracing::error!(metric = %id, "damaged state row: its unflushed points come from the journal only");
            State::number_of(bytes).filter(is_number).into_iter().for_each(|number| numbers.reserve(number));
            continue;
        };
        if state.number != 0 && !is_number(&state.number) {
            continue;
        }
        // A state row without metadata: the metric was deleted, and held nothing then.
        let Some(place) = place else {
            let is_empty = state.held == 0 && state.waiting.is_empty();
            numbers.orphan(*id, state.number, if is_empty { state.sequence } else { 0 });
            continue;
        };
        shards[usize::from(place.0)].restore(place.1, &state);
        // Without a number its next point gets it one.
        if is_number(&state.number) {
            numbers.set(state.number, place, state.sequence);
        }
        report.states += 1;
    }
}

fn is_number(number: &u32) -> bool {
    *number != 0 && number >> NUMBER_BITS == 0
}

fn replay(
    sources: &Sources<'_>,
    shards: &mut [Shard],
    numbers: &mut Numbers,
    creations: &mut [Vec<NewMetric>],
    report: &mut Recovered,
) -> Result<(), StartError> {
    // No record is in a segment before the oldest one, so this is safe for all.
    let segment = sources.journal.segments().iter().map(|s| s.number).min().unwrap_or(1);
    sources.journal.replay(&mut |record| match record {
        Record::Creation { sequence, metric, name } => {
            if !is_number(&metric) {
                return;
            }
            if let Some(((shard, at), covered)) = numbers.get(metric) {
                let head = &mut shards[usize::from(shard)].heads[at];
                if head.hash == sources.router.hash(name) || sequence <= covered {
                    return;
                }
                head.number = 0;
            }
            if let Some((place, covered)) =
                restored(sources, shards, numbers, name).filter(|(_, c)| sequence <= *c)
            {
                // Of a metric that was deleted and made again since then: the state row knows all of it.
                numbers.set(metric, place, covered);
                return;
            }
            let covered = numbers.covered(&MetricId::of(name));
            let place = explain(sources, shards, creations, name, metric, segment);
            let shard = &mut shards[usize::from(place.0)];
            shard.sequence = shard.sequence.max(sequence);
            if covered > 0 {
                // Its points may still be in the store.
                shard.heads[place.1].set(flag::MERGE);
            }
            numbers.set(metric, place, covered);
        }
        Record::Point { sequence, metric, timestamp, value } => {
            let record = Replayed { sequence, metric, timestamp, value };
            let Some((place, covered)) = numbers.get(record.number()) else {
                numbers.retire(record.number());
                report.unexplained += 1;
                return;
            };
            if sequence <= covered {
                report.covered += 1;
                return;
            }
            report.replayed += 1;
            shards[usize::from(place.0)].replay(place.1, record, sources.now, segment);
        }
        Record::Removal { sequence, metric } => match numbers.get(metric) {
            // What was written later, a state row vouches for.
            Some((_, covered)) if sequence <= covered => {}
            Some(((shard, at), _)) => {
                numbers.retire(metric);
                shards[usize::from(shard)].forgotten(at);
            }
            None if is_number(&metric) => numbers.retire(metric),
            None => {}
        },
    })?;
    for (shard, creations) in shards.iter_mut().zip(creations) {
        creations.retain(|creation| !shard.is_gone(creation.at));
    }
    Ok(())
}

/// A metric that has a number already, and how far its state row covers the journal.
fn restored(sources: &Sources<'_>, shards: &[Shard], numbers: &Numbers, name: &str) -> Option<(Place, u64)> {
    let hash = sources.router.hash(name);
    let shard = &shards[sources.router.shard(&hash)];
    // Number 0 is none, and nothing is known of it.
    numbers.get(shard.heads[shard.find(&hash)?].number)
}

/// Finds or adds the metric of a creation record.
fn explain(
    sources: &Sources<'_>,
    shards: &mut [Shard],
    creations: &mut [Vec<NewMetric>],
    name: &str,
    number: u32,
    segment: u32,
) -> Place {
    let hash = sources.router.hash(name);
    let shard = sources.router.shard(&hash);
    let known = shards[shard].find(&hash);
    let at = known.unwrap_or_else(|| {
        let config: Arc<MetricConfig> = (sources.config_for)(name);
        let at = shards[shard].insert(hash, MetricId::of(name), number, &config, 0);
        creations[shard].push(NewMetric {
            at,
            name: name.to_owned(),
            config,
            created_on: sources.now as u32,
        });
        at
    });
    let head = &mut shards[shard].heads[at];
    head.number = number;
    if head.segment == 0 {
        head.segment = segment;
    }
    (shard as u16, at)
}
