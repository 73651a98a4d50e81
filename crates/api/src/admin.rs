//! The port for operators: self-metrics, health, and actions such as a flush or a stop.

mod access;
pub(crate) mod guard;
mod jobs;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::extract::{Query, Request, State};
use axum::handler::Handler;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use plumbago_boxed_futures::boxed_futures;
use plumbago_telemetry::{Condition, Registry, Severity};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::access::{Access, AdminSecret};
use crate::config::AdminConfig;
use crate::error::{AdminError, missing, plain, wrong_method};
use crate::peer_heads::{HEADS_PATH, MESSAGE_BYTES_MAX, PeerHeads};

use self::access::CLOCK_PATH;

/// How long a peer may take to send its request.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The health of the process, as `/readyz` reports it.
pub trait Readiness: Send + Sync + Debug {
    /// Returns the conditions that hold now. The process is ready if none of them
    /// [blocks](plumbago_telemetry::Severity::blocks).
    fn conditions(&self) -> Vec<Condition>;
}

/// For servers without conditions: always ready.
#[derive(Debug)]
pub struct NoConditions;

impl Readiness for NoConditions {
    fn conditions(&self) -> Vec<Condition> {
        Vec::new()
    }
}

/// Actions that an operator can start through the admin port.
///
/// Each method returns the JSON of its response.
///
/// # Errors
///
/// All methods return an [`AdminError`] if the action was refused or failed. Its text is sent to the client.
#[boxed_futures]
pub trait AdminActions: Send + Sync + Debug {
    /// Writes all points that are in memory to the store, then returns the ledger.
    ///
    /// # Errors
    ///
    /// `AdminError` if the engine has been stopped.
    async fn flush(&self) -> Result<Value, AdminError>;
    /// Returns the ledger: how many points were received, stored, held in memory, replaced and rejected.
    ///
    /// # Errors
    ///
    /// `AdminError` if the engine has been stopped.
    async fn ledger(&self) -> Result<Value, AdminError>;
    /// Starts an orderly stop and returns at once.
    ///
    /// # Errors
    ///
    /// `AdminError` if the stop cannot be started.
    async fn shutdown(&self) -> Result<Value, AdminError>;
    /// Queues the rows that a remote store has acknowledged since `since` (seconds since the epoch) to be
    /// sent once more, for a store that has lost them. Only rows that the spool still retains can be sent.
    /// With `dry_run` it only counts them.
    ///
    /// # Errors
    ///
    /// `AdminError` if the store is not remote or the rows cannot be read.
    async fn replay(&self, since: i64, dry_run: bool) -> Result<Value, AdminError>;
    /// Sets the clock, in seconds since the epoch. Only for tests.
    ///
    /// # Errors
    ///
    /// `AdminError` unless `debug.clock` is set.
    async fn set_clock(&self, now: i64) -> Result<Value, AdminError>;
    /// Returns the state of each maintenance job.
    ///
    /// # Errors
    ///
    /// `AdminError` if the process has no maintenance jobs. The default implementation always returns it.
    async fn maintenance(&self) -> Result<Value, AdminError> {
        Err(AdminError::Unknown("this process has no maintenance jobs".to_owned()))
    }
    /// Requests a run of a maintenance job. It starts when no other job is running.
    ///
    /// # Errors
    ///
    /// `AdminError::Unknown` if there is no such job. The default implementation always returns it.
    async fn run_maintenance(&self, _request: MaintenanceRequest) -> Result<Value, AdminError> {
        Err(AdminError::Unknown("this process has no maintenance jobs".to_owned()))
    }
    /// Lists the jobs that were requested: those that are running or waiting, and the most recent ones that
    /// have ended.
    ///
    /// # Errors
    ///
    /// `AdminError` if the process runs no jobs. The default implementation always returns it.
    async fn jobs(&self) -> Result<Value, AdminError> {
        Err(no_jobs())
    }
    /// Returns one job: what it does, its progress and its result.
    ///
    /// # Errors
    ///
    /// `AdminError::Unknown` if there is no such job. The default implementation always returns it.
    async fn job(&self, _id: &str) -> Result<Value, AdminError> {
        Err(no_jobs())
    }
    /// Starts a job; `parameters` is a JSON object. Returns the job with its id.
    ///
    /// # Errors
    ///
    /// `AdminError` if there is no job of this name, its parameters are not valid, or too many jobs are
    /// waiting.
    async fn start_job(&self, _name: &str, _parameters: Value) -> Result<Value, AdminError> {
        Err(no_jobs())
    }
    /// Starts to answer a question about metrics. `parameters` is a JSON object. Returns the lines of the answer,
    /// each with its line end. The search stops when the receiver is dropped.
    ///
    /// # Errors
    ///
    /// `AdminError` if there is no question of this name, or its parameters are not valid.
    async fn ask(&self, _name: &str, _parameters: Value) -> Result<mpsc::Receiver<String>, AdminError> {
        Err(no_jobs())
    }
    /// Requests that a job end, and returns the job.
    ///
    /// # Errors
    ///
    /// `AdminError::Unknown` if there is no such job.
    async fn cancel_job(&self, _id: &str) -> Result<Value, AdminError> {
        Err(no_jobs())
    }
}

