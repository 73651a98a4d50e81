//! The jobs of the admin port: starting, listing, showing and cancelling them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::{AdminHandles, MESSAGE_TIMEOUT, done};
use crate::error::AdminError;

/// Largest body of a request, in bytes. It has room for a long list of names.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Lists the jobs.
pub(super) async fn list(State(handles): State<AdminHandles>) -> Response {
    done(handles.actions.jobs().await)
}

/// Shows one job.
pub(super) async fn show(State(handles): State<AdminHandles>, Path(id): Path<String>) -> Response {
    done(handles.actions.job(&id).await)
}

/// Cancels a job.
pub(super) async fn cancel(State(handles): State<AdminHandles>, Path(id): Path<String>) -> Response {
    done(handles.actions.cancel_job(&id).await)
}

/// Starts the job that the parameter `job` names.
pub(super) async fn start(
    State(handles): State<AdminHandles>,
    Query(pairs): Query<Vec<(String, String)>>,
    request: Request,
) -> Response {
    match read(pairs, "job", request).await {
        Ok((job, parameters)) => done(handles.actions.start_job(&job, parameters).await),
        Err(error) => error.into_response(),
    }
}

/// Answers the question named by the parameter `name` with lines of JSON.
pub(super) async fn ask(
    State(handles): State<AdminHandles>,
    Query(pairs): Query<Vec<(String, String)>>,
    request: Request,
) -> Response {
    let (name, parameters) = match read(pairs, "name", request).await {
        Ok(read) => read,
        Err(error) => return error.into_response(),
    };
    match handles.actions.ask(&name, parameters).await {
        Ok(lines) => {
            let mut response = Response::new(Body::new(Lines(lines)));
            let kind = HeaderValue::from_static("application/x-ndjson");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            response
        }
        Err(error) => error.into_response(),
    }
}

/// A response body of lines that are sent as they arrive.
struct Lines(mpsc::Receiver<String>);

impl HttpBody for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(Bytes::from(line)))))
    }
}

/// Reads the name and the parameters of a job or question. The name is in the query string. The parameters
/// are the members of the JSON object in the body and the other pairs of the query string.
///
/// # Errors
///
/// The problem, if the request cannot be read.
pub(super) async fn read(
    pairs: Vec<(String, String)>,
    key: &str,
    request: Request,
) -> Result<(String, Value), AdminError> {
    let wrong = AdminError::Invalid;
    let reading = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX);
    let body = match tokio::time::timeout(MESSAGE_TIMEOUT, reading).await {
        Ok(body) => body.map_err(|error| wrong(error.to_string()))?,
        Err(_) => return Err(wrong("the request's body did not arrive in time".to_owned())),
    };
    let mut parameters = match body.trim_ascii() {
        [] => Map::new(),
        text => serde_json::from_slice(text)
            .map_err(|error| wrong(format!("the body is not a JSON object: {error}")))?,
    };
    let mut name = None;
    for (known, value) in pairs {
        if known == key {
            name = Some(value);
        } else {
            parameters.insert(known, typed(value));
        }
    }
    let name = name.ok_or_else(|| wrong(format!("the parameter {key} is missing")))?;
    Ok((name, Value::Object(parameters)))
}

/// A value of the query: `true`, `false` and whole numbers become JSON values of that type. To pass such a
/// text as a string, send it in the body.
fn typed(text: String) -> Value {
    match text.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text.parse::<i64>().map_or_else(|_| Value::String(text), Value::from),
    }
}
