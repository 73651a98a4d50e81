//! Options of JSON responses (`pretty` and `jsonp`), and headers of all responses.

use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::response::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, EXPIRES, HeaderValue, PRAGMA};

use super::indent::Indented;
use crate::error::{ApiError, quoted};
use crate::params::Params;
use crate::stream::{self, Pieces};

/// The JSON options of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wrapping {
    /// Whether to indent the JSON.
    pretty: bool,
    /// Name of the JavaScript function to call with the JSON.
    jsonp: Option<String>,
}

impl Wrapping {
    /// Reads the options. Fails if `jsonp` contains characters that cannot occur in a function name.
    pub(crate) fn of(params: &Params) -> Result<Self, ApiError> {
        let jsonp = params.get("jsonp").filter(|name| !name.is_empty());
        if let Some(name) = jsonp
            && !name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$' | b'[' | b']'))
        {
            return Err(ApiError::Invalid(format!("jsonp={} is not a name of a function", quoted(name))));
        }
        let pretty = params.get("pretty").is_some_and(|text| !text.is_empty());
        Ok(Self { pretty, jsonp: jsonp.map(str::to_owned) })
    }

    /// Returns the content type, and the name of the function of `jsonp`, if any.
    pub(crate) fn head(self) -> (&'static str, Option<String>) {
        let kind = if self.jsonp.is_some() { "text/javascript" } else { "application/json" };
        (kind, self.jsonp)
    }

    /// Returns a response with complete JSON, ignoring `pretty`.
    pub(crate) fn whole(self, text: &str) -> Response {
        let (kind, called) = self.head();
        let text = match called {
            Some(name) => format!("{name}({text})"),
            None => text.to_owned(),
        };
        answer(kind, Body::from(text))
    }

    /// Returns a response with JSON that is streamed.
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

/// Returns a response that HTTP caches must not reuse, because the next point makes it outdated.
pub(crate) fn answer(kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(PRAGMA, HeaderValue::from_static("no-cache"));
    response
}

/// Changes the headers so that HTTP caches may reuse a response for `seconds` from `now` (seconds since the
/// epoch). graphite-web sends the same headers.
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

/// A body inside the call `name(…)`.
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
