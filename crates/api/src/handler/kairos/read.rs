//! KairosDB's queries: resolved in the index, read through the engine, and answered by the crate `kairosdb`.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::{Method, StatusCode};
use plumbago_kairosdb::kairos::answer::{self, Column, Most};
use plumbago_kairosdb::kairos::{Metric, Query, TagValue};
use plumbago_kairosdb::{VERSION, names};
use plumbago_store::KnownSlots;
use serde_json::{Value, json};

use super::reading::{self, Reading, add_untagged, expression, find};
use crate::blocking::on_thread;
use crate::error::beyond;
use crate::handler::tag_search;
use crate::params::{self, query_value};
use crate::protocol::{Failure, Protocol, json_text};
use crate::state::Api;

/// Maximum number of points that the aggregator `gaps` may add.
const MADE_MAX: usize = 1_000_000;

/// The memory that a point takes until the answer is sent, in units of 8 bytes: the value as read, with the sum and the
/// number of its points; the same with a time; the aggregated point; and its text.
const POINT_COST: usize = 16;

/// Answers `/api/v1/datapoints/query`.
pub(crate) async fn query(api: Arc<Api>, request: Request) -> Response {
    match kept_or_read(&api, request).await {
        Ok(response) => response,
        Err(failure) => Protocol::Kairos.failure(&failure),
    }
}

/// Answers `/api/v1/datapoints/query/tags`.
pub(crate) async fn query_tags(api: Arc<Api>, request: Request) -> Response {
    let answer = async {
        let (query, _) = read_query(&api, request).await?;
        ask(&api, query, true).await
    };
    Protocol::Kairos.answer(answer.await)
}

/// Answers `/api/v1/health/status` and `/api/v1/health/check`: the same state as `/readyz` of the admin port, in
/// KairosDB's form.
pub(crate) async fn kairos_health(api: Arc<Api>, request: Request) -> Response {
    let held = api.readiness.conditions();
    let blocking: Vec<&str> =
        held.iter().filter(|held| held.severity.blocks()).map(|held| held.name).collect();
    if request.uri().path().trim_end_matches('/').ends_with("check") {
        let is_ready = blocking.is_empty();
        let status = if is_ready { StatusCode::NO_CONTENT } else { StatusCode::INTERNAL_SERVER_ERROR };
        return status.into_response();
    }
    let store = if blocking.is_empty() { "Datastore-Query: OK" } else { "Datastore-Query: FAIL" };
    let mut lines = vec!["JVM-Thread-Deadlock: OK".to_owned(), store.to_owned()];
    lines.extend(blocking.iter().map(|name| format!("{name}: FAIL")));
    json_text(StatusCode::OK, json!(lines).to_string())
}

/// Answers the paths that list names or report the version: `metricnames`, `tagnames`, `tagvalues` and
/// `version`.
pub(crate) async fn listing(api: Arc<Api>, request: Request) -> Response {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let tail = path.rsplit_once("/api/v1/").map_or("", |(_, tail)| tail).to_owned();
    match tail.as_str() {
        "version" => json_text(StatusCode::OK, json!({ "version": VERSION }).to_string()),
        "metricnames" => {
            let prefix = query_value(&request, "prefix").unwrap_or_default();
            shaped(metric_names(&api, prefix).await)
        }
        "tagnames" => shaped(tag_names(&api).await),
        _ => shaped(tag_values(&api).await),
    }
}

fn shaped(answer: Result<Value, Failure>) -> Response {
    Protocol::Kairos.answer(answer.map(|value| value.to_string()))
}

async fn metric_names(api: &Arc<Api>, prefix: String) -> Result<Value, Failure> {
    api.check_tags()?;
    let limit = api.limits().find_results;
    let found = tag_search::aside(api, move |index, _| index.list_values("name", None, usize::MAX)).await?;
    let names = found.map(|(_, names)| names).unwrap_or_default();
    let names = names.iter().map(|name| names::decoded(&name.text).into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(&prefix)).take(limit + 1).collect();
    if names.len() > limit {
        return Err(beyond("names", "find_results", limit).into());
    }
    names.sort();
    Ok(json!({ "results": names }))
}

async fn tag_names(api: &Arc<Api>) -> Result<Value, Failure> {
    api.check_tags()?;
    let tags = tag_search::aside(api, |index, _| index.list_tags(None, usize::MAX)).await?;
    let tags = tags.iter().map(|tag| &*tag.text).filter(|tag| *tag != "name");
    let mut tags: Vec<String> = tags.map(|tag| names::decoded(tag).into_owned()).collect();
    tags.sort();
    Ok(json!({ "results": tags }))
}

/// The values of all tags in one list, as KairosDB 1.2 returned them.
async fn tag_values(api: &Arc<Api>) -> Result<Value, Failure> {
    api.check_tags()?;
    let limit = api.limits().find_results;
    let values = tag_search::aside(api, move |index, _| {
        let mut all = std::collections::BTreeSet::new();
        for tag in index.list_tags(None, usize::MAX)?.iter().filter(|tag| &*tag.text != "name") {
            let left = (limit + 1).saturating_sub(all.len());
            let found = index.list_values(&tag.text, None, left)?;
            let values = found.map(|(_, values)| values).unwrap_or_default();
            all.extend(values.iter().map(|value| names::decoded(&value.text).into_owned()));
        }
        Ok(all)
    })
    .await?;
    if values.len() > limit {
        return Err(beyond("values", "find_results", limit).into());
    }
    Ok(json!({ "results": values }))
}

