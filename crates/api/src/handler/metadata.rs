//! `/metrics/get-metadata` and `/metrics/set-metadata`: single settings of metrics, read and changed.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::Method;
use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::error::{ApiError, beyond};
use crate::format::json::{list, push_string};
use crate::format::wrap::Wrapping;
use crate::params::{self, Params};
use crate::state::Api;

/// The answer to a request: each metric with its result, in the order of the request.
type Results = Vec<(String, Value)>;

/// A change of a setting.
struct Operation {
    metric: String,
    /// The key and the new value, or the name of the missing field.
    change: Result<(String, String), String>,
}

/// Answers a request to `/metrics/get-metadata`.
pub(crate) async fn get_metadata(api: Arc<Api>, request: Request) -> Response {
    read(&api, request).await.unwrap_or_else(IntoResponse::into_response)
}

/// Answers a request to `/metrics/set-metadata`.
pub(crate) async fn set_metadata(api: Arc<Api>, request: Request) -> Response {
    change(&api, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn read(api: &Api, request: Request) -> Result<Response, ApiError> {
    let params = Params::of(request, &api.limits()).await?;
    let wrapping = Wrapping::of(&params)?;
    let (names, key) = (params.all("metric"), params.get("key").unwrap_or_default());
    check_number(api, names.len())?;
    let found = api.metadata.settings(&names, key).await;
    let mut results = Results::new();
    for (name, value) in names.into_iter().zip(found) {
        let value = value.map_or_else(|error| json!({"error": error.to_string()}), Value::String);
        put(&mut results, name.to_owned(), value);
    }
    Ok(answer(wrapping, results))
}

/// A GET changes one setting, a POST several. As in graphite-web, the status is 200 even if no change was made.
async fn change(api: &Api, request: Request) -> Result<Response, ApiError> {
    if !api.metadata_writes {
        return Err(ApiError::Forbidden(
            "this server does not change the settings of metrics (api.metadata_writes)",
        ));
    }
    api.users.refuse_write(&request)?;
    // A HEAD must change nothing.
    let (operations, wrapping) = match *request.method() {
        Method::GET => single(Params::of(request, &api.limits()).await?)?,
        Method::POST => several(api, request).await?,
        _ => return Ok(Wrapping::default().whole(&json!({"error": "Invalid request method"}).to_string())),
    };
    check_number(api, operations.len())?;
    let mut results = Results::new();
    for Operation { metric, change } in operations {
        let result = match change {
            Err(missing) => Err(missing),
            Ok((key, value)) => match api.metadata.set(&metric, &key, &value).await {
                Ok(old) => Ok(json!({"old_value": old, "new_value": value})),
                Err(error) => Err(error.to_string()),
            },
        };
        put(&mut results, metric, result.unwrap_or_else(|error| json!({"error": error})));
    }
    Ok(answer(wrapping, results))
}

fn single(params: Params) -> Result<(Vec<Operation>, Wrapping), ApiError> {
    let wrapping = Wrapping::of(&params)?;
    let text = |name: &str| {
        let missing = || ApiError::Invalid(format!("the parameter {name} is missing"));
        params.get(name).map(str::to_owned).ok_or_else(missing)
    };
    let (metric, change) = (text("metric")?, (text("key")?, text("value")?));
    Ok((vec![Operation { metric, change: Ok(change) }], wrapping))
}

/// The operations of a POST: a JSON list, as the body or in the parameter `operations` of a form.
async fn several(api: &Api, request: Request) -> Result<(Vec<Operation>, Wrapping), ApiError> {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let (text, wrapping) = if kind.split(';').next().unwrap_or_default().trim() == "application/json" {
        (params::body(request, &api.limits()).await?.to_vec(), Wrapping::default())
    } else {
        let params = Params::of(request, &api.limits()).await?;
        let missing = || ApiError::Invalid("the parameter operations is missing".to_owned());
        (params.get("operations").ok_or_else(missing)?.as_bytes().to_vec(), Wrapping::of(&params)?)
    };
    let malformed = |error: serde_json::Error| {
        ApiError::Invalid(format!("the operations are not a list of objects in JSON: {error}"))
    };
    let operations: Vec<Value> = serde_json::from_slice(&text).map_err(malformed)?;
    // As in graphite-web, an operation that names no metric gives no result.
    Ok((operations.iter().filter_map(operation).collect(), wrapping))
}

fn operation(value: &Value) -> Option<Operation> {
    let metric = value.get("metric")?.as_str()?.to_owned();
    let text = |name: &str| {
        let text = value.get(name).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| format!("the operation has no string {name:?}"))
    };
    let change = text("key").and_then(|key| Ok((key, text("value")?)));
    Some(Operation { metric, change })
}

fn check_number(api: &Api, metrics: usize) -> Result<(), ApiError> {
    let most = api.limits().targets;
    if metrics > most { Err(beyond("metrics", "targets", most)) } else { Ok(()) }
}

/// Adds a result. If a request names a metric twice, the later result replaces the earlier one.
fn put(results: &mut Results, metric: String, value: Value) {
    match results.iter_mut().find(|(name, _)| *name == metric) {
        Some((_, known)) => *known = value,
        None => results.push((metric, value)),
    }
}

fn answer(wrapping: Wrapping, results: Results) -> Response {
    wrapping.json(list(
        "{",
        results.into_iter(),
        "}",
        |out: &mut Vec<u8>, (metric, value): (String, Value)| {
            push_string(out, &metric);
            out.push(b':');
            out.extend_from_slice(value.to_string().as_bytes());
        },
    ))
}
