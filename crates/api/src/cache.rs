//! Kept responses of `/render` and of KairosDB's queries, for repeated requests (`docs/decisions/cache.md`).

mod record;
mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use plumbago_render::{Fetch, TimeSeries};
use plumbago_telemetry::{Counter, Registry};

use crate::config::CacheConfig;
use crate::error::{ApiError, quoted};
use crate::format::wrap;
use crate::params::Params;

use record::Recorded;
pub(crate) use store::Store;

/// Longest time in seconds to keep a response, even if its client allows more.
const SECONDS_MAX: i64 = 86_400;

/// Longest query of KairosDB whose answer is kept, in bytes.
const QUERY_BYTES_MAX: usize = 64 << 10;

/// Drops the kept responses. Everything that changes past points uses it. Clones share the same state.
#[derive(Debug, Clone, Default)]
pub struct KeptAnswers(Arc<AtomicU64>);

impl KeptAnswers {
    /// Drops all responses that are kept now.
    pub fn forget(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// A number that changes whenever the responses are dropped.
    fn generation(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Kept responses, and counters of the requests that could use them.
#[derive(Debug)]
pub(crate) struct Cache {
    store: Arc<Store>,
    answers: KeptAnswers,
    /// Seconds to keep a response whose request has no `cacheTimeout`.
    seconds: i64,
    hits: Counter,
    misses: Counter,
}

/// Permission to use the cache for a request: the key of its response, and the maximum age in seconds that the
/// request accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    key: String,
    seconds: i64,
}

impl Cache {
    pub(crate) fn new(config: &CacheConfig, answers: KeptAnswers, registry: &Registry) -> Self {
        let bytes =
            registry.gauge("plumbago_api_cache_bytes", "memory of the answers that api.cache keeps", &[]);
        let counter = |result| {
            let help = "requests that allowed an answer to be kept";
            registry.counter("plumbago_api_cache_requests_total", help, &[("result", result)])
        };
        Self {
            store: Arc::new(Store::new(config.bytes.bytes(), bytes)),
            answers,
            seconds: i64::try_from(config.time.as_secs()).unwrap_or(SECONDS_MAX),
            hits: counter("hit"),
            misses: counter("miss"),
        }
    }

    /// Returns a ticket if the response to this request may come from the cache or be kept in it, else
    /// `None`.
    ///
    /// # Errors
    ///
    /// If `cacheTimeout` is not a whole number.
    pub(crate) fn ticket(&self, params: &Params) -> Result<Option<Ticket>, ApiError> {
        let allowed = match params.get("cacheTimeout") {
            None => self.seconds,
            Some(text) => text.trim().parse().map_err(|_| {
                ApiError::Invalid(format!("cacheTimeout={} is not a whole number", quoted(text)))
            })?,
        };
        let is_kept = allowed > 0 && !params.has("noCache") && !params.has_message() && self.store.is_on();
        // Responses of an earlier generation are never found again; newer responses evict them.
        let key = || format!("{}/{}", self.answers.generation(), key(params));
        Ok(is_kept.then(|| Ticket { key: key(), seconds: allowed.min(SECONDS_MAX) }))
    }

    /// Returns a ticket for a query of KairosDB that allows its answer to be kept for `seconds`.
    pub(crate) fn ticket_of_query(&self, body: &[u8], seconds: u64) -> Option<Ticket> {
        let seconds = i64::try_from(seconds).unwrap_or(SECONDS_MAX).min(SECONDS_MAX);
        // The blank keeps this key distinct from the keys of `/render`.
        let key = || format!("{}/query {}", self.answers.generation(), String::from_utf8_lossy(body));
        let is_kept = seconds > 0 && body.len() <= QUERY_BYTES_MAX && self.store.is_on();
        is_kept.then(|| Ticket { key: key(), seconds })
    }

    /// Returns the kept response, if there is one and the request accepts its age. `now` is in seconds since
    /// the epoch.
    pub(crate) fn get(&self, ticket: &Ticket, now: i64) -> Option<Response> {
        let found = self.store.get(&ticket.key, now, ticket.seconds);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.add(1);
        let (kept, left) = found?;
        let mut response = Response::new(Body::from(kept.body));
        response.headers_mut().insert(CONTENT_TYPE, kept.kind);
        wrap::cached(&mut response, now, left);
        Some(response)
    }

    /// The points of the response that [`Self::get`] would find; `None` if it would find none. Does not change the
    /// counters.
    pub(crate) fn points(&self, ticket: &Ticket, now: i64) -> Option<Arc<[FetchPoints]>> {
        self.store.get(&ticket.key, now, ticket.seconds).map(|(kept, _)| kept.points)
    }

    /// Records the response while it is sent, and keeps it once it was sent completely. Only responses with
    /// status 200 are kept. `points` tells explanations which points the response was made of.
    pub(crate) fn keep(
        &self,
        ticket: Ticket,
        mut response: Response,
        now: i64,
        points: Vec<FetchPoints>,
    ) -> Response {
        let kind = response.headers().get(CONTENT_TYPE).cloned();
        let Some(kind) = kind.filter(|_| response.status() == StatusCode::OK) else { return response };
        wrap::cached(&mut response, now, ticket.seconds);
        let store = Arc::clone(&self.store);
        let kept = Kept { kind, body: bytes::Bytes::new(), points: points.into() };
        response.map(|body| Body::new(Recorded::new(body, kept, ticket, now, store)))
    }
}

/// A response that was sent completely: content type and body.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) kind: HeaderValue,
    pub(crate) body: bytes::Bytes,
    /// The points that the response was made of.
    pub(crate) points: Arc<[FetchPoints]>,
}

/// The points of one fetch that a response was made of.
#[derive(Debug, Clone)]
pub(crate) struct FetchPoints {
    pub(crate) fetch: Fetch,
    /// The number of points with a value.
    pub(crate) known: usize,
}

impl FetchPoints {
    /// Maximum number of fetches that are recorded for a response.
    pub(crate) const MAX: usize = 500;

    pub(crate) fn of(fetch: &Fetch, series: &[TimeSeries]) -> Self {
        let values = series.iter().flat_map(|one| one.values.iter());
        Self { fetch: fetch.clone(), known: values.filter(|value| !value.is_nan()).count() }
    }

    /// The memory of the response, in bytes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.fetch.expression.len()
    }
}

/// The key of a request: all its parameters sorted by name, without those that begin with `_`, as in
/// graphite-web. Clients add such parameters only to make URLs differ.
fn key(params: &Params) -> String {
    let mut pairs: Vec<_> = params.iter().filter(|(name, _)| !name.starts_with('_')).collect();
    // The sort is stable: several targets keep their order, which determines the order of the answer.
    pairs.sort_by_key(|(name, _)| *name);
    let mut key = form_urlencoded::Serializer::new(String::new());
    key.extend_pairs(pairs);
    key.finish()
}
