//! Answers of `/render` kept for those who ask the same again (`docs/decisions/cache.md`).

mod record;
mod store;

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use plumbago_telemetry::{Counter, Registry};

use crate::config::CacheConfig;
use crate::error::{ApiError, quoted};
use crate::format::wrap;
use crate::params::Params;

use record::Recorded;
pub(crate) use store::Store;

/// Nothing is kept longer, whatever a client allows.
const SECONDS_MAX: i64 = 86_400;

/// All answers that are kept.
#[derive(Debug)]
pub(crate) struct Cache {
    store: Arc<Store>,
    /// How long an answer is kept when its client does not say.
    seconds: i64,
    hits: Counter,
    misses: Counter,
}

/// A request whose answer may be kept, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ticket {
    key: String,
    seconds: i64,
}

impl Cache {
    pub(crate) fn new(config: &CacheConfig, registry: &Registry) -> Self {
        let bytes = registry.gauge("plumbago_api_cache_bytes", "what the kept answers take", &[]);
        let counter = |result| {
            let help = "render requests that allowed an answer to be kept";
            registry.counter("plumbago_api_cache_requests_total", help, &[("result", result)])
        };
        Self {
            store: Arc::new(Store::new(config.bytes.bytes(), bytes)),
            seconds: i64::try_from(config.time.as_secs()).unwrap_or(SECONDS_MAX),
            hits: counter("hit"),
            misses: counter("miss"),
        }
    }

    /// What the request allows; `None` when its answer must be made for it alone.
    pub(crate) fn ticket(&self, params: &Params) -> Result<Option<Ticket>, ApiError> {
        let allowed = match params.get("cacheTimeout") {
            None => self.seconds,
            Some(text) => text.trim().parse().map_err(|_| {
                ApiError::Invalid(format!("cacheTimeout={} is no whole number", quoted(text)))
            })?,
        };
        let is_kept = allowed > 0 && !params.has("noCache") && !params.has_message() && self.store.is_on();
        Ok(is_kept.then(|| Ticket { key: key(params), seconds: allowed.min(SECONDS_MAX) }))
    }

    /// The answer that is kept for the request, while it may be used.
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

    /// Lets an answer be kept while it is sent.
    pub(crate) fn keep(&self, ticket: Ticket, mut response: Response, now: i64) -> Response {
        let kind = response.headers().get(CONTENT_TYPE).cloned();
        let Some(kind) = kind.filter(|_| response.status() == StatusCode::OK) else { return response };
        wrap::cached(&mut response, now, ticket.seconds);
        let store = Arc::clone(&self.store);
        response.map(|body| Body::new(Recorded::new(body, kind, ticket, now, store)))
    }
}

/// An answer that was sent whole.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) kind: HeaderValue,
    pub(crate) body: bytes::Bytes,
}

/// All parameters in an order of their own but those that begin with `_`, which only make addresses
/// differ; as graphite-web does it.
fn key(params: &Params) -> String {
    let mut pairs: Vec<_> = params.iter().filter(|(name, _)| !name.starts_with('_')).collect();
    // Values of one name keep their order: targets are answered in theirs.
    pairs.sort_by_key(|(name, _)| *name);
    let mut key = form_urlencoded::Serializer::new(String::new());
    key.extend_pairs(pairs);
    key.finish()
}
