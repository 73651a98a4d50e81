//! Peers: this daemon's requests to other daemons, and its answers to their requests.

use std::sync::Arc;

use plumbago_api::{AdminError, EventLog, EventPeers, HEADS_PATH, PeerHeads};
use plumbago_boxed_futures::boxed_futures;
use plumbago_cluster::peers::wire::Asked;
use plumbago_cluster::peers::{Client, wire};
use plumbago_store::{EventQuestion, FetchRequest, PeerAnswer, PeerEvent, WriterIdentity};
use plumbago_telemetry::Registry;

use super::admin::AdminControl;
use super::backend::Keeper;
use crate::config::Config;
use crate::error::{Exit, Failure};

/// Makes the client for the peers in `cluster.peers`.
pub(super) fn open(config: &Config, registry: &Registry) -> Result<Client, Failure> {
    let client = Client::new(&config.cluster, HEADS_PATH, &config.admin.token, registry);
    client.map_err(|error| Failure::new(Exit::Config, anyhow::Error::from(error).context("cluster.ca")))
}

/// The peers that are asked for events.
#[derive(Debug)]
pub(super) struct OfEvents {
    keeper: Keeper,
    client: Arc<Client>,
}

impl OfEvents {
    /// Returns `None` if the store is not shared with other daemons.
    pub(super) fn of(keeper: &Keeper, client: &Arc<Client>) -> Option<Arc<dyn EventPeers>> {
        keeper.writer()?;
        Some(Arc::new(Self { keeper: keeper.clone(), client: Arc::clone(client) }))
    }
}

#[boxed_futures]
impl EventPeers for OfEvents {
    fn writer(&self) -> WriterIdentity {
        let (replica, writer) = self.keeper.writer().unwrap_or_default();
        WriterIdentity::new(replica, writer)
    }

    async fn events(&self, question: &EventQuestion) -> Vec<PeerEvent> {
        self.client.events(question).await
    }
}

/// Answers peers.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) control: AdminControl,
    pub(super) events: Arc<EventLog>,
}

#[boxed_futures]
impl PeerHeads for Answers {
    async fn pending(&self, message: &[u8]) -> Result<Vec<u8>, AdminError> {
        match wire::read_asked(message).map_err(failed)? {
            Asked::Points(request) => self.points(&request).await,
            Asked::Events(question) => self.events(question).await,
        }
    }
}

impl Answers {
    async fn points(&self, request: &FetchRequest) -> Result<Vec<u8>, AdminError> {
        // Until the replay is done, heads are incomplete.
        if !self.control.is_ready() {
            return Err(AdminError::Failed("the journal is being replayed".to_owned()));
        }
        let (replica, writer) = self.writer()?;
        let series = self.control.reader().pending(request).await.map_err(failed)?;
        wire::answer(&PeerAnswer { replica, writer, series }).map_err(failed)
    }

    async fn events(&self, question: EventQuestion) -> Result<Vec<u8>, AdminError> {
        self.writer()?;
        let events = Arc::clone(&self.events);
        let answer = tokio::task::spawn_blocking(move || wire::events_answer(&events.answer(&question)));
        answer.await.map_err(failed)?.map_err(failed)
    }

    fn writer(&self) -> Result<(u8, u16), AdminError> {
        let alone = || AdminError::Failed("this store is not shared with other daemons".to_owned());
        self.control.keeper().writer().ok_or_else(alone)
    }
}

fn failed(error: impl std::fmt::Display) -> AdminError {
    AdminError::Failed(error.to_string())
}
