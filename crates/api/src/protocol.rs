//! KairosDB's and OpenTSDB's protocols: which of them a path speaks, and the form of their answers and errors.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use serde_json::json;

use crate::error::ApiError;

/// The protocol that a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Kairos,
    OpenTsdb,
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) texts: Vec<String>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, texts: vec![text.into()] }
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::new(error.status(), error.to_string())
    }
}

impl Protocol {
    /// The protocol of a path below `api.url_prefix`; `None` for all of Graphite's paths.
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path.strip_prefix("/api/")? {
            below if below.starts_with("v1/") => Some(Self::Kairos),
            _ => Some(Self::OpenTsdb),
        }
    }

    /// A failure in the form that clients of the protocol expect.
    pub(crate) fn failure(self, failure: &Failure) -> Response {
        let value = match self {
            Self::Kairos => json!({ "errors": failure.texts }),
            Self::OpenTsdb => {
                let (message, details) = failure.texts.split_first().map_or(("", ""), |(first, rest)| {
                    (first.as_str(), rest.first().map_or("", String::as_str))
                });
                json!({"error": {"code": failure.status.as_u16(), "message": message, "details": details}})
            }
        };
        let mut response = json_text(failure.status, value.to_string());
        if failure.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }

    /// An error of the API in the form that clients of the protocol expect.
    pub(crate) fn error(self, error: ApiError) -> Response {
        self.failure(&error.into())
    }

    /// A JSON answer, or the failure in the form that clients of the protocol expect.
    pub(crate) fn answer(self, answer: Result<String, Failure>) -> Response {
        match answer {
            Ok(text) => json_text(StatusCode::OK, text),
            Err(failure) => self.failure(&failure),
        }
    }

    /// The answer to a request whose method the path does not accept.
    pub(crate) fn wrong_method(self, allowed: &'static str) -> Response {
        let text = format!("use {allowed} here");
        let mut response = self.failure(&Failure::new(StatusCode::METHOD_NOT_ALLOWED, text));
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        response
    }
}

/// An error of the API in the form of the path's protocol. The path may begin with `url_prefix`.
pub(crate) fn error_of_path(error: ApiError, path: &str, url_prefix: &str) -> Response {
    match Protocol::of(path.strip_prefix(url_prefix).unwrap_or(path)) {
        Some(protocol) => protocol.error(error),
        None => error.into_response(),
    }
}

/// Returns a JSON response.
pub(crate) fn json_text(status: StatusCode, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=UTF-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_the_errors_of_its_protocol() {
        for (path, prefix, form) in [
            ("/api/v1/datapoints", "", "application/json; charset=UTF-8"),
            ("/g/api/v1/metricnames", "/g", "application/json; charset=UTF-8"),
            ("/api/put", "", "application/json; charset=UTF-8"),
            ("/render", "", "text/plain; charset=utf-8"),
            ("/g/api/put", "", "text/plain; charset=utf-8"),
        ] {
            let answer = error_of_path(ApiError::Unauthorized, path, prefix);
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
            assert_eq!(answer.headers()[CONTENT_TYPE], form, "{path}");
        }
        assert_eq!(Protocol::of("/api/v1/version"), Some(Protocol::Kairos));
        assert_eq!(Protocol::of("/api/version"), Some(Protocol::OpenTsdb));
        assert_eq!(Protocol::of("/tags"), None);
    }
}
