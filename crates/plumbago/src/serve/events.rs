//! Gives the API its events, and adds events for verbs.

use std::path::PathBuf;
use std::sync::Arc;

use plumbago_api::{EventLog, EventPeers, NewEvent};
use plumbago_boxed_futures::boxed_futures;
use plumbago_maintenance::events::{EventKeeper, EventsReport};
use plumbago_maintenance::graphite::SourceEvent;
use plumbago_maintenance::verb::VerbError;
use plumbago_telemetry::Damage;

use crate::config::Config;
use crate::error::{Exit, Failure};

/// Name of the events file in the data directory.
const EVENTS: &str = "events.jsonl";

/// Opens the log of events, with those of earlier runs. It stores none if `api.events_bytes` is 0. `peers`
/// are the other daemons if the store is shared.
pub(super) fn open(
    config: &Config,
    peers: Option<Arc<dyn EventPeers>>,
    damage: &Damage,
) -> Result<Arc<EventLog>, Failure> {
    let place = Place::of(config);
    let log = place.open().map_err(|error| Failure::new(Exit::Store, error))?;
    if let Some(text) = log.damage() {
        damage.found(&place.path, text);
    }
    Ok(Arc::new(match peers {
        Some(peers) => log.among_peers(peers),
        None => log,
    }))
}

/// The path and the size limit of a log of events.
#[derive(Debug, Clone)]
struct Place {
    path: PathBuf,
    bytes_max: usize,
}

impl Place {
    fn of(config: &Config) -> Self {
        Self { path: config.data_dir.join(EVENTS), bytes_max: config.api.events_bytes.bytes() }
    }

    fn open(&self) -> anyhow::Result<EventLog> {
        if self.bytes_max == 0 {
            return Ok(EventLog::off());
        }
        let log = EventLog::open(&self.path, self.bytes_max);
        log.map_err(|error| anyhow::Error::new(error).context(format!("cannot open {}", self.path.display())))
    }
}

/// The events for verbs.
#[derive(Debug, Clone)]
pub(crate) struct Events(Kept);

#[derive(Debug, Clone)]
enum Kept {
    /// The log that the daemon has open.
    Open(Arc<EventLog>),
    /// No daemon has opened the log, so it is opened for each use.
    AtRest(Place),
}

impl Events {
    /// The events of the log that the daemon has open.
    pub(super) fn open(log: Arc<EventLog>) -> Self {
        Self(Kept::Open(log))
    }

    /// The events of a data directory that no daemon uses.
    pub(super) fn at_rest(config: &Config) -> Self {
        Self(Kept::AtRest(Place::of(config)))
    }

    fn log(&self) -> anyhow::Result<Arc<EventLog>> {
        match &self.0 {
            Kept::Open(log) => Ok(Arc::clone(log)),
            Kept::AtRest(place) => Ok(Arc::new(place.open()?)),
        }
    }
}

#[boxed_futures]
impl EventKeeper for Events {
    async fn add_missing(&self, events: Vec<SourceEvent>, dry_run: bool) -> Result<EventsReport, VerbError> {
        let kept = self.clone();
        let total = events.len() as u64;
        let new = |event: SourceEvent| {
            let SourceEvent { when, what, data, tags } = event;
            NewEvent { when, what, data, tags }
        };
        let events: Vec<NewEvent> = events.into_iter().map(new).collect();
        let adding = move || -> anyhow::Result<_> { Ok(kept.log()?.add_missing(events, dry_run)?) };
        let added = tokio::task::spawn_blocking(adding).await;
        let added = added.map_err(|error| VerbError::Failed(error.to_string()))?;
        let added = added.map_err(|error| VerbError::Failed(format!("{error:#}")))?;
        Ok(EventsReport {
            events: total,
            added: added.added,
            known: added.known,
            no_room: added.no_room,
            too_long: added.too_long,
            dry_run,
        })
    }
}
