//! The data of the process that the status page shows.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use plumbago_api::{AdminActions, AdminError, StatusSource};
use plumbago_boxed_futures::boxed_futures;
use plumbago_ingest::{Handle, Refusal};
use plumbago_model::Period;
use serde_json::{Value, json};

use super::admin::AdminControl;
use super::backend::Keeper;
use super::{Core, process, rules, self_metrics};
use crate::config::Config;

/// Supplies the status of the process.
pub(super) struct Inside {
    control: AdminControl,
    keeper: Keeper,
    rules: rules::Live,
    listeners: Handle,
    /// When the process started, in seconds since the epoch.
    started: u64,
    store: &'static str,
    memory_max: u64,
    /// The beginning of the names of the self-metrics; `None` if there are none.
    self_metrics: Option<String>,
    self_metrics_interval: Period,
}

impl fmt::Debug for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inside")
    }
}

impl Inside {
    pub(super) fn new(config: &Config, core: &Core, control: AdminControl, listeners: Handle) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let interval = config.self_metrics.interval;
        Self {
            control,
            keeper: core.keeper.clone(),
            rules: core.rules.clone(),
            listeners,
            started,
            store: config.store.kind.name(),
            memory_max: config.engine.memory_max.0,
            self_metrics: (!interval.is_zero()).then(|| self_metrics::agent(&config.self_metrics.prefix)),
            self_metrics_interval: interval,
        }
    }
}

#[boxed_futures]
impl StatusSource for Inside {
    async fn status(&self) -> Result<Value, AdminError> {
        let about = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "started": self.started,
            "store": self.store,
            "memory_bytes": process::resident_bytes(),
            "memory_max_bytes": self.memory_max,
            "self_metrics": self.self_metrics,
            "self_metrics_interval": self.self_metrics_interval.as_secs(),
        });
        Ok(json!({
            "about": about,
            "store": self.keeper.by_stage(&self.rules.load()).await,
            "ledger": self.control.ledger().await?,
            "refused": self.listeners.stats().refusals().iter().map(refusal).collect::<Value>(),
            "jobs": self.control.jobs().await?,
            "maintenance": self.control.maintenance().await?,
        }))
    }
}

fn refusal(refusal: &Refusal) -> Value {
    json!({
        "listener": refusal.listener.label(),
        "reason": refusal.sample.reason.label(),
        "sender": refusal.sample.origin.map(|address| address.to_string()),
        "text": refusal.sample.text,
        "at": refusal.at_ms / 1000,
    })
}