fn no_jobs() -> AdminError {
    AdminError::Unknown("this process runs no jobs".to_owned())
}

/// A request for a run of a maintenance job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MaintenanceRequest {
    /// The name of the job.
    pub job: String,
    /// Whether to report the changes without making them.
    pub dry_run: bool,
    /// The metrics whose windows to repair; `None` for all. Used by a repair of windows only.
    pub glob: Option<String>,
    /// The start of the time range to repair, in seconds since the epoch; `None` for the job's default. Used
    /// by a repair of windows only.
    pub from: Option<i64>,
    /// The end of the time range to repair, in seconds since the epoch; `None` for now. Used by a repair of
    /// windows only.
    pub until: Option<i64>,
}

/// The parts of the process that the admin port uses.
#[derive(Debug, Clone)]
pub struct AdminHandles {
    /// Supplies the conditions for `/readyz`.
    pub readiness: Arc<dyn Readiness>,
    /// Carries out the actions.
    pub actions: Arc<dyn AdminActions>,
    /// Supplies pending points and events to peers, which are other daemons on the same store.
    pub heads: Arc<dyn PeerHeads>,
    /// The self-metrics that `/metrics` shows.
    pub registry: Registry,
    /// The secret of the data directory. A request may send it in place of `admin.token`.
    pub secret: AdminSecret,
}

/// The routes of the admin port. Only `/healthz` and `/readyz` can be used without the token. Web pages of
/// other sites can use no route.
pub(crate) fn admin_router(config: &AdminConfig, handles: &AdminHandles) -> Router {
    let access = Arc::new(Access::new(&config.token, handles.secret.clone()));
    let guarded = Router::new()
        .route("/metrics", reading(metrics))
        .route("/admin/ledger", reading(ledger))
        .route("/admin/flush", posting(flush))
        .route("/admin/shutdown", posting(shutdown))
        .route(CLOCK_PATH, posting(set_clock))
        .route("/admin/replay", posting(replay))
        .route("/admin/maintenance", both(get(maintenance).post(run_maintenance)))
        .route("/admin/questions", posting(jobs::ask))
        .route("/admin/jobs", both(get(jobs::list).post(jobs::start)))
        .route("/admin/jobs/{id}", reading(jobs::show))
        .route("/admin/jobs/{id}/cancel", posting(jobs::cancel))
        .route(HEADS_PATH, posting(heads))
        .fallback(missing)
        .layer(middleware::from_fn_with_state(access, access::check));
    Router::new()
        .route("/healthz", reading(|| async { "ok\n" }))
        .route("/readyz", reading(ready))
        .merge(guarded)
        .layer(middleware::from_fn_with_state(!config.token.is_empty(), guard::refuse_other_sites))
        .with_state(handles.clone())
}