/// Answers a query, from the cache if its `cache_time` allows that.
async fn kept_or_read(api: &Arc<Api>, request: Request) -> Result<Response, Failure> {
    let (query, body) = read_query(api, request).await?;
    let now = api.clock.now();
    let ticket = api.cache.ticket_of_query(&body, query.cache_time);
    if let Some(kept) = ticket.as_ref().and_then(|ticket| api.cache.get(ticket, now)) {
        return Ok(kept);
    }
    let response = json_text(StatusCode::OK, ask(api, query, false).await?);
    Ok(match ticket {
        None => response,
        Some(ticket) => api.cache.keep(ticket, response, now, Vec::new()),
    })
}

/// Reads the query of a request. Returns the query and its text.
async fn read_query(api: &Arc<Api>, request: Request) -> Result<(Query, Vec<u8>), Failure> {
    let body = if request.method() == Method::POST {
        params::body(request, &api.limits()).await?.to_vec()
    } else {
        query_value(&request, "query").unwrap_or_default().into_bytes()
    };
    let query = parse(&body, api.clock.now_ms())?;
    if query.metrics.len() > api.limits().targets {
        return Err(beyond("metrics", "targets", api.limits().targets).into());
    }
    Ok((query, body))
}

/// Parses the text of a query.
pub(super) fn parse(body: &[u8], now_ms: i64) -> Result<Query, Failure> {
    Query::parse(body, now_ms).map_err(|texts| Failure { status: StatusCode::BAD_REQUEST, texts })
}

async fn ask(api: &Arc<Api>, query: Query, only_tags: bool) -> Result<String, Failure> {
    api.check_tags()?;
    let query = Arc::new(query);
    let now_ms = api.clock.now_ms();
    let mut reading = Reading::new(api, now_ms, POINT_COST);
    let from = query.start_ms.max(0).div_euclid(1000) - 1;
    let until = reading.end(query.end_ms.div_euclid(1000));
    let mut answers = Vec::with_capacity(query.metrics.len());
    for at in 0..query.metrics.len() {
        let metric = &query.metrics[at];
        let names = names_of(api, metric).await?;
        reading.count(names.len())?;
        if only_tags {
            answers.push(answer::tags(metric, &names));
            continue;
        }
        let columns = reading.columns(names, from, until, |read| column(read, &query)).await?;
        answers.push(aggregated(api, &query, at, columns, now_ms).await?);
    }
    Ok(answer::whole(&answers))
}

/// Makes the answer of one metric on a thread for large evaluations.
async fn aggregated(
    api: &Arc<Api>,
    query: &Arc<Query>,
    at: usize,
    columns: Vec<Column>,
    now_ms: i64,
) -> Result<String, Failure> {
    /// With more points than this, the work moves to a thread on which no other requests wait.
    const FEW: usize = 10_000;
    let most = Most { points: api.limits().points.min(MADE_MAX), groups: api.limits().series };
    let points: usize = columns.iter().map(|column| column.points.len()).sum();
    let made = if points <= FEW && query.metrics[at].aggregators.iter().all(|one| !one.makes_points()) {
        answer::metric(query, &query.metrics[at], columns, now_ms, most)
    } else {
        let query = Arc::clone(query);
        let work = move || answer::metric(&query, &query.metrics[at], columns, now_ms, most);
        on_thread(&api.evaluations, work).await?
    };
    made.map_err(|text| Failure::new(StatusCode::BAD_REQUEST, text))
}

/// The names of the series that a metric of a query selects, sorted.
pub(super) async fn names_of(api: &Arc<Api>, metric: &Metric) -> Result<Vec<String>, Failure> {
    let mut texts = vec![format!("name={}", names::metric(&metric.name))];
    for (tag, values) in &metric.tags {
        let tag = names::tag(tag);
        let exact: Option<Vec<_>> = values
            .iter()
            .map(|value| match value {
                TagValue::Exact(value) => Some(names::value(value)),
                TagValue::Regex(_) => None,
            })
            .collect();
        // Regular expressions must be matched against decoded values, so they are applied below.
        texts.push(expression(&tag, exact.as_deref()));
    }
    let mut found = find(api, &texts).await?;
    let has_regex =
        metric.tags.iter().any(|(_, values)| values.iter().any(|value| matches!(value, TagValue::Regex(_))));
    if has_regex {
        found.retain(|name| {
            let series = names::series(name);
            let matches = |(tag, values): &(String, Vec<TagValue>)| {
                series.tag(tag).is_some_and(|value| values.iter().any(|wanted| wanted.matches(value)))
            };
            metric.tags.iter().all(matches)
        });
    }
    if metric.tags.is_empty() {
        add_untagged(api, &metric.name, &mut found);
    }
    Ok(found)
}

/// The points of a series that lie within the query.
fn column(read: &KnownSlots, query: &Query) -> Column {
    let within = |ms: &i64| (query.start_ms..=query.end_ms).contains(ms);
    let points = reading::amounts(read).filter(|(ms, _)| within(ms));
    Column { name: read.name.to_string(), points: points.collect() }
}
