//! What a client is told when a request cannot be answered: one plain sentence.

use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use plumbago_engine::FetchError;
use plumbago_graph::GraphError;

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The request is wrong.
    #[error("{0}")]
    Invalid(String),
    /// A target of a render request is wrong.
    #[error("{0}")]
    Target(String),
    /// The request asks for more than is allowed.
    #[error("{0}")]
    TooLarge(String),
    /// The request took too long.
    #[error("the request took longer than {0} (api.limits.request_time)")]
    TooSlow(plumbago_model::Period),
    /// All requests together ask for more than is allowed.
    #[error("{0}")]
    Busy(String),
    /// It is switched off.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The engine cannot read now.
    #[error("{0}")]
    Unavailable(String),
}

impl ApiError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) | Self::Target(_) => StatusCode::BAD_REQUEST,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::TooLarge(_) | Self::TooSlow(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// A limit that was crossed, by the name of its setting.
pub(crate) fn beyond(what: &str, setting: &str, limit: usize) -> ApiError {
    ApiError::TooLarge(format!("{what}: more than {limit} (api.limits.{setting})"))
}

impl From<FetchError> for ApiError {
    fn from(error: FetchError) -> Self {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Self::Unavailable(text)
    }
}

impl From<GraphError> for ApiError {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::TooManyPoints(_) | GraphError::TooMuchInk => Self::TooLarge(error.to_string()),
            _ => Self::Invalid(error.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        plain(self.status(), format!("{self}\n"))
    }
}

/// A short answer in plain text.
pub(crate) fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    let mut response = Response::new(axum::body::Body::from(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// A short answer `{"error": …}`.
pub(crate) fn json_error(status: StatusCode, text: &str) -> Response {
    let mut response = plain(status, serde_json::json!({ "error": text }).to_string());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The beginning of a text from outside, for messages.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 120;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}
