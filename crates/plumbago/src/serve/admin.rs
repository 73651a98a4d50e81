//! The actions of the admin port.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plumbago_aggregation::Balance as Aggregated;
use plumbago_api::{AdminActions, AdminError, MaintenanceRequest};
use plumbago_boxed_futures::boxed_futures;
use plumbago_engine::{Engine, Ledger, Reader};
use plumbago_ingest::Reject;
use plumbago_maintenance::runs::{RunError, Runs};
use plumbago_maintenance::windows::Selection;
use plumbago_maintenance::{Request, RequestError, Scheduler};
use plumbago_relay::{Balance, Relay};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::aggregation::Stage;
use super::backend::Keeper;
use super::clock;

/// The parts of the process, apart from the engine, that have lines in the ledger.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    pub(crate) listeners: plumbago_ingest::Handle,
    pub(crate) relay: Relay,
    pub(crate) stage: Option<Stage>,
}

/// Carries out the actions of the admin port.
#[derive(Debug, Clone)]
pub(crate) struct AdminControl {
    engine: Engine,
    keeper: Keeper,
    stop: CancellationToken,
    clock: clock::Setting,
    sources: Sources,
    ready: Arc<AtomicBool>,
    scheduler: Scheduler,
    runs: Runs,
}

impl AdminControl {
    pub(crate) fn new(
        (engine, keeper): (Engine, Keeper),
        stop: CancellationToken,
        clock: clock::Setting,
        sources: Sources,
        (scheduler, runs): (Scheduler, Runs),
    ) -> Self {
        Self { engine, keeper, stop, clock, sources, ready: Arc::default(), scheduler, runs }
    }

    /// Whether the points of earlier runs can be read.
    pub(super) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    pub(super) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Returns a reader of this daemon's points, without those of its peers.
    pub(super) fn reader(&self) -> Reader {
        self.engine.reader()
    }
}

#[boxed_futures]
impl AdminActions for AdminControl {
    async fn flush(&self) -> Result<Value, AdminError> {
        self.engine.flush_all().await.map_err(|error| AdminError::Failed(error.to_string()))?;
        self.ledger().await
    }

    async fn ledger(&self) -> Result<Value, AdminError> {
        let whole = Whole::of(&self.sources, self.engine.ledger()).await;
        Ok(whole.map_err(|error| AdminError::Failed(error.to_string()))?.json())
    }

    async fn shutdown(&self) -> Result<Value, AdminError> {
        self.stop.cancel();
        Ok(json!({ "stopping": true }))
    }

    async fn replay(&self, since: i64, dry_run: bool) -> Result<Value, AdminError> {
        let failed = |error: anyhow::Error| AdminError::Failed(format!("{error:#}"));
        if dry_run {
            let again = self.keeper.would_replay(since).await.map_err(failed)?;
            let nodes = again.servers.iter().map(|(node, rows)| (node.to_string(), json!(rows)));
            let nodes: Map<String, Value> = nodes.collect();
            return Ok(json!({ "bytes": again.bytes, "rows": again.rows, "nodes": nodes }));
        }
        let bytes = self.keeper.replay(since).map_err(failed)?;
        Ok(json!({ "bytes": bytes }))
    }

    async fn set_clock(&self, now: i64) -> Result<Value, AdminError> {
        if self.clock.set(now) {
            Ok(json!({ "now": now }))
        } else {
            Err(AdminError::Failed(
                "the daemon runs on the machine's clock; start it with debug.clock set".to_owned(),
            ))
        }
    }

    async fn maintenance(&self) -> Result<Value, AdminError> {
        serde_json::to_value(self.scheduler.status()).map_err(|error| AdminError::Failed(error.to_string()))
    }

    async fn run_maintenance(&self, request: MaintenanceRequest) -> Result<Value, AdminError> {
        let MaintenanceRequest { job, dry_run, glob, from, until } = request;
        let selection = Selection { names: glob, from, until };
        let asked = self.scheduler.ask(&job, &Request { dry_run, selection });
        asked.map_err(|error| match error {
            RequestError::UnknownJob { .. } => AdminError::Unknown(error.to_string()),
            RequestError::TooMany => AdminError::Failed(error.to_string()),
            _ => AdminError::Invalid(error.to_string()),
        })?;
        Ok(json!({ "job": job, "dry_run": dry_run }))
    }

    async fn jobs(&self) -> Result<Value, AdminError> {
        json_of(self.runs.list())
    }

    async fn job(&self, id: &str) -> Result<Value, AdminError> {
        json_of(self.runs.get(id).map_err(refused)?)
    }

    async fn start_job(&self, name: &str, parameters: Value) -> Result<Value, AdminError> {
        if !self.is_ready() {
            return Err(AdminError::Failed("the daemon is still starting; try again in a moment".to_owned()));
        }
        json_of(self.runs.start(name, parameters).map_err(refused)?)
    }

    async fn ask(&self, name: &str, parameters: Value) -> Result<mpsc::Receiver<String>, AdminError> {
        if !self.is_ready() {
            return Err(AdminError::Failed("the daemon is still starting; try again in a moment".to_owned()));
        }
        self.runs.ask(name, parameters).map_err(refused)
    }

    async fn cancel_job(&self, id: &str) -> Result<Value, AdminError> {
        json_of(self.runs.cancel(id).map_err(refused)?)
    }
}

fn json_of(value: impl Serialize) -> Result<Value, AdminError> {
    serde_json::to_value(value).map_err(|error| AdminError::Failed(error.to_string()))
}

