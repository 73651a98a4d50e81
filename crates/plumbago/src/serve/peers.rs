//! Peers: the client that asks other daemons for their pending points, and the answer to their requests.

use async_trait::async_trait;
use plumbago_api::{AdminError, HEADS_PATH, PeerHeads};
use plumbago_cluster::peers::{Client, wire};
use plumbago_store::PeerAnswer;
use plumbago_telemetry::Registry;

use super::admin::Control;
use crate::config::Config;
use crate::error::{Exit, Failure};

/// Makes the client for the peers in `cluster.peers`.
pub(super) fn open(config: &Config, registry: &Registry) -> Result<Client, Failure> {
    let client = Client::new(&config.cluster, HEADS_PATH, &config.admin.token, registry);
    client.map_err(|error| Failure::new(Exit::Config, anyhow::Error::from(error).context("cluster.ca")))
}

#[async_trait]
impl PeerHeads for Control {
    async fn pending(&self, message: &[u8]) -> Result<Vec<u8>, AdminError> {
        let failed = |error: &dyn std::fmt::Display| AdminError::Failed(error.to_string());
        // Until the replay is done, heads are incomplete.
        if !self.is_ready() {
            return Err(AdminError::Failed("the journal is being replayed".to_owned()));
        }
        let Some((replica, writer)) = self.keeper().writer() else {
            return Err(AdminError::Failed("this store is not shared with other daemons".to_owned()));
        };
        let request = wire::read_request(message).map_err(|error| failed(&error))?;
        let series = self.reader().pending(&request).await.map_err(|error| failed(&error))?;
        wire::answer(&PeerAnswer { replica, writer, series }).map_err(|error| failed(&error))
    }
}
