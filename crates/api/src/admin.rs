//! The port for operators: self-metrics, health, and what the binary can be told to do.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use plumbago_telemetry::Registry;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use crate::config::AdminConfig;
use crate::error::plain;
use crate::peer_heads::{MESSAGE_BYTES_MAX, PeerHeads, heads};
use crate::router::missing;

/// Whether requests can be answered.
pub trait Readiness: Send + Sync + Debug {
    /// Why not; empty when ready.
    fn reasons(&self) -> Vec<String>;

    /// What limps although requests are answered, for the same page.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What an operator can tell the process to do.
#[async_trait]
pub trait AdminActions: Send + Sync + Debug {
    /// Writes everything that is in memory to the store, and says what was written.
    async fn flush(&self) -> Result<Value, AdminError>;
    /// Where every point went.
    async fn ledger(&self) -> Result<Value, AdminError>;
    /// Begins the orderly stop and returns at once.
    async fn shutdown(&self) -> Result<Value, AdminError>;
    /// Sends again what a remote store has acknowledged since then (seconds since the epoch).
    async fn replay(&self, since: i64) -> Result<Value, AdminError>;
    /// Sets the clock of a daemon that runs on one of its own, for tests.
    async fn set_clock(&self, now: i64) -> Result<Value, AdminError>;
    /// How the maintenance jobs stand.
    async fn maintenance(&self) -> Result<Value, AdminError> {
        Err(AdminError("no maintenance here".to_owned()))
    }
    /// Asks for a run of a maintenance job, as soon as no other is at work.
    async fn run_maintenance(&self, _job: &str, _dry_run: bool) -> Result<Value, AdminError> {
        Err(AdminError("no maintenance here".to_owned()))
    }
}

/// Why an action was not done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AdminError(pub String);

/// What the admin port works with.
#[derive(Debug, Clone)]
pub struct AdminHandles {
    /// Health.
    pub readiness: Arc<dyn Readiness>,
    /// Actions.
    pub actions: Arc<dyn AdminActions>,
    /// What other daemons ask.
    pub heads: Arc<dyn PeerHeads>,
    /// Self-metrics.
    pub registry: Registry,
}

/// `/healthz` and `/readyz` for everybody, the rest for who has the token.
pub(crate) fn admin_router(config: &AdminConfig, handles: &AdminHandles) -> Router {
    let mut guarded = Router::new()
        .route("/metrics", get(metrics))
        .route("/admin/ledger", get(ledger))
        .route("/admin/flush", post(flush))
        .route("/admin/shutdown", post(shutdown))
        .route("/admin/clock", post(set_clock))
        .route("/admin/replay", post(replay))
        .route("/admin/maintenance", get(maintenance).post(run_maintenance))
        .route("/admin/heads", post(heads).layer(DefaultBodyLimit::max(MESSAGE_BYTES_MAX)))
        .fallback(missing);
    if !config.token.is_empty() {
        let token: Arc<str> = config.token.as_str().into();
        guarded = guarded.layer(middleware::from_fn_with_state(token, check_token));
    }
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .merge(guarded)
        .with_state(handles.clone())
}

async fn check_token(State(token): State<Arc<str>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.as_bytes().split_at_checked(7));
    let is_right = given.is_some_and(|(scheme, given)| {
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(given.ct_eq(token.as_bytes()))
    });
    if is_right {
        return next.run(request).await;
    }
    let mut response = plain(StatusCode::UNAUTHORIZED, "this needs the bearer token of the admin port\n");
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

async fn metrics(State(handles): State<AdminHandles>) -> Response {
    let mut response = handles.registry.prometheus().into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn ready(State(handles): State<AdminHandles>) -> Response {
    let (reasons, warnings) = (handles.readiness.reasons(), handles.readiness.warnings());
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let ready = reasons.is_empty();
    (status, Json(json!({"ready": ready, "reasons": reasons, "warnings": warnings}))).into_response()
}

async fn ledger(State(handles): State<AdminHandles>) -> Response {
    done(handles.actions.ledger().await)
}

async fn flush(State(handles): State<AdminHandles>) -> Response {
    done(handles.actions.flush().await)
}

async fn shutdown(State(handles): State<AdminHandles>) -> Response {
    done(handles.actions.shutdown().await)
}

async fn replay(State(handles): State<AdminHandles>, Query(pairs): Query<Vec<(String, String)>>) -> Response {
    let since = pairs.iter().find(|(key, _)| key == "since").and_then(|(_, value)| value.parse().ok());
    match since {
        Some(since) => done(handles.actions.replay(since).await),
        None => plain(StatusCode::BAD_REQUEST, "since: want seconds since the epoch\n".to_owned()),
    }
}

async fn set_clock(
    State(handles): State<AdminHandles>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response {
    let now = pairs.iter().find(|(key, _)| key == "now").and_then(|(_, value)| value.parse().ok());
    match now {
        Some(now) => done(handles.actions.set_clock(now).await),
        None => plain(StatusCode::BAD_REQUEST, "now: want seconds since the epoch\n".to_owned()),
    }
}

async fn maintenance(State(handles): State<AdminHandles>) -> Response {
    done(handles.actions.maintenance().await)
}

async fn run_maintenance(
    State(handles): State<AdminHandles>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response {
    let value = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let dry_run = matches!(value("dry_run"), Some("1" | "true"));
    match value("job") {
        Some(job) => done(handles.actions.run_maintenance(job, dry_run).await),
        None => plain(StatusCode::BAD_REQUEST, "job: want the name of a maintenance job\n".to_owned()),
    }
}

fn done(result: Result<Value, AdminError>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}
