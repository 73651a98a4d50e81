//! Writes self-metrics as points with the names and units of carbon's `instrumentation` module, so that
//! dashboards for carbon keep working. `listeners.NAME.metricsReceived` and `.errors` are the shares of each listener.

use std::sync::Arc;
use std::time::Duration;

use plumbago_aggregation::Aggregation;
use plumbago_engine::{Engine, Ledger};
use plumbago_ingest::{Listener, Reject};
use plumbago_model::{Clock, PointBatch};
use plumbago_relay::{Balance, Relay};
use plumbago_telemetry::Registry;
use plumbago_telemetry::process::cpu_seconds;
use tokio_util::sync::CancellationToken;

use crate::config::SelfMetrics;
use crate::machine;

/// The metrics of carbon-cache that carbon-aggregator and carbon-relay report as well.
const OF_ALL: [&str; 6] =
    ["metricsReceived", "activeConnections", "blacklistMatches", "whitelistRejects", "cpuUsage", "memUsage"];

/// Where the values of the self-metrics come from.
pub(crate) struct Source {
    pub(crate) engine: Engine,
    pub(crate) registry: Registry,
    pub(crate) listeners: plumbago_ingest::Handle,
    pub(crate) aggregation: Option<Aggregation>,
    pub(crate) relay: Relay,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Carbon's counters, as totals since the start. Each point is the increase since the previous one.
struct Totals {
    received: f64,
    committed: f64,
    updates: f64,
    update_seconds: f64,
    creates: f64,
    dropped_creates: f64,
    errors: f64,
    blacklisted: f64,
    not_whitelisted: f64,
    cpu: f64,
    derived: f64,
    queries: f64,
    bulk_queries: f64,
    bulk_metrics: f64,
    listeners: Vec<OfListener>,
    destinations: Vec<Balance>,
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
        let mut batch = PointBatch::with_capacity(64);
        let rows = Rows { timestamp: u32::try_from(source.clock.now()).unwrap_or(0), batch: &mut batch };
        rows.add(&source, &names, (&before, &now), interval);
        source.engine.push(batch).await;
        before = now;
    }
}

/// The points of one interval.
struct Rows<'a> {
    timestamp: u32,
    batch: &'a mut PointBatch,
}

impl Rows<'_> {
    fn add(mut self, source: &Source, names: &Names, (before, now): (&Totals, &Totals), interval: Duration) {
        let rows = of_cache(source, (before, now), interval);
        self.push(&names.agent, rows);
        for (now, before) in now.listeners.iter().zip(&before.listeners) {
            // Most daemons use one or two listeners. The unused ones get no metrics.
            if now.received + now.errors > 0.0 {
                let prefix = format!("{}.listeners.{}", names.agent, now.listener.label());
                let (received, errors) = (now.received - before.received, now.errors - before.errors);
                self.push(&prefix, [("metricsReceived", received), ("errors", errors)]);
            }
        }
        let shared = || rows.into_iter().filter(|(name, _)| OF_ALL.contains(name));
        if let Some(aggregation) = &source.aggregation {
            let (buffers, values) = aggregation.buffered();
            let own = [
                ("allocatedBuffers", buffers as f64),
                ("bufferedDatapoints", values as f64),
                ("aggregateDatapointsSent", now.derived - before.derived),
            ];
            self.push(&names.aggregator, own.into_iter().chain(shared()));
        }
        if !now.destinations.is_empty() {
            let sent = self.destinations(names, before, now);
            self.push(&names.relay, [("metricsForwarded", sent)].into_iter().chain(shared()));
        }
    }

    /// Adds the metrics that carbon-relay reports for each destination. Returns how many points were sent to
    /// all of them together.
    fn destinations(&mut self, names: &Names, before: &Totals, now: &Totals) -> f64 {
        let mut all = 0.0;
        for (now, before) in now.destinations.iter().zip(&before.destinations) {
            let since = |count: fn(&Balance) -> u64| count(now).saturating_sub(count(before)) as f64;
            let sent = since(|balance| balance.sent);
            let rows = [
                ("attemptedRelays", since(|balance| balance.accepted)),
                ("sent", sent),
                ("fullQueueDrops", since(|balance| balance.dropped)),
                ("relayMaxQueueLength", now.waiting as f64),
            ];
            self.push(&format!("{}.destinations.{}", names.relay, destination(&now.destination)), rows);
            all += sent;
        }
        all
    }

    fn push(&mut self, prefix: &str, rows: impl IntoIterator<Item = (&'static str, f64)>) {
        for (name, value) in rows {
            self.batch.push(&format!("{prefix}.{name}"), self.timestamp, value);
        }
    }
}

