//! `/events`: adds events, and returns one or all in a time range.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::{Method, StatusCode};
use plumbago_render::TimeZone;
use plumbago_store::EventFilter;
use serde_json::{Map, Value};

use super::{below, render_params};
use crate::error::{ApiError, aborted, json_error, plain, quoted};
use crate::events::{Event, EventError};
use crate::format::json::{list, push_string};
use crate::format::wrap::{self, Wrapping};
use crate::params::{self, Params};
use crate::state::Api;

/// The last second of the year 9999. Later times cannot be formatted.
const WHEN_MAX: i64 = 253_402_300_799;

/// Answers a request to `/events` or a path below it.
pub(crate) async fn events(api: Arc<Api>, request: Request) -> Response {
    let path = below(&request, "/events");
    let is_post = request.method() == Method::POST;
    let answer = match path.as_str() {
        "" if is_post => note(&api, request).await,
        "" | "get_data" => found(&api, request).await,
        id => one(&api, id, request).await,
    };
    answer.unwrap_or_else(IntoResponse::into_response)
}

/// Stores the event in the request's body.
async fn note(api: &Arc<Api>, request: Request) -> Result<Response, ApiError> {
    if !api.events.is_on() {
        return Err(ApiError::Forbidden("this server keeps no events (api.events_bytes is 0)"));
    }
    api.users.refuse_write(&request)?;
    let body = params::body(request, &api.limits()).await?;
    let malformed =
        |reason: &dyn std::fmt::Display| ApiError::Invalid(format!("the event is not a JSON object{reason}"));
    let fields: Map<String, Value> = match serde_json::from_slice(&body) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) => return Err(malformed(&"")),
        Err(error) => return Err(malformed(&format!(": {error}"))),
    };
    let Some(tags) = tags(fields.get("tags")) else {
        let text = "\"tags\" must be an array or space-separated string";
        return Ok(json_error(StatusCode::BAD_REQUEST, text));
    };
    let what = fields.get("what").filter(|what| !what.is_null()).map(text);
    let event = Event {
        id: 0,
        when: when(fields.get("when"), api)?,
        what: what.ok_or_else(|| ApiError::Invalid("the event has no \"what\"".to_owned()))?,
        data: fields.get("data").map(text).unwrap_or_default(),
        tags,
    };
    let events = Arc::clone(&api.events);
    match tokio::task::spawn_blocking(move || events.add(event)).await {
        Ok(Ok(_)) => Ok(plain(StatusCode::OK, "")),
        Ok(Err(error @ EventError::TooLarge)) => Err(ApiError::TooLarge(error.to_string())),
        Ok(Err(error)) => Err(ApiError::Unavailable(error.to_string())),
        Err(_) => Err(aborted()),
    }
}

/// Reads tags, either an array or one string with blanks between the tags. Returns `None` for any other
/// value.
fn tags(value: Option<&Value>) -> Option<Vec<String>> {
    let split = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::String(text)) => Some(split(text)),
        Some(Value::Array(tags)) => {
            let tags: Option<Vec<_>> = tags.iter().map(|tag| tag.as_str().map(split)).collect();
            tags.map(|tags| tags.concat())
        }
        Some(_) => None,
    }
}

/// A string as it is, null as an empty string, and any other value as JSON text.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The time of an event in whole seconds since the epoch; the current time if the request gives none.
fn when(value: Option<&Value>, api: &Api) -> Result<i64, ApiError> {
    let Some(value) = value else { return Ok(api.clock.now()) };
    let seconds = value.as_f64().filter(|seconds| (0.0..=WHEN_MAX as f64).contains(seconds));
    let wrong = || ApiError::Invalid(format!("when={} is not a time in seconds", quoted(&value.to_string())));
    seconds.map(|seconds| seconds as i64).ok_or_else(wrong)
}

/// Returns the events in the requested time range, filtered by tags if the request has any.
async fn found(api: &Arc<Api>, request: Request) -> Result<Response, ApiError> {
    let params = Params::of(request, &api.limits()).await?;
    let wrapping = Wrapping::of(&params)?;
    let zone = render_params::zone(&params, api);
    let now = render_params::now(&params, api, &zone)?;
    let time = |name: &str, default: i64| {
        params.get(name).map_or(Ok(default), |text| render_params::time(name, text, now, &zone))
    };
    let split = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let filter = EventFilter {
        from: time("from", 0)?,
        until: time("until", now)?,
        tags: params.get("tags").map(split),
        any: params.get("set") == Some("union"),
    };
    let found = api.events.find_all(filter).await.map_err(|_| aborted())?;
    Ok(wrapping.json(list("[", found.into_iter(), "]", |out, event| {
        push(out, &event, &event.when.to_string());
    })))
}

/// Returns one event by its id.
async fn one(api: &Arc<Api>, id: &str, request: Request) -> Result<Response, ApiError> {
    let Ok(id) = id.parse() else {
        return Ok(crate::error::missing(request.uri().clone()).await);
    };
    let Some(event) = api.events.get_from_all(id).await else {
        return Ok(json_error(StatusCode::NOT_FOUND, "Event matching query does not exist"));
    };
    let mut text = Vec::new();
    push(&mut text, &event, &format!("\"{}\"", date(event.when)));
    Ok(wrap::answer("application/json", Body::from(text)))
}

/// Appends an event as a JSON object. `when` is its time as JSON text.
fn push(out: &mut Vec<u8>, event: &Event, when: &str) {
    out.extend_from_slice(format!("{{\"when\":{when},\"what\":").as_bytes());
    push_string(out, &event.what);
    out.extend_from_slice(b",\"data\":");
    push_string(out, &event.data);
    out.extend_from_slice(b",\"tags\":[");
    for (index, tag) in event.tags.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_string(out, tag);
    }
    out.extend_from_slice(format!("],\"id\":{}}}", event.id).as_bytes());
}

/// Formats a time as `YYYY-MM-DDTHH:MM:SSZ`.
fn date(when: i64) -> String {
    TimeZone::utc().local(when).map_or_else(String::new, |at| {
        let ((year, month, day), (hour, minute, second)) = (at.date, at.time);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    })
}