fn refused(error: RunError) -> AdminError {
    let text = error.to_string();
    match error {
        RunError::UnknownJob { .. } | RunError::UnknownId(_) => AdminError::Unknown(text),
        RunError::Invalid { .. } => AdminError::Invalid(text),
        RunError::TooMany => AdminError::Failed(text),
    }
}

/// The ledger of the whole process: points that the listeners refused, and points that the engine received.
pub(crate) struct Whole {
    engine: Ledger,
    refused: Vec<(&'static str, u64)>,
    /// The ledgers of the relay's destinations.
    relayed: Vec<Balance>,
    /// Aggregation's part of the ledger, if aggregation is on.
    aggregated: Option<Aggregated>,
}

impl Whole {
    /// The ledger of the whole process, with the engine's ledger from `engine`.
    ///
    /// # Errors
    ///
    /// As `engine`.
    pub(crate) async fn of<E>(
        sources: &Sources,
        engine: impl Future<Output = Result<Ledger, E>>,
    ) -> Result<Self, E> {
        // Read before the engine's ledger, so that the engine has received at least the points counted here.
        let aggregated = sources.stage.as_ref().map(Stage::balance);
        Ok(Self::new(engine.await?, aggregated, sources))
    }

    fn new(engine: Ledger, aggregated: Option<Aggregated>, sources: &Sources) -> Self {
        let (stats, stage) = (sources.listeners.stats(), sources.stage.as_ref());
        let refused =
            |reason| stats.rejected_for(reason) + stage.map_or(0, |stage| stage.rejected_for(reason));
        let mut refused: Vec<(&'static str, u64)> =
            Reject::ALL.iter().map(|reason| (reason.label(), refused(*reason))).collect();
        for (reason, n) in engine.rejected_by_reason() {
            match refused.iter_mut().find(|(name, _)| *name == reason) {
                Some((_, total)) => *total += n,
                None => refused.push((reason, n)),
            }
        }
        Self { engine, refused, relayed: sources.relay.balances(), aggregated }
    }

    fn rejected(&self) -> u64 {
        self.refused.iter().map(|(_, n)| n).sum()
    }

    /// Number of points that senders sent. The engine's own number also contains the points that aggregation
    /// made, and lacks those that the listeners refused or that aggregation did not pass on.
    fn received(&self) -> u64 {
        let refused = self.rejected() - self.engine.rejected_total();
        self.engine.received + refused + self.consumed() - self.derived()
    }

    fn derived(&self) -> u64 {
        self.aggregated.map_or(0, |line| line.derived)
    }

    fn consumed(&self) -> u64 {
        self.aggregated.map_or(0, |line| line.consumed)
    }

    pub(crate) fn json(&self) -> Value {
        let reasons: Map<String, Value> =
            self.refused.iter().map(|(reason, n)| ((*reason).to_owned(), json!(n))).collect();
        json!({
            "received": self.received(),
            "derived": self.derived(),
            "recovered": self.engine.recovered,
            "stored": self.engine.stored,
            "held": self.engine.held,
            "queued": self.engine.queued,
            "waiting": self.engine.waiting,
            "replaced": self.engine.replaced,
            "consumed": self.consumed(),
            "rejected": self.rejected(),
            "rejected_by_reason": reasons,
            "missing": self.engine.missing() as i64,
            "lost": self.engine.lost,
            "aggregation": self.aggregated.as_ref().map(aggregated),
            "relay": self.relayed.iter().map(relayed).collect::<Vec<_>>(),
        })
    }
}

/// Writes the ledger as one line for operators; the daemon prints it when it stops.
impl fmt::Display for Whole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ledger { recovered, stored, held, replaced, .. } = self.engine;
        write!(f, "ledger: received {}", self.received())?;
        if self.aggregated.is_some() {
            write!(f, " + derived {}", self.derived())?;
        }
        write!(f, " + recovered {recovered} = stored {stored} + held {held} + replaced {replaced}")?;
        if self.aggregated.is_some() {
            write!(f, " + consumed {}", self.consumed())?;
        }
        write!(f, " + rejected {}", self.rejected())?;
        let reasons: Vec<String> =
            self.refused.iter().filter(|(_, n)| *n > 0).map(|(reason, n)| format!("{reason} {n}")).collect();
        if !reasons.is_empty() {
            write!(f, " ({})", reasons.join(", "))?;
        }
        if self.engine.lost > 0 {
            write!(f, "; lost by damaged files {}", self.engine.lost)?;
        }
        write!(f, "; missing {}", self.engine.missing())?;
        if let Some(Aggregated { fed, recovered, refused, derived, consumed }) = self.aggregated {
            write!(
                f,
                "\naggregation: fed {fed}, recovered {recovered}, refused {refused}; derived {derived}, consumed \
                 {consumed}"
            )?;
        }
        for Balance { destination, accepted, recovered, sent, waiting, dropped } in &self.relayed {
            write!(
                f,
                "\nrelay to {destination}: accepted {accepted} + recovered {recovered} = sent {sent} + waiting \
                 {waiting} + dropped {dropped}"
            )?;
        }
        Ok(())
    }
}

fn aggregated(line: &Aggregated) -> Value {
    json!({
        "fed": line.fed,
        "recovered": line.recovered,
        "refused": line.refused,
        "derived": line.derived,
        "consumed": line.consumed,
    })
}

fn relayed(balance: &Balance) -> Value {
    json!({
        "destination": balance.destination,
        "accepted": balance.accepted,
        "recovered": balance.recovered,
        "sent": balance.sent,
        "waiting": balance.waiting,
        "dropped": balance.dropped,
    })
}
