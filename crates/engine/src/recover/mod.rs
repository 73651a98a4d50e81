//! The start: metrics from the metadata store, heads from state rows, then the journal.

pub(crate) mod numbers;
mod replay;
mod states;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use plumbago_index::Index;
use plumbago_journal::{Journal, JournalError};
use plumbago_model::MetricId;
use plumbago_store::{FlushStore, MetaPage, MetadataStore, StoreError};

use crate::checkpoint::CheckpointError;
use crate::quotas::Quotas;
use crate::router::Router;
use crate::shard::Shard;
use crate::shard::creation::{ConfigFor, NewMetric};
use crate::shard::head_state::LifeEvent;

use self::numbers::{FreeNumbers, HeadAddresses, Numbers};

/// Number of metrics in one page of the metadata scan.
const PAGE: usize = 50_000;
/// Number of metrics or state rows that are handled together, so that their cache misses overlap.
const ABREAST: usize = 64;

/// What a start found, and how long it took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recovered {
    /// The number of metrics in the metadata store or in the checkpoint.
    pub metrics: u64,
    /// Whether everything came from the checkpoint of a clean stop; if so, the other counts are 0.
    pub from_checkpoint: bool,
    /// The number of restored state rows.
    pub states: u64,
    /// Journal records of points applied again.
    pub replayed: u64,
    /// Journal records of points that state rows already covered.
    pub covered: u64,
    /// State rows that cannot be decoded. The points of their metrics are recovered if the journal still has
    /// them.
    pub damaged_states: u64,
    /// Journal records of points whose metric is unknown: its number occurs in no state row and no creation
    /// record. The ledger counts them as recovered and rejected.
    pub unexplained: u64,
    /// Time until the index was complete.
    pub names: Duration,
    /// The time for loading metadata and state rows.
    pub load: Duration,
    /// The time for replaying the journal.
    pub replay: Duration,
}

/// Why a start failed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store could not be read.
    #[error("failed to load metrics and state rows")]
    Store(#[from] StoreError),
    /// The journal could not be replayed.
    #[error("failed to replay the journal")]
    Journal(#[from] JournalError),
    /// The checkpoint could not be removed, or was found to be damaged when part of it was loaded. The next
    /// start does not use it.
    #[error("failed to load or remove the checkpoint")]
    Checkpoint(#[from] CheckpointError),
    /// A thread could not be started.
    #[error("failed to start a thread")]
    Thread(#[source] std::io::Error),
    /// The runtime was shut down during the start.
    #[error("the start was interrupted by a shutdown")]
    Aborted,
    /// An engine can be started only once.
    #[error("the engine was already started")]
    Again,
}

/// The sources that a start reads from.
pub(crate) struct Sources<'a> {
    pub(crate) metadata: &'a Arc<dyn MetadataStore>,
    pub(crate) flush: &'a dyn FlushStore,
    pub(crate) journal: &'a Journal,
    pub(crate) index: &'a Arc<Index>,
    pub(crate) router: Router,
    pub(crate) config_for: &'a ConfigFor,
    pub(crate) quotas: &'a Quotas,
    /// Seconds since the epoch.
    pub(crate) now: i64,
}

/// The state with which the workers start.
pub(crate) struct Start {
    pub(crate) report: Recovered,
    /// The numbers for new metrics.
    pub(crate) numbers: FreeNumbers,
    /// For each shard, the metrics that are in the journal but not in the metadata store.
    pub(crate) creations: Vec<Vec<NewMetric>>,
}

/// Fills the shards and the index.
///
/// # Errors
///
/// See [`StartError`].
pub(crate) async fn recover(sources: &Sources<'_>, shards: &mut [Shard]) -> Result<Start, StartError> {
    let began = Instant::now();
    let mut report = Recovered::default();
    let mut places = load_metrics(sources, shards, &mut report).await?;
    report.names = began.elapsed();
    places.sort();
    let mut numbers = Numbers::default();
    states::load(sources, shards, places, &mut numbers, &mut report)?;
    report.load = began.elapsed();
    let began = Instant::now();
    let creations = replay::replay(sources, shards, &mut numbers, &mut report)?;
    // These metrics get into the metadata store later. Their points can be read at once.
    sources.index.insert(creations.iter().flatten().map(|metric| metric.name.as_str()));
    report.replay = began.elapsed();
    let known =
        numbers.known().map(|(number, (shard, at))| (number, shards[usize::from(shard)].heads[at].id));
    sources.flush.note_numbers(numbers.known().count(), &mut { known });
    let sequence = shards.iter().map(|s| s.sequence).max().unwrap_or(0);
    let last = sources.journal.sequence().max(sequence);
    sources.journal.start_at(last + 1);
    shards.iter_mut().for_each(|shard| shard.end_replay(last));
    shards.iter_mut().for_each(Shard::export_counters);
    Ok(Start { report, numbers: numbers.free(), creations })
}

async fn load_metrics(
    sources: &Sources<'_>,
    shards: &mut [Shard],
    report: &mut Recovered,
) -> Result<HeadAddresses, StartError> {
    let mut places = HeadAddresses::default();
    let scan = |position| {
        let metadata = Arc::clone(sources.metadata);
        tokio::spawn(async move { metadata.scan(position, PAGE).await })
    };
    let mut next = scan(None);
    loop {
        let page = Arc::new(next.await.map_err(|_| StartError::Aborted)??);
        let end = page.next.is_none();
        // The store reads the next page while the shards and the index process this one.
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

/// Adds the metrics of a page in small groups: one pass computes hashes and ids, one loads table entries, one
/// adds heads. In this way the cache misses of a pass overlap.
fn take_metrics(sources: &Sources<'_>, shards: &mut [Shard], places: &mut HeadAddresses, page: &MetaPage) {
    let mut entries = page.iter().peekable();
    let mut metrics = Vec::with_capacity(ABREAST);
    while entries.peek().is_some() {
        metrics.clear();
        metrics.extend(entries.by_ref().take(ABREAST).map(|(name, entry)| {
            let hash = sources.router.hash(name);
            (hash, sources.router.shard(&hash), MetricId::of(name), &entry.config, name)
        }));
        metrics.iter().for_each(|(hash, shard, ..)| shards[*shard].warm_entry(hash));
        for (hash, shard, id, config, name) in &metrics {
            let at = shards[*shard].insert(*hash, *id, 0, config, LifeEvent::InsertKnown);
            shards[*shard].enter_quotas(at, sources.quotas.places(name));
            places.push(*id, (*shard as u16, at));
        }
    }
}
