//! Errors of requests. Each becomes a status code and one plain sentence for the client.

use axum::response::{IntoResponse, Response};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use plumbago_graph::GraphError;
use plumbago_store::FetchError;
use plumbago_telemetry::with_causes;

use crate::fault::Fault;

/// Why a request cannot be answered. The message is sent to the client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The request is malformed.
    #[error("{0}")]
    Invalid(String),
    /// A target of a render request is malformed or cannot be evaluated.
    #[error("{0}")]
    Target(Box<WrongTarget>),
    /// The request exceeds a limit.
    #[error("{0}")]
    TooLarge(String),
    /// The request exceeds `api.limits.request_time`. The value is that limit.
    #[error("the request took longer than {0} (api.limits.request_time)")]
    TooSlow(plumbago_model::Period),
    /// The client has not sent the whole body in time (status 408). The value is half of
    /// `api.limits.request_time`.
    #[error("the request's body did not arrive within {0:?}, half of api.limits.request_time")]
    SlowBody(std::time::Duration),
    /// All requests together exceed a limit (status 429). The same request may succeed later.
    #[error("{0}")]
    Busy(String),
    /// There is no such call (status 404).
    #[error("{0}")]
    Missing(String),
    /// The request must come from a user (status 401).
    #[error("this needs a user and its password (api.users.file)")]
    Unauthorized,
    /// The feature is switched off in the configuration.
    #[error("{0}")]
    Forbidden(&'static str),
    /// Points, names or settings of metrics cannot be read or written at the moment.
    #[error("{0}")]
    Unavailable(String),
}

/// Why a target is refused, and where in it the mistake is, if that is known.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub(crate) struct WrongTarget {
    text: String,
    fault: Option<Fault>,
}

impl ApiError {
    /// The error of a target that is malformed or cannot be evaluated.
    pub(crate) fn of_target(text: &str, error: &dyn std::fmt::Display, fault: Option<Fault>) -> Self {
        Self::Target(Box::new(WrongTarget { text: format!("target {}: {error}", quoted(text)), fault }))
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) | Self::Target(_) => StatusCode::BAD_REQUEST,
            Self::Missing(_) => StatusCode::NOT_FOUND,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::TooLarge(_) | Self::TooSlow(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::SlowBody(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The error for a request with more than `limit` of `what`. `setting` is the limit's key in `api.limits`.
pub(crate) fn beyond(what: &str, setting: &str, limit: usize) -> ApiError {
    ApiError::TooLarge(format!("{what}: more than {limit} (api.limits.{setting})"))
}

/// The error for a request whose task was cancelled or panicked.
pub(crate) fn aborted() -> ApiError {
    ApiError::Unavailable("the request was aborted".to_owned())
}

impl From<FetchError> for ApiError {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::TooManySlots(_) => Self::TooLarge(error.to_string()),
            _ => Self::Unavailable(with_causes(&error)),
        }
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

/// Returns a plain text response.
pub(crate) fn plain(status: StatusCode, text: impl Into<String>) -> Response {
    let mut response = Response::new(axum::body::Body::from(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Returns a JSON response `{"error": …}`.
pub(crate) fn json_error(status: StatusCode, text: &str) -> Response {
    let mut response = plain(status, serde_json::json!({ "error": text }).to_string());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The response to a refused request that asked for errors as JSON. It contains the same text as a plain
/// response, and the position of the mistake if there is one.
pub(crate) fn with_fault(error: &ApiError) -> Response {
    let fault = match error {
        ApiError::Target(wrong) => wrong.fault.as_ref().map(Fault::json),
        _ => None,
    };
    let mut body = serde_json::json!({ "error": error.to_string() });
    if let Some(fault) = fault {
        body["fault"] = fault;
    }
    let mut response = plain(error.status(), body.to_string());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Quotes the first 120 characters of a client's text, for messages.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 120;
    let mut shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Why an action was refused or failed, as a sentence for the client.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The request names something that does not exist (status 404).
    #[error("{0}")]
    Unknown(String),
    /// The request is malformed (status 400).
    #[error("{0}")]
    Invalid(String),
    /// The action cannot be carried out at the moment, or with these settings (status 503).
    #[error("{0}")]
    Failed(String),
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Unknown(_) => StatusCode::NOT_FOUND,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        plain(status, format!("{self}\n"))
    }
}

/// The response to a method that the path does not accept. `allowed` lists the accepted methods, as in the
/// header `Allow`.
pub(crate) fn wrong_method(method: &Method, allowed: &'static str) -> Response {
    let text = format!("{method} is not supported here; use {allowed}\n");
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, text);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// The response for a path that has no endpoint.
pub(crate) async fn missing(uri: Uri) -> Response {
    plain(StatusCode::NOT_FOUND, format!("there is nothing at {}\n", quoted(uri.path())))
}
