//! What the page shows of the process.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use plumbago_api::{AdminActions, AdminError, StatusSource};
use plumbago_ingest::{Handle, Refusal};
use plumbago_model::Period;
use serde_json::{Value, json};

use super::admin::Control;
use super::{process, self_metrics};
use crate::config::Config;

/// Gives the status of the process. Cloning shares it.
#[derive(Debug, Clone)]
pub(super) struct Inside(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    control: Control,
    listeners: Handle,
    /// When the process started, in seconds since the epoch.
    started: u64,
    store: &'static str,
    memory_max: u64,
    /// The beginning of the names of the self-metrics; `None` if there are none.
    self_metrics: Option<String>,
    self_metrics_interval: Period,
}

impl Inside {
    pub(super) fn new(config: &Config, control: Control, listeners: Handle) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let interval = config.self_metrics.interval;
        Self(Arc::new(Parts {
            control,
            listeners,
            started,
            store: config.store.kind.name(),
            memory_max: config.engine.memory_max.0,
            self_metrics: (!interval.is_zero()).then(|| self_metrics::agent(&config.self_metrics.prefix)),
            self_metrics_interval: interval,
        }))
    }
}

#[async_trait]
impl StatusSource for Inside {
    async fn status(&self) -> Result<Value, AdminError> {
        let parts = &*self.0;
        let about = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "started": parts.started,
            "store": parts.store,
            "memory_bytes": process::resident_bytes(),
            "memory_max_bytes": parts.memory_max,
            "self_metrics": parts.self_metrics,
            "self_metrics_interval": parts.self_metrics_interval.as_secs(),
        });
        Ok(json!({
            "about": about,
            "ledger": parts.control.ledger().await?,
            "refused": parts.listeners.stats().refusals().iter().map(refusal).collect::<Value>(),
            "jobs": parts.control.jobs().await?,
            "maintenance": parts.control.maintenance().await?,
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
