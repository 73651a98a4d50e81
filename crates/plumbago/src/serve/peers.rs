//! Other daemons on the same store: asked by reads, and answered.

use async_trait::async_trait;
use plumbago_api::{AdminError, PeerHeads};
use plumbago_engine::PeerAnswer;
use plumbago_peers::{Client, wire};
use plumbago_telemetry::Registry;

use super::admin::Control;
use crate::config::Config;
use crate::error::{Exit, Failure};

/// Who asks the peers of the settings.
pub(super) fn open(config: &Config, registry: &Registry) -> Result<Client, Failure> {
    let client = Client::new(&config.cluster, &config.admin.token, registry);
    client.map_err(|error| Failure::new(Exit::Config, anyhow::Error::from(error).context("cluster.ca")))
}

#[async_trait]
impl PeerHeads for Control {
    async fn unsent(&self, message: &[u8]) -> Result<Vec<u8>, AdminError> {
        let failed = |error: &dyn std::fmt::Display| AdminError(error.to_string());
        // Until then heads do not answer.
        if !self.is_ready() {
            return Err(AdminError("the journal is being replayed".to_owned()));
        }
        let Some((replica, writer)) = self.keeper().writer() else {
            return Err(AdminError("nobody else reads this store".to_owned()));
        };
        let request = wire::read_request(message).map_err(|error| failed(&error))?;
        let series = self.reader().unsent(&request).await.map_err(|error| failed(&error))?;
        wire::answer(&PeerAnswer { replica, writer, series }).map_err(|error| failed(&error))
    }
}
