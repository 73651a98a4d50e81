//! Requests and connections, counted.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use axum::response::Response;
use plumbago_telemetry::{Counter, Gauge, Registry};

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The counters of one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Meter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    by_class: [Counter; 5],
    abandoned: Counter,
    micros: Counter,
    latency: Gauge,
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
            "HTTP requests whose client went away before the answer",
            &labels,
        );
        let micros = registry.counter(
            "plumbago_api_request_microseconds_total",
            "time from a request's head to the beginning of its answer",
            &labels,
        );
        let latency = registry.gauge(
            "plumbago_api_request_latency_seconds",
            "time to the beginning of an answer, averaged over about the last 16",
            &labels,
        );
        Self(Arc::new(Inner { by_class, abandoned, micros, latency }))
    }

    /// Runs a request and counts how it ended.
    pub(crate) async fn measure(&self, answer: impl Future<Output = Response>) -> Response {
        let mut running = Running { inner: &self.0, since: Instant::now(), answered: false };
        let response = answer.await;
        running.answered = true;
        let class = usize::from(response.status().as_u16() / 100).clamp(1, 5) - 1;
        self.0.by_class[class].add(1);
        response
    }
}

/// Counts in `drop`, which also comes when the client has gone away.
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
        let elapsed = self.since.elapsed();
        self.inner.micros.add(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX));
        let latency = &self.inner.latency;
        let before = latency.get();
        let now = elapsed.as_secs_f64();
        latency.set(if before == 0.0 { now } else { before + (now - before) / 16.0 });
    }
}

/// The counters of one port.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionMeter {
    pub(crate) accepted: Counter,
    pub(crate) refused: Counter,
    pub(crate) failed: Counter,
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
                "HTTP connections turned away",
                Some("limits.connections"),
            ),
            failed: counter(
                "plumbago_http_connections_refused_total",
                "HTTP connections turned away",
                Some("tls"),
            ),
            open: registry.gauge("plumbago_http_connections", "open HTTP connections", &[("port", port)]),
        }
    }
}
