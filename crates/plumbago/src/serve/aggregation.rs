//! Opens and runs aggregation, if it is configured.

use std::sync::Arc;

use plumbago_aggregation::{Aggregation, AggregationParts, Balance, OpenError};
use plumbago_ingest::{Post, Reject, Rules};
use plumbago_journal::JournalError;
use plumbago_relay::Relay;
use plumbago_telemetry::Conditions;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Core;
use super::sink::{AggregatedSink, DerivedSink, RelayedSink};
use crate::config::Config;
use crate::error::{Exit, Failure};

/// Aggregation, with the rewrite rules that follow it.
#[derive(Debug, Clone)]
pub(crate) struct Stage {
    pub(crate) aggregation: Aggregation,
    pub(crate) post: Post,
}

/// The task that computes intervals when they are due.
pub(super) struct Running {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

/// Reads the rewrite rules, and opens aggregation. From now on points are accepted.
pub(super) fn open(config: &Config, core: &Core) -> Result<(Rules, Option<Stage>), Failure> {
    if config.aggregation.is_off() {
        return Ok((
            Rules::load(config.ingest.rule_files()).map_err(|e| Failure::new(Exit::Config, e))?,
            None,
        ));
    }
    let rules =
        Rules::load_post_later(config.ingest.rule_files()).map_err(|e| Failure::new(Exit::Config, e))?;
    let parts = AggregationParts {
        dir: &config.aggregation_dir(),
        journal: &config.journal,
        clock: Arc::clone(&core.clock),
        registry: &core.registry,
    };
    let aggregation = Aggregation::open(&config.aggregation, parts).map_err(failure)?;
    let post = Post::new(rules.clone(), config.ingest.names(), &core.registry);
    Ok((rules, Some(Stage { aggregation, post })))
}

fn failure(error: OpenError) -> Failure {
    let exit = match &error {
        OpenError::Settings(_) => Exit::Config,
        OpenError::Log { source: JournalError::Corrupt { .. }, .. } => Exit::Data,
        OpenError::Log { .. } => Exit::Store,
    };
    Failure::new(exit, error)
}

impl Stage {
    /// Puts aggregation in front of the engine and the relay.
    pub(super) fn sink(&self, core: &Core, relay: &Relay) -> AggregatedSink {
        AggregatedSink {
            aggregation: self.aggregation.clone(),
            post: self.post.clone(),
            inner: RelayedSink { engine: core.engine.clone(), relay: relay.clone() },
        }
    }

    /// Starts the task that computes intervals when they are due.
    pub(super) fn start(&self, core: &Core, relay: &Relay) -> Running {
        let stop = CancellationToken::new();
        let derived = DerivedSink(self.sink(core, relay));
        let task = tokio::spawn(self.aggregation.clone().run(derived, stop.clone()));
        Running { task, stop }
    }

    pub(super) fn report(&self, conditions: &Conditions) {
        self.aggregation.report(conditions);
    }

    /// The line of aggregation in the ledger.
    pub(super) fn balance(&self) -> Balance {
        self.aggregation.balance()
    }

    /// Points that were refused for this reason because the rules under `[post]` made their names unusable.
    pub(super) fn rejected_for(&self, reason: Reject) -> u64 {
        self.post.rejected_for(reason)
    }
}

impl Running {
    /// Computes all intervals once more, and ends. Call this only when no more points can arrive.
    pub(super) async fn end(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "aggregation ended early; the next start continues with its open intervals");
        }
    }
}
