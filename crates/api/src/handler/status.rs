//! `/plumbago/status`: a view of the daemon. It is open to this machine and to those who know the admin token. The
//! same holds for `/plumbago/rules` and `/plumbago/costs`.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use plumbago_telemetry::{Condition, Sample};
use serde_json::{Value, json};

use crate::admin;
use crate::error::plain;
use crate::state::Api;

/// Answers a request to `/plumbago/status`.
pub(crate) async fn status(api: Arc<Api>, request: Request) -> Response {
    let Some(status) = &api.status else { return switched_off() };
    if let Err(refused) = status.check(&request) {
        return *refused;
    }
    let mut answer = match status.source.status().await {
        Ok(answer) => answer,
        Err(error) => return error.into_response(),
    };
    let conditions = api.readiness.conditions();
    answer["now"] = json!(api.clock.now());
    answer["ready"] = json!(!conditions.iter().any(|condition| condition.severity.blocks()));
    answer["conditions"] = conditions.iter().map(condition).collect();
    answer["figures"] = status.registry.samples().iter().map(figure).collect();
    unstored(Json(answer).into_response())
}

/// The answer while the status is switched off.
pub(super) fn switched_off() -> Response {
    plain(StatusCode::NOT_FOUND, "the status is switched off (api.page.status)\n")
}

/// Adds a header that keeps the answer out of all caches.
pub(super) fn unstored(mut response: Response) -> Response {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn condition(held: &Condition) -> Value {
    let mut condition = admin::condition(held);
    condition["text"] = json!(held.text);
    condition
}

fn figure(sample: &Sample) -> Value {
    let labels: serde_json::Map<String, Value> =
        sample.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({"name": sample.name, "labels": labels, "value": sample.value})
}
