//! `POST /api/v1/datapoints` and `POST /api/put`: points.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::{Method, StatusCode};
use plumbago_kairosdb::point::{Points, Reason};
use plumbago_kairosdb::{kairos, opentsdb};
use serde_json::{Value, json};

use super::body;
use crate::protocol::{Failure, Protocol, json_text};
use crate::state::Api;

/// Answers KairosDB's `/api/v1/datapoints`. 204 means that a kill of the process cannot lose the points.
pub(crate) async fn datapoints(api: Arc<Api>, request: Request) -> Response {
    if request.method() != Method::POST {
        return Protocol::Kairos.wrong_method("POST");
    }
    match write(&api, request, kairos::datapoints).await {
        Ok(points) if points.refused_len() == 0 => StatusCode::NO_CONTENT.into_response(),
        Ok(points) => Protocol::Kairos.failure(&named(&points)),
        Err(failure) => Protocol::Kairos.failure(&failure),
    }
}

/// Answers OpenTSDB's `/api/put`. With `summary` or `details` in the query string, the answer says how many points
/// were stored and refused.
pub(crate) async fn put(api: Arc<Api>, request: Request) -> Response {
    if request.method() != Method::POST {
        return Protocol::OpenTsdb.wrong_method("POST");
    }
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let has = |wanted: &str| form_urlencoded::parse(query).any(|(key, _)| key == wanted);
    let (details, summary) = (has("details"), has("summary"));
    match write(&api, request, opentsdb::put).await {
        Ok(points) => became(&points, details, details || summary),
        Err(failure) => Protocol::OpenTsdb.failure(&failure),
    }
}

async fn write(api: &Arc<Api>, request: Request, parse: fn(&[u8]) -> Points) -> Result<Points, Failure> {
    if !api.point_writes {
        return Err(Failure::new(
            StatusCode::FORBIDDEN,
            "this server does not accept points over HTTP; set api.point_writes = true",
        ));
    }
    api.users.refuse_write(&request)?;
    let taken = body::points(api, request, parse).await?;
    let answer = taken.points.refusals();
    let written = api.writer.write(taken.points, taken.bytes).await;
    written.map_err(|error| Failure::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    Ok(answer)
}

/// The failure that lists the refused points of a body. Only the first ones are described; the others are
/// counted.
fn named(points: &Points) -> Failure {
    let mut texts: Vec<String> = points.refused().iter().map(|refused| refused.text.clone()).collect();
    let others = points.refused_len().saturating_sub(texts.len() as u64);
    if others > 0 {
        texts.push(format!("and {others} more"));
    }
    Failure { status: StatusCode::BAD_REQUEST, texts }
}

/// OpenTSDB's answer to a put.
fn became(points: &Points, details: bool, summary: bool) -> Response {
    let failed = points.refused_len();
    if points.count(Reason::Body) > 0 {
        return Protocol::OpenTsdb.failure(&named(points));
    }
    let status = if failed == 0 { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    if !summary {
        if failed == 0 {
            return StatusCode::NO_CONTENT.into_response();
        }
        let texts = vec![
            "One or more data points had errors".to_owned(),
            "add the parameter details to the request to see them".to_owned(),
        ];
        return Protocol::OpenTsdb.failure(&Failure { status, texts });
    }
    let mut answer = json!({"success": points.taken(), "failed": failed});
    if details {
        let errors = points.refused().iter().map(|refused| {
            let item = refused.item.as_deref().and_then(|item| serde_json::from_str::<Value>(item).ok());
            json!({"datapoint": item, "error": refused.text})
        });
        answer["errors"] = errors.collect();
    }
    json_text(status, answer.to_string())
}