/// Adds the metrics that carbon-cache reports.
fn of_cache(
    source: &Source,
    (before, now): (&Totals, &Totals),
    interval: Duration,
) -> [(&'static str, f64); 19] {
    let value = |name: &str| source.registry.value(name).unwrap_or(0.0);
    let updates = now.updates - before.updates;
    let committed = now.committed - before.committed;
    let bulk_queries = now.bulk_queries - before.bulk_queries;
    [
        ("metricsReceived", now.received - before.received),
        ("committedPoints", committed),
        ("updateOperations", updates),
        ("avgUpdateTime", share(now.update_seconds - before.update_seconds, updates)),
        ("pointsPerUpdate", share(committed, updates)),
        ("creates", now.creates - before.creates),
        ("droppedCreates", now.dropped_creates - before.dropped_creates),
        ("errors", now.errors - before.errors),
        ("activeConnections", source.listeners.stats().active_connections() as f64),
        ("cache.size", value("plumbago_engine_held_points")),
        ("cache.queues", value("plumbago_engine_metrics")),
        ("cache.queries", now.queries - before.queries),
        ("cache.bulk_queries", bulk_queries),
        ("cache.bulk_queries_average_size", share(now.bulk_metrics - before.bulk_metrics, bulk_queries)),
        // Points for which there is no memory are refused before they reach the cache, and count as errors.
        ("cache.overflow", 0.0),
        ("blacklistMatches", now.blacklisted - before.blacklisted),
        ("whitelistRejects", now.not_whitelisted - before.not_whitelisted),
        ("cpuUsage", (now.cpu - before.cpu) / interval.as_secs_f64() * 100.0),
        ("memUsage", machine::used_bytes() as f64),
    ]
}

/// `sum` divided by `count`; 0 if `count` is 0.
fn share(sum: f64, count: f64) -> f64 {
    if count > 0.0 { sum / count } else { 0.0 }
}

/// A destination as carbon-relay writes it: `host:port:instance` with `_` for dots. Plumbago's destinations
/// have no instance; carbon writes `None` for that.
fn destination(address: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_:".contains(c) { c } else { '_' };
    let address: String = address.chars().filter(|c| !"[]".contains(*c)).map(plain).collect();
    format!("{address}:None")
}

/// The first part of the names.
struct Names {
    agent: String,
    aggregator: String,
    relay: String,
}

impl Names {
    fn new(prefix: &str) -> Self {
        let host = host();
        Self {
            agent: agent(prefix),
            aggregator: format!("{prefix}.aggregator.{host}-a"),
            relay: format!("{prefix}.relays.{host}-a"),
        }
    }
}

/// The beginning of the names of this process's self-metrics, without the last dot.
pub(super) fn agent(prefix: &str) -> String {
    format!("{prefix}.agents.{}-a", host())
}

async fn totals(source: &Source) -> Totals {
    let value = |name: &str| source.registry.value(name).unwrap_or(0.0);
    let requests = |kind: &str| {
        source.registry.labelled("plumbago_carbonlink_requests_total", ("type", kind)).unwrap_or(0.0)
    };
    let stats = source.listeners.stats();
    Totals {
        received: stats.accepted() as f64,
        committed: value("plumbago_engine_stored_points_total"),
        updates: value("plumbago_engine_flushed_metrics_total"),
        update_seconds: source.registry.seconds("plumbago_engine_flush_seconds").unwrap_or(0.0),
        creates: value("plumbago_engine_created_metrics_total"),
        dropped_creates: source.engine.ledger().await.map_or(0.0, |ledger| dropped_creates(&ledger) as f64),
        errors: stats.rejected() as f64,
        blacklisted: stats.rejected_for(Reject::Blacklist) as f64,
        not_whitelisted: stats.rejected_for(Reject::Whitelist) as f64,
        cpu: cpu_seconds(),
        derived: value("plumbago_aggregation_derived_points_total"),
        queries: requests("cache-query"),
        bulk_queries: requests("cache-query-bulk"),
        bulk_metrics: value("plumbago_carbonlink_bulk_metrics_total"),
        destinations: source.relay.balances(),
        listeners: Listener::all()
            .map(|listener| OfListener {
                listener,
                received: stats.of(listener).accepted() as f64,
                errors: stats.of(listener).rejected() as f64,
            })
            .collect(),
    }
}

/// Number of points of new metrics that were refused, which carbon counts as `droppedCreates`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_spelled_as_by_carbon() {
        assert_eq!(destination("10.0.0.2:2003"), "10_0_0_2:2003:None");
        assert_eq!(destination("carbon-b.example:2004"), "carbon-b_example:2004:None");
        assert_eq!(destination("[fe80::1%eth0]:2003"), "fe80::1_eth0:2003:None");
    }
}
