//! The health of the process. Adds the conditions of the parts that do not report them themselves, and
//! answers `/readyz` from the list of conditions. The names and their meaning for an operator are in
//! `docs/conditions.md`.

use std::sync::Arc;
use std::time::Duration;

use plumbago_api::Readiness;
use plumbago_cluster::peers::Client;
use plumbago_relay::Relay;
use plumbago_telemetry::{Condition, Conditions, DAMAGED_DATA, Severity};
use tokio_util::sync::CancellationToken;

use super::aggregation::Stage;
use super::backend::Keeper;
use super::reload::RELOAD_FAILED;
use super::retention_hint::RETENTION;

/// Pause between two checks of the store and the peers.
const PAUSE: Duration = Duration::from_millis(500);

/// The conditions that this crate reports. The engine and the cluster report all others.
const CONDITIONS: [&str; 7] =
    [STARTING, STOPPING, RETENTION, RELOAD_FAILED, DAMAGED_DATA, "store_broken", "peers"];
/// Holds until the points of earlier runs can be read.
const STARTING: &str = "starting";
/// Holds from the beginning of a stop.
const STOPPING: &str = "stopping";

/// The parts of the process that depend on other servers.
#[derive(Debug, Clone)]
pub(crate) struct Outside {
    pub(crate) keeper: Keeper,
    pub(crate) peers: Arc<Client>,
    pub(crate) relay: Relay,
    pub(crate) stage: Option<Stage>,
}

/// The health of the process. Clones share the same state.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    conditions: Conditions,
    outside: Outside,
    stop: CancellationToken,
}

impl Health {
    /// Begins with the condition that the process is starting.
    pub(super) fn new(conditions: Conditions, outside: Outside, stop: CancellationToken) -> Self {
        conditions.declare(CONDITIONS);
        conditions.declare(plumbago_engine::CONDITIONS);
        conditions.declare(plumbago_relay::CONDITIONS);
        conditions.declare(plumbago_aggregation::CONDITIONS);
        if matches!(outside.keeper, Keeper::Cassandra(_)) {
            conditions.declare(plumbago_cluster::CONDITIONS);
        }
        let text = "the points and names of earlier runs are being read";
        conditions.begin_as(Severity::Phase, STARTING, text);
        Self { conditions, outside, stop }
    }

    /// States that the start is complete.
    pub(super) fn set_started(&self) {
        self.conditions.end(STARTING);
    }

    /// Keeps the list of conditions up to date until the runtime ends, so that the log and the gauges show
    /// them even if `/readyz` is not requested.
    pub(super) async fn run(self) {
        loop {
            self.look();
            let _ = tokio::time::timeout(PAUSE, self.stop.cancelled()).await;
            if self.stop.is_cancelled() {
                self.look();
                return;
            }
        }
    }

    fn look(&self) {
        if self.stop.is_cancelled() {
            // The store reports problems while it is being closed. In that case they have no meaning.
            self.conditions.begin_as(Severity::Phase, STOPPING, "the process is stopping");
            return;
        }
        self.outside.keeper.report(&self.conditions);
        self.outside.relay.report(&self.conditions);
        if let Some(stage) = &self.outside.stage {
            stage.report(&self.conditions);
        }
        let troubles = self.outside.peers.troubles();
        let text = (!troubles.is_empty()).then(|| troubles.join("; "));
        self.conditions.set(Severity::Warning, "peers", text);
    }
}

impl Readiness for Health {
    fn conditions(&self) -> Vec<Condition> {
        self.look();
        self.conditions.list()
    }
}
