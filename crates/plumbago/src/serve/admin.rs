//! What the admin port may do with the daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use plumbago_api::{AdminActions, AdminError, Readiness};
use plumbago_engine::{Engine, Ledger};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::clock;

/// The hands of the admin port.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    engine: Engine,
    stop: CancellationToken,
    clock: clock::Setting,
    ready: Arc<AtomicBool>,
}

impl Control {
    pub(crate) fn new(engine: Engine, stop: CancellationToken, clock: clock::Setting) -> Self {
        Self { engine, stop, clock, ready: Arc::default() }
    }

    pub(crate) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }
}

impl Readiness for Control {
    fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if !self.ready.load(Ordering::Acquire) {
            reasons.push("the journal is being replayed".to_owned());
        }
        if self.stop.is_cancelled() {
            reasons.push("stopping".to_owned());
        }
        reasons
    }
}

#[async_trait]
impl AdminActions for Control {
    async fn flush(&self) -> Result<Value, AdminError> {
        self.engine.flush_all().await.map_err(|error| AdminError(error.to_string()))?;
        self.ledger().await
    }

    async fn ledger(&self) -> Result<Value, AdminError> {
        let ledger = self.engine.ledger().await.map_err(|error| AdminError(error.to_string()))?;
        Ok(ledger_json(&ledger))
    }

    async fn shutdown(&self) -> Result<Value, AdminError> {
        self.stop.cancel();
        Ok(json!({ "stopping": true }))
    }

    async fn set_clock(&self, now: i64) -> Result<Value, AdminError> {
        if self.clock.set(now) {
            Ok(json!({ "now": now }))
        } else {
            Err(AdminError(
                "the daemon runs on the machine's clock; start it with debug.clock set".to_owned(),
            ))
        }
    }
}

/// The ledger for people.
pub(crate) fn ledger_line(ledger: &Ledger) -> String {
    let refused: Vec<String> = ledger
        .rejected_by_reason()
        .filter(|(_, n)| *n > 0)
        .map(|(reason, n)| format!("{reason} {n}"))
        .collect();
    let refused = if refused.is_empty() { String::new() } else { format!(" ({})", refused.join(", ")) };
    format!(
        "ledger: received {} + recovered {} = stored {} + held {} + replaced {} + rejected {}{refused}; missing {}",
        ledger.received,
        ledger.recovered,
        ledger.stored,
        ledger.held,
        ledger.replaced,
        ledger.rejected_total(),
        ledger.missing()
    )
}

fn ledger_json(ledger: &Ledger) -> Value {
    let rejected: Map<String, Value> =
        ledger.rejected_by_reason().map(|(reason, n)| (reason.to_owned(), json!(n))).collect();
    json!({
        "received": ledger.received,
        "recovered": ledger.recovered,
        "stored": ledger.stored,
        "held": ledger.held,
        "replaced": ledger.replaced,
        "rejected": ledger.rejected_total(),
        "rejected_by_reason": rejected,
        "missing": ledger.missing() as i64,
    })
}
