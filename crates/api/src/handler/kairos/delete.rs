//! KairosDB's deletions: `POST /api/v1/datapoints/delete` and `DELETE /api/v1/metric/{name}`.

use std::ops::Range;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use plumbago_kairosdb::kairos::{Metric, Query};

use super::read::{names_of, parse};
use crate::params;
use crate::protocol::{Failure, Protocol};
use crate::state::Api;

/// A query that starts at this time or earlier means all time, because clients send 0 or 1.
const BEGINNING_MS: i64 = 1;

/// Answers `/api/v1/datapoints/delete`: the points that a query selects, or whole series if it is for all time.
pub(crate) async fn delete(api: Arc<Api>, request: Request) -> Response {
    if request.method() != Method::POST {
        return Protocol::Kairos.wrong_method("POST");
    }
    shaped(selected(&api, request).await)
}

/// Answers `DELETE /api/v1/metric/{name}`. An unknown metric counts as deleted.
pub(crate) async fn delete_metric(api: Arc<Api>, request: Request) -> Response {
    let path = request.uri().path().trim_end_matches('/');
    let name = path.rsplit_once('/').map_or("", |(_, name)| name);
    let metric = Metric::named(&percent_decode_str(name).decode_utf8_lossy());
    let outcome = match allowed(&api, &request) {
        Ok(()) => delete_of(&api, &[metric], None).await,
        Err(failure) => Err(failure),
    };
    shaped(outcome)
}

fn shaped(outcome: Result<(), Failure>) -> Response {
    match outcome {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(failure) => Protocol::Kairos.failure(&failure),
    }
}

async fn selected(api: &Arc<Api>, request: Request) -> Result<(), Failure> {
    allowed(api, &request)?;
    let body = params::body(request, &api.limits()).await?;
    let now_ms = api.clock.now_ms();
    let query = parse(&body, now_ms)?;
    let is_whole = query.start_ms <= BEGINNING_MS && query.end_ms >= now_ms;
    let times = if is_whole { None } else { Some(seconds(&query)) };
    if times.as_ref().is_some_and(Range::is_empty) {
        // The range lies between two whole seconds, or before 1970.
        return Ok(());
    }
    delete_of(api, &query.metrics, times).await
}

/// The whole seconds from the start to the end of a query, both included. Points have whole seconds.
fn seconds(query: &Query) -> Range<i64> {
    let start = query.start_ms.saturating_add(999).div_euclid(1000).max(0);
    start..query.end_ms.div_euclid(1000).saturating_add(1)
}

fn allowed(api: &Api, request: &Request) -> Result<(), Failure> {
    if !api.deletes {
        let text = "this server does not delete over HTTP; set api.deletes = true";
        return Err(Failure::new(StatusCode::FORBIDDEN, text));
    }
    Ok(api.users.refuse_write(request)?)
}

async fn delete_of(api: &Arc<Api>, metrics: &[Metric], times: Option<Range<i64>>) -> Result<(), Failure> {
    api.check_tags()?;
    let mut names = Vec::new();
    for metric in metrics {
        names.extend(names_of(api, metric).await?);
    }
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(());
    }
    let deleted = api.writer.delete(names, times).await;
    deleted.map_err(|error| Failure::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
}
