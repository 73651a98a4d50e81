//! Writes self-metrics as points with the names and units of carbon's `instrumentation` module, so that
//! dashboards for carbon keep working. `listeners.NAME.metricsReceived` and `.errors` are the shares of each listener.

use std::sync::Arc;
use std::time::Duration;

use plumbago_aggregation::Aggregation;
use plumbago_engine::{Engine, Ledger};
use plumbago_ingest::{Listener, Reject};
use plumbago_model::{Clock, PointBatch};
use plumbago_telemetry::Registry;
use plumbago_telemetry::process::cpu_seconds;
use tokio_util::sync::CancellationToken;

use crate::config::SelfMetrics;
use crate::machine;

/// The metrics of carbon-cache that carbon-aggregator reports as well.
const OF_AGGREGATOR: [&str; 6] =
    ["metricsReceived", "activeConnections", "blacklistMatches", "whitelistRejects", "cpuUsage", "memUsage"];

/// Where the values of the self-metrics come from.
pub(crate) struct Source {
    pub(crate) engine: Engine,
    pub(crate) registry: Registry,
    pub(crate) listeners: plumbago_ingest::Handle,
    pub(crate) aggregation: Option<Aggregation>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Carbon's counters, as totals since the start. Each point is the increase since the previous one.
struct Totals {
    received: f64,
    committed: f64,
    updates: f64,
    creates: f64,
    dropped_creates: f64,
    errors: f64,
    blacklisted: f64,
    not_whitelisted: f64,
    cpu: f64,
    derived: f64,
    listeners: Vec<OfListener>,
}

/// What a listener did with its points, since the start.
struct OfListener {
    listener: Listener,
    received: f64,
    errors: f64,
}

/// Pushes the points to the engine at every interval until `stop`. Does nothing if the interval is zero.
pub(crate) async fn run(config: SelfMetrics, source: Source, stop: CancellationToken) {
    let interval = *config.interval;
    if interval.is_zero() {
        return;
    }
    let names = Names::new(&config.prefix);
    let mut before = totals(&source).await;
    while stop.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
        let now = totals(&source).await;
        let batch = points(&source, &names, (&before, &now), interval);
        source.engine.push(batch).await;
        before = now;
    }
}

fn points(
    source: &Source,
    names: &Names,
    (before, now): (&Totals, &Totals),
    interval: Duration,
) -> PointBatch {
    let value = |name: &str| source.registry.value(name).unwrap_or(0.0);
    let updates = now.updates - before.updates;
    let committed = now.committed - before.committed;
    let rows = [
        ("metricsReceived", now.received - before.received),
        ("committedPoints", committed),
        ("updateOperations", updates),
        ("pointsPerUpdate", if updates > 0.0 { committed / updates } else { 0.0 }),
        ("creates", now.creates - before.creates),
        ("droppedCreates", now.dropped_creates - before.dropped_creates),
        ("errors", now.errors - before.errors),
        ("activeConnections", source.listeners.stats().active_connections() as f64),
        ("cache.size", value("plumbago_engine_held_points")),
        ("cache.queues", value("plumbago_engine_metrics")),
        ("cache.overflow", 0.0),
        ("blacklistMatches", now.blacklisted - before.blacklisted),
        ("whitelistRejects", now.not_whitelisted - before.not_whitelisted),
        ("cpuUsage", (now.cpu - before.cpu) / interval.as_secs_f64() * 100.0),
        ("memUsage", machine::used_bytes() as f64),
    ];
    let timestamp = u32::try_from(source.clock.now()).unwrap_or(0);
    let mut batch = PointBatch::with_capacity(rows.len());
    for (name, value) in rows {
        batch.push(&format!("{}.{name}", names.agent), timestamp, value);
    }
    for (now, before) in now.listeners.iter().zip(&before.listeners) {
        let own =
            [("metricsReceived", now.received - before.received), ("errors", now.errors - before.errors)];
        // Most daemons use one or two listeners. The unused ones get no metrics.
        let is_used = now.received + now.errors > 0.0;
        for (name, value) in own.into_iter().filter(|_| is_used) {
            let listener = now.listener.label();
            batch.push(&format!("{}.listeners.{listener}.{name}", names.agent), timestamp, value);
        }
    }
    if let Some(aggregation) = &source.aggregation {
        let (buffers, values) = aggregation.buffered();
        let own = [
            ("allocatedBuffers", buffers as f64),
            ("bufferedDatapoints", values as f64),
            ("aggregateDatapointsSent", now.derived - before.derived),
        ];
        let shared = rows.iter().copied().filter(|(name, _)| OF_AGGREGATOR.contains(name));
        for (name, value) in own.into_iter().chain(shared) {
            batch.push(&format!("{}.{name}", names.aggregator), timestamp, value);
        }
    }
    batch
}

/// The first part of the names.
struct Names {
    agent: String,
    aggregator: String,
}

impl Names {
    fn new(prefix: &str) -> Self {
        Self { agent: agent(prefix), aggregator: format!("{prefix}.aggregator.{}-a", host()) }
    }
}

/// The beginning of the names of this process's self-metrics, without the last dot.
pub(super) fn agent(prefix: &str) -> String {
    format!("{prefix}.agents.{}-a", host())
}

async fn totals(source: &Source) -> Totals {
    let value = |name: &str| source.registry.value(name).unwrap_or(0.0);
    let stats = source.listeners.stats();
    Totals {
        received: stats.accepted() as f64,
        committed: value("plumbago_engine_stored_points_total"),
        updates: value("plumbago_engine_flushed_metrics_total"),
        creates: value("plumbago_engine_created_metrics_total"),
        dropped_creates: source.engine.ledger().await.map_or(0.0, |ledger| dropped_creates(&ledger) as f64),
        errors: stats.rejected() as f64,
        blacklisted: stats.rejected_for(Reject::Blacklist) as f64,
        not_whitelisted: stats.rejected_for(Reject::Whitelist) as f64,
        cpu: cpu_seconds(),
        derived: value("plumbago_aggregation_derived_points_total"),
        listeners: Listener::all()
            .map(|listener| OfListener {
                listener,
                received: stats.of(listener).accepted() as f64,
                errors: stats.of(listener).rejected() as f64,
            })
            .collect(),
    }
}

/// Points of new metrics that were refused, which carbon counts as `droppedCreates`.
fn dropped_creates(ledger: &Ledger) -> u64 {
    let refused = |reason: &str| matches!(reason, "create_limited" | "memory_limited");
    ledger.rejected_by_reason().filter(|(reason, _)| refused(reason)).map(|(_, n)| n).sum()
}

/// The host's name with `_` for dots, as carbon writes it.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().replace('.', "_");
    if name.is_empty() { "localhost".to_owned() } else { name }
}
