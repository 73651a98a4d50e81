//! What may stand around JSON: `pretty`, `jsonp`.

use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::response::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, EXPIRES, HeaderValue, PRAGMA};

use super::indent::Indented;
use crate::error::{ApiError, quoted};
use crate::params::Params;
use crate::stream::{self, Pieces};

/// How a client wants its JSON.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wrapping {
    pretty: bool,
    jsonp: Option<String>,
}

impl Wrapping {
    pub(crate) fn of(params: &Params) -> Result<Self, ApiError> {
        let jsonp = params.get("jsonp").filter(|name| !name.is_empty());
        if let Some(name) = jsonp
            && !name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$' | b'[' | b']'))
        {
            return Err(ApiError::Invalid(format!("jsonp={} is no name of a function", quoted(name))));
        }
        let pretty = params.get("pretty").is_some_and(|text| !text.is_empty());
        Ok(Self { pretty, jsonp: jsonp.map(str::to_owned) })
    }

    /// The content type, and the function around the JSON.
    pub(crate) fn head(self) -> (&'static str, Option<String>) {
        let kind = if self.jsonp.is_some() { "text/javascript" } else { "application/json" };
        (kind, self.jsonp)
    }

    /// An answer of JSON that is there as a whole; it is not indented.
    pub(crate) fn whole(self, text: &str) -> Response {
        let (kind, called) = self.head();
        let text = match called {
            Some(name) => format!("{name}({text})"),
            None => text.to_owned(),
        };
        answer(kind, Body::from(text))
    }

    /// An answer of JSON.
    pub(crate) fn json(self, pieces: impl Pieces) -> Response {
        let pretty = self.pretty;
        let (kind, jsonp) = self.head();
        let body = match (jsonp, pretty) {
            (None, false) => stream::body(pieces),
            (None, true) => stream::body(Indented::new(pieces)),
            (Some(name), false) => stream::body(Called::new(name, pieces)),
            (Some(name), true) => stream::body(Called::new(name, Indented::new(pieces))),
        };
        answer(kind, body)
    }
}

/// An answer that no cache may keep: the next point makes it old.
pub(crate) fn answer(kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    response
}

/// Says that an answer may be used for some seconds more, as graphite-web says it.
pub(crate) fn cached(response: &mut Response, now: i64, seconds: i64) {
    let headers = response.headers_mut();
    headers.remove(PRAGMA);
    let expires = UNIX_EPOCH + Duration::from_secs(u64::try_from(now + seconds).unwrap_or(0));
    for (name, text) in
        [(CACHE_CONTROL, format!("max-age={seconds}")), (EXPIRES, httpdate::fmt_http_date(expires))]
    {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    }
}

/// `name(…)`.
struct Called<P> {
    name: Option<String>,
    inner: P,
}

impl<P> Called<P> {
    fn new(name: String, inner: P) -> Self {
        Self { name: Some(name), inner }
    }
}

impl<P: Pieces> Pieces for Called<P> {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(name) = self.name.take() {
            out.extend_from_slice(name.as_bytes());
            out.push(b'(');
        }
        let more = self.inner.next(out);
        if !more {
            out.push(b')');
        }
        more
    }
}
