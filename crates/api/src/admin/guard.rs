//! Keeps web pages of other sites, open in a browser on this machine, away from the admin port.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::{Method, StatusCode};

use crate::error::plain;

/// Refuses requests that were caused by a page of another site (status 403).
///
/// A browser states in `Origin` and `Sec-Fetch-Site` where a request comes from. These headers do not help if
/// the other site has made its own name resolve to this machine (DNS rebinding), because the request then
/// counts as one of the same origin. But its header `Host` contains the name of the other site, so `Host` is
/// checked too. `has_token` says whether requests need a token. If they do, the check of `Host` is not
/// needed, because such a page does not know the token.
pub(crate) async fn refuse_other_sites(
    State(has_token): State<bool>,
    request: Request,
    next: Next,
) -> Response {
    match problem(request.method(), request.headers(), has_token) {
        Some(problem) => plain(StatusCode::FORBIDDEN, format!("{problem}\n")),
        None => next.run(request).await,
    }
}

fn problem(method: &Method, headers: &HeaderMap, has_token: bool) -> Option<&'static str> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST.as_str());
    if let Some(problem) = of_other_site(method, headers) {
        return Some(problem);
    }
    if !has_token && host.is_some_and(|host| !is_this_machine(host)) {
        return Some(
            "without admin.token, the admin port answers only to its address or localhost (header Host); use \
             http://127.0.0.1 and its port, or set admin.token",
        );
    }
    None
}

/// The problem with a request that was caused by a page of another site; `None` for other requests.
pub(crate) fn of_other_site(method: &Method, headers: &HeaderMap) -> Option<&'static str> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(HOST.as_str());
    if let Some(origin) = text(ORIGIN.as_str())
        && origin.split_once("://").map(|(_, host)| host) != host
    {
        return Some("a page of another site must not use this port (header Origin)");
    }
    let changes = !matches!(*method, Method::GET | Method::HEAD);
    if changes && matches!(text("sec-fetch-site"), Some("cross-site" | "same-site")) {
        return Some("a page of another site must not use this port (header Sec-Fetch-Site)");
    }
    None
}

/// The name in a value of `Host`, in lower case and without the port.
pub(crate) fn name_of_host(host: &str) -> String {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a value of `Host` is an address or a name that always means this machine.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let name = name_of_host(host);
    name.parse::<IpAddr>().is_ok() || name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(method: &Method, headers: &[(&'static str, &str)], has_token: bool) -> bool {
        let headers = headers
            .iter()
            .map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().unwrap()));
        problem(method, &headers.collect(), has_token).is_some()
    }

    #[test]
    fn tools_are_answered() {
        for host in ["127.0.0.1:8081", "localhost:8081", "[::1]:8081", "LOCALHOST.", "10.0.0.7:8081"] {
            assert!(!refused(&Method::POST, &[("host", host)], false), "{host}");
        }
        assert!(!refused(&Method::POST, &[], false), "HTTP/1.0 has no Host");
        assert!(
            !refused(&Method::GET, &[("host", "graphite.example:8081")], true),
            "Prometheus with a token"
        );
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let own = ("host", "127.0.0.1:8081");
        for origin in ["http://evil.example", "null", "http://127.0.0.1:8080", "https://127.0.0.1"] {
            assert!(refused(&Method::POST, &[own, ("origin", origin)], false), "{origin}");
            assert!(refused(&Method::GET, &[own, ("origin", origin)], true), "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert!(refused(&Method::POST, &[own, ("sec-fetch-site", site)], true), "{site}");
        }
        assert!(
            !refused(&Method::GET, &[own, ("sec-fetch-site", "cross-site")], false),
            "a link to /metrics"
        );
        assert!(!refused(&Method::POST, &[own, ("origin", "http://127.0.0.1:8081")], false), "its own page");
    }

    #[test]
    fn names_that_were_rebound_are_refused() {
        for host in ["evil.example:8081", "localhost.evil.example", "127.0.0.1.evil.example:8081", ""] {
            assert!(refused(&Method::GET, &[("host", host)], false), "{host}");
        }
    }
}
