//! Counters of requests and connections.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::Response;
use plumbago_telemetry::{Counter, Gauge, Histogram, Registry};

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The counters of one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Meter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    by_class: [Counter; 5],
    abandoned: Counter,
    seconds: Histogram,
}

impl Meter {
    pub(crate) fn new(registry: &Registry, endpoint: &str) -> Self {
        let labels = [("endpoint", endpoint)];
        let by_class = CLASSES.map(|class| {
            let labels = [("endpoint", endpoint), ("status", class)];
            registry.counter("plumbago_api_requests_total", "answered HTTP requests", &labels)
        });
        let abandoned = registry.counter(
            "plumbago_api_requests_abandoned_total",
            "HTTP requests whose client disconnected before the answer",
            &labels,
        );
        let seconds = registry.histogram(
            "plumbago_api_request_seconds",
            "time from the head of a request to the beginning of its answer",
            &labels,
        );
        Self(Arc::new(Inner { by_class, abandoned, seconds }))
    }

    /// Runs a request and counts its result.
    pub(crate) async fn measure(&self, answer: impl Future<Output = Response>) -> Response {
        let mut running = Running { inner: &self.0, since: Instant::now(), answered: false };
        let response = answer.await;
        running.answered = true;
        let class = usize::from(response.status().as_u16() / 100).clamp(1, 5) - 1;
        self.0.by_class[class].add(1);
        response
    }
}

/// A request in progress. When dropped, it records the time until the response. A request that is dropped
/// without a response counts as abandoned: its client has disconnected.
struct Running<'a> {
    inner: &'a Inner,
    since: Instant,
    answered: bool,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.inner.abandoned.add(1);
            return;
        }
        self.inner.seconds.record(self.since.elapsed());
    }
}

/// Histograms of the time that render requests spend in each phase.
#[derive(Debug)]
pub(crate) struct RenderPhases {
    find: Histogram,
    fetch: Histogram,
    evaluate: Histogram,
}

/// The time that one render request has spent in each phase. A request may read and evaluate several times.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct PhaseTimes {
    /// Resolving globs and tag expressions.
    pub(crate) find: Duration,
    /// Reading points.
    pub(crate) fetch: Duration,
    /// Evaluating functions, including the wait for a permit to evaluate.
    pub(crate) evaluate: Duration,
}

impl RenderPhases {
    pub(crate) fn new(registry: &Registry) -> Self {
        let phase = |phase| {
            let help = "time that a render request spends in a phase";
            registry.histogram("plumbago_api_render_phase_seconds", help, &[("phase", phase)])
        };
        Self { find: phase("find"), fetch: phase("fetch"), evaluate: phase("evaluate") }
    }

    pub(crate) fn record(&self, times: PhaseTimes) {
        self.find.record(times.find);
        self.fetch.record(times.fetch);
        self.evaluate.record(times.evaluate);
    }
}

/// The counters of one port.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionMeter {
    pub(crate) accepted: Counter,
    /// Connections closed because `limits.connections` connections were already open.
    pub(crate) refused: Counter,
    /// Connections closed because the TLS handshake failed.
    pub(crate) failed: Counter,
    /// Idle connections closed because a new one needed the place.
    pub(crate) idle: Counter,
    pub(crate) open: Gauge,
}

impl ConnectionMeter {
    pub(crate) fn new(registry: &Registry, port: &str) -> Self {
        let counter = |name, help, reason: Option<&str>| {
            let mut labels = vec![("port", port)];
            labels.extend(reason.map(|reason| ("reason", reason)));
            registry.counter(name, help, &labels)
        };
        Self {
            accepted: counter("plumbago_http_connections_total", "HTTP connections accepted", None),
            refused: counter(
                "plumbago_http_connections_refused_total",
                "HTTP connections refused",
                Some("limits.connections"),
            ),
            failed: counter(
                "plumbago_http_connections_refused_total",
                "HTTP connections refused",
                Some("tls"),
            ),
            idle: counter(
                "plumbago_http_idle_connections_closed_total",
                "idle HTTP connections closed to make room for a new one, because limits.connections was \
                 reached",
                None,
            ),
            open: registry.gauge(
                "plumbago_http_open_connections",
                "open HTTP connections",
                &[("port", port)],
            ),
        }
    }
}
