//! The web page at `/`. Its files are built from the sources in `page/` and are part of the binary.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::StatusCode;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, LOCATION, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};

use super::below;
use crate::error::{missing, plain};

/// The answer at `/` to clients other than browsers.
const GREETING: &str =
    "Plumbago answers Graphite's API here: /render, /metrics/find, /tags, /events, /functions\n";

/// The browser runs only the page's own script, and that script cannot turn text into HTML.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'";

macro_rules! built {
    ($name:literal, $kind:literal) => {
        ($name, $kind, include_bytes!(concat!("../../../../page/dist/", $name)).as_slice())
    };
}

const START: (&str, &str, &[u8]) = built!("index.html", "text/html; charset=utf-8");
const FILES: &[(&str, &str, &[u8])] = &[
    built!("page.js", "text/javascript; charset=utf-8"),
    built!("codemirror.js", "text/javascript; charset=utf-8"),
    built!("style.css", "text/css; charset=utf-8"),
    built!("licences.txt", "text/plain; charset=utf-8"),
];

/// The files of the page. Each is compressed when it is first asked for.
#[derive(Debug)]
pub(crate) struct Page {
    /// The file for `/`; `None` if the page is switched off.
    start: Option<File>,
    files: Vec<File>,
}

#[derive(Debug)]
struct File {
    name: &'static str,
    kind: &'static str,
    plain: &'static [u8],
    /// Empty if compressing failed.
    gzipped: OnceLock<Bytes>,
    /// The entity tag, without its quotes.
    tag: String,
}

impl Page {
    /// The page; without files if it is switched off.
    pub(crate) fn new(is_enabled: bool) -> Self {
        if !is_enabled {
            return Self { start: None, files: Vec::new() };
        }
        Self { start: Some(File::new(START)), files: FILES.iter().copied().map(File::new).collect() }
    }

    /// Answers a request to `/`: the page for browsers, a line of text for others. `prefix` is set if the path is
    /// `api.url_prefix` without a slash at its end; it is the last component of that path. Relative addresses in the
    /// page would be wrong at that path, so browsers are redirected to the path with the slash.
    pub(crate) async fn root(self: Arc<Self>, request: Request, prefix: Option<String>) -> Response {
        match &self.start {
            Some(start) if takes_html(request.headers()) => match prefix {
                Some(prefix) => moved(&format!("{prefix}/"), &request),
                None => start.answer(request.headers()),
            },
            _ => {
                let mut response = plain(StatusCode::OK, GREETING);
                vary(response.headers_mut(), "accept");
                response
            }
        }
    }

    /// Answers a request to a file of the page.
    pub(crate) async fn file(self: Arc<Self>, request: Request) -> Response {
        let name = below(&request, "/page");
        match self.files.iter().find(|file| file.name == name) {
            Some(file) => file.answer(request.headers()),
            None => missing(request.uri().clone()).await,
        }
    }
}

impl File {
    fn new((name, kind, plain): (&'static str, &'static str, &'static [u8])) -> Self {
        let mut hasher = DefaultHasher::new();
        plain.hash(&mut hasher);
        Self { name, kind, plain, gzipped: OnceLock::new(), tag: format!("{:016x}", hasher.finish()) }
    }

    fn gzipped(&self) -> &Bytes {
        self.gzipped.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to memory does not fail. If it did, the file would be sent uncompressed.
            encoder.write_all(self.plain).and_then(|()| encoder.finish()).unwrap_or_default().into()
        })
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        let takes_gzip = items(asked, &ACCEPT_ENCODING)
            .any(|(coding, weight)| coding == "gzip" && weight > 0.0)
            && !self.gzipped().is_empty();
        let tag = format!("\"{}{}\"", self.tag, if takes_gzip { "-gzip" } else { "" });
        let is_known = asked
            .get_all(IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|known| known.trim().trim_start_matches("W/") == tag || known.trim() == "*");
        let mut response = match (is_known, takes_gzip) {
            (true, _) => StatusCode::NOT_MODIFIED.into_response(),
            (false, true) => Response::new(Body::from(self.gzipped().clone())),
            (false, false) => Response::new(Body::from(self.plain)),
        };
        let headers = response.headers_mut();
        if takes_gzip && !is_known {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        vary(headers, "accept, accept-encoding");
        response
    }
}

/// Redirects a browser from one of graphite-web's pages to this page, which reads the same parameters. `None` for
/// other clients, and if the page is switched off.
pub(crate) fn leads_to_page(is_enabled: bool, request: &Request) -> Option<Response> {
    if !is_enabled || !takes_html(request.headers()) {
        return None;
    }
    // The address is relative, so that the prefix of a proxy stays. Each slash of the path after the first
    // means one level up.
    let levels = request.uri().path().matches('/').count().saturating_sub(1);
    Some(moved(&format!("./{}", "../".repeat(levels)), request))
}

fn moved(place: &str, request: &Request) -> Response {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("{place}{query}")) {
        response.headers_mut().insert(LOCATION, place);
    }
    vary(response.headers_mut(), "accept");
    response
}

/// Whether the client names HTML in its header `Accept`, as all browsers do. `*/*` is not enough: curl and
/// load balancers send that.
fn takes_html(headers: &HeaderMap) -> bool {
    items(headers, &ACCEPT).any(|(kind, weight)| kind == "text/html" && weight > 0.0)
}

/// The items of a header, each with its weight (`q`).
fn items<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = (&'a str, f32)> {
    let texts = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).and_then(|text| text.parse().ok());
        (kind, weight.unwrap_or(1.0))
    })
}

fn vary(headers: &mut HeaderMap, names: &'static str) {
    headers.insert(VARY, HeaderValue::from_static(names));
}