fn reading<H: Handler<T, AdminHandles>, T: 'static>(handler: H) -> MethodRouter<AdminHandles> {
    only(get(handler), "GET, HEAD")
}

fn posting<H: Handler<T, AdminHandles>, T: 'static>(handler: H) -> MethodRouter<AdminHandles> {
    only(post(handler), "POST")
}

fn both(methods: MethodRouter<AdminHandles>) -> MethodRouter<AdminHandles> {
    only(methods, "GET, HEAD, POST")
}

/// Answers all other methods with the names of the allowed ones.
fn only(methods: MethodRouter<AdminHandles>, allowed: &'static str) -> MethodRouter<AdminHandles> {
    methods.fallback(move |method: Method| async move { wrong_method(&method, allowed) })
}

/// Answers a request to `/admin/heads`.
async fn heads(State(handles): State<AdminHandles>, request: Request) -> Response {
    let reading = axum::body::to_bytes(request.into_body(), MESSAGE_BYTES_MAX);
    let message = match tokio::time::timeout(MESSAGE_TIMEOUT, reading).await {
        Ok(Ok(message)) => message,
        Ok(Err(error)) => return plain(StatusCode::BAD_REQUEST, format!("{error}\n")),
        Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the request's body did not arrive in time\n"),
    };
    match handles.heads.pending(&message).await {
        Ok(answer) => answer.into_response(),
        Err(error) => error.into_response(),
    }
}

async fn metrics(State(handles): State<AdminHandles>) -> Response {
    let mut response = handles.registry.prometheus().into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn ready(State(handles): State<AdminHandles>) -> Response {
    let held = handles.readiness.conditions();
    let texts = |wanted: fn(Severity) -> bool| -> Vec<&str> {
        held.iter().filter(|held| wanted(held.severity)).map(|held| held.text.as_str()).collect()
    };
    let reasons = texts(Severity::blocks);
    let ready = reasons.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let body = json!({
        "ready": ready,
        "reasons": reasons,
        "warnings": texts(|severity| severity == Severity::Warning),
        "hints": texts(|severity| severity == Severity::Hint),
        "conditions": held.iter().map(condition).collect::<Vec<_>>(),
    });
    (status, Json(body)).into_response()
}

/// A condition as JSON, without its text.
pub(crate) fn condition(held: &Condition) -> Value {
    let since = held.since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    json!({ "name": held.name, "severity": held.severity.label(), "since": since })
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
        Some(since) => {
            let dry_run =
                pairs.iter().any(|(key, value)| key == "dry_run" && matches!(value.as_str(), "1" | "true"));
            done(handles.actions.replay(since, dry_run).await)
        }
        None => plain(StatusCode::BAD_REQUEST, "since: must be seconds since the epoch\n".to_owned()),
    }
}

async fn set_clock(
    State(handles): State<AdminHandles>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response {
    let now = pairs.iter().find(|(key, _)| key == "now").and_then(|(_, value)| value.parse().ok());
    match now {
        Some(now) => done(handles.actions.set_clock(now).await),
        None => plain(StatusCode::BAD_REQUEST, "now: must be seconds since the epoch\n".to_owned()),
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
    let wrong = |text: &str| plain(StatusCode::BAD_REQUEST, format!("{text}\n"));
    let Some(job) = value("job") else { return wrong("job: must be the name of a maintenance job") };
    let time = |name: &str| value(name).map(str::parse::<i64>).transpose();
    let (Ok(from), Ok(until)) = (time("from"), time("until")) else {
        return wrong("from, until: must be seconds since the epoch");
    };
    let dry_run = matches!(value("dry_run"), Some("1" | "true"));
    let (job, glob) = (job.to_owned(), value("glob").map(str::to_owned));
    done(handles.actions.run_maintenance(MaintenanceRequest { job, dry_run, glob, from, until }).await)
}

fn done(result: Result<Value, AdminError>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error) => error.into_response(),
    }
}
