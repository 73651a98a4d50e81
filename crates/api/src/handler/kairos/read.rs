//! KairosDB's queries: resolved in the index, read through the engine, and answered by the crate `kairosdb`.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::{Method, StatusCode};
use plumbago_kairosdb::kairos::answer::{self, Column, Most};
use plumbago_kairosdb::kairos::{Metric, Query, TagValue};
use plumbago_kairosdb::{VERSION, names};
use plumbago_model::Series;
use plumbago_store::FetchRequest;
use serde_json::{Value, json};

use super::shape::{Failure, Protocol, json_text};
use crate::error::{ApiError, aborted, beyond};
use crate::handler::tag_search;
use crate::memory::Account;
use crate::params;
use crate::state::Api;

/// Most series in one read.
const SERIES_PER_READ: usize = 512;

/// How far beyond now points are looked for, in seconds, if the query has no end.
const AHEAD: i64 = 300;

/// Most points that `gaps` may make.
const MADE_MAX: usize = 1_000_000;

/// How many times 8 bytes a point takes until it is answered: as it was read, with its time, aggregated, as text.
const POINT_COST: usize = 9;

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
    text_or_failure(answer.await)
}

/// Answers `/api/v1/health/status` and `/api/v1/health/check`: as `/readyz` of the admin port does, in KairosDB's
/// form.
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

/// Answers the paths that list or report something: `metricnames`, `tagnames`, `tagvalues` and `version`.
pub(crate) async fn listing(api: Arc<Api>, request: Request) -> Response {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let tail = path.rsplit_once("/api/v1/").map_or("", |(_, tail)| tail).to_owned();
    match tail.as_str() {
        "version" => json_text(StatusCode::OK, json!({ "version": VERSION }).to_string()),
        "metricnames" => {
            let query = request.uri().query().unwrap_or_default().as_bytes();
            let prefix = form_urlencoded::parse(query).find(|(key, _)| key == "prefix");
            let prefix = prefix.map(|(_, prefix)| prefix.into_owned()).unwrap_or_default();
            shaped(metric_names(&api, prefix).await)
        }
        "tagnames" => shaped(tag_names(&api).await),
        _ => shaped(tag_values(&api).await),
    }
}

fn shaped(answer: Result<Value, Failure>) -> Response {
    text_or_failure(answer.map(|value| value.to_string()))
}

fn text_or_failure(answer: Result<String, Failure>) -> Response {
    match answer {
        Ok(text) => json_text(StatusCode::OK, text),
        Err(failure) => Protocol::Kairos.failure(&failure),
    }
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

/// The values of all tags together, as KairosDB 1.2 listed them.
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

/// Answers a query, from the cache if `cache_time` allows it.
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
        Some(ticket) => api.cache.keep(ticket, response, now),
    })
}

/// Reads a query. Returns its text too.
async fn read_query(api: &Arc<Api>, request: Request) -> Result<(Query, Vec<u8>), Failure> {
    let body = if request.method() == Method::POST {
        params::body(request, &api.limits()).await?.to_vec()
    } else {
        let query = request.uri().query().unwrap_or_default().as_bytes();
        let query = form_urlencoded::parse(query).find(|(key, _)| key == "query");
        query.map(|(_, query)| query.into_owned().into_bytes()).unwrap_or_default()
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
    let limits = api.limits();
    api.memory.set_max(limits.memory_of_all());
    let mut reading =
        Reading { api, account: Account::new(&api.memory, limits.memory), series: 0, points: 0 };
    let mut answers = Vec::with_capacity(query.metrics.len());
    for at in 0..query.metrics.len() {
        let metric = &query.metrics[at];
        let names = names_of(api, metric).await?;
        reading.count(names.len())?;
        if only_tags {
            answers.push(answer::tags(metric, &names));
            continue;
        }
        let columns = reading.columns(&query, names, now_ms).await?;
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
    /// More points than this are not worked on where other requests wait.
    const FEW: usize = 10_000;
    let most = Most { points: api.limits().points.min(MADE_MAX), groups: api.limits().series };
    let points: usize = columns.iter().map(|column| column.points.len()).sum();
    let made = if points <= FEW && query.metrics[at].aggregators.iter().all(|one| !one.makes_points()) {
        answer::metric(query, &query.metrics[at], columns, now_ms, most)
    } else {
        let turn = Arc::clone(&api.evaluations).acquire_owned().await.map_err(|_| aborted())?;
        let query = Arc::clone(query);
        let work = move || {
            let _turn = turn;
            answer::metric(&query, &query.metrics[at], columns, now_ms, most)
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| aborted())?
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
        texts.push(match exact.as_deref() {
            Some([value]) => format!("{tag}={value}"),
            Some(values) => {
                let values: Vec<String> = values.iter().map(|value| escaped(value)).collect();
                format!("{tag}=~^({})$", values.join("|"))
            }
            // Expressions see encoded values, so they are applied below.
            None => format!("{tag}!="),
        });
    }
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut found = tag_search::series(api, &texts).await?;
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
    // A series without tags is in the tree only.
    let plain = names::metric(&metric.name);
    if metric.tags.is_empty() && !plain.contains(['*', '?', '[', '{']) && api.index.contains(&plain) {
        found.insert(0, plain.into_owned());
        found.dedup();
    }
    Ok(found)
}

/// A text of which each character means itself in a regular expression.
pub(in crate::handler) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_punctuation()
            && !matches!(
                character,
                '_' | '%' | '=' | '~' | '"' | '\'' | ',' | ':' | '@' | '<' | '>' | '/' | '!' | '`'
            )
        {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// Reads the points of one request and counts them against its limits.
struct Reading<'a> {
    api: &'a Arc<Api>,
    account: Account,
    series: usize,
    points: usize,
}

impl Reading<'_> {
    fn count(&mut self, series: usize) -> Result<(), ApiError> {
        self.series += series;
        if self.series > self.api.limits().series {
            return Err(beyond("series", "series", self.api.limits().series));
        }
        Ok(())
    }

    async fn columns(
        &mut self,
        query: &Query,
        names: Vec<String>,
        now_ms: i64,
    ) -> Result<Vec<Column>, ApiError> {
        let now = now_ms.div_euclid(1000);
        let from = query.start_ms.max(0).div_euclid(1000) - 1;
        let until = query.end_ms.div_euclid(1000).min(now + AHEAD);
        let mut columns = Vec::with_capacity(names.len());
        if until <= from {
            return Ok(columns);
        }
        for part in names.chunks(SERIES_PER_READ) {
            let names = part.iter().map(|name| Arc::from(name.as_str())).collect();
            let series = self.api.source.fetch(&FetchRequest { names, from, until, now }).await?;
            let slots: usize = series.iter().map(|series| series.values.len()).sum();
            self.points += slots;
            if self.points > self.api.limits().points {
                return Err(beyond("points", "points", self.api.limits().points));
            }
            self.account.add_read(series.len(), slots.saturating_mul(POINT_COST))?;
            columns.extend(series.iter().map(|series| column(series, query)));
        }
        Ok(columns)
    }
}

/// The points of a series that lie within the query.
fn column(series: &Series, query: &Query) -> Column {
    let within = |ms: &i64| (query.start_ms..=query.end_ms).contains(ms);
    let points = series.values.iter().enumerate().filter_map(|(at, value)| {
        let ms = (series.start + at as i64 * i64::from(series.step)) * 1000;
        (value.is_finite() && within(&ms)).then_some((ms, *value))
    });
    Column { name: series.name.to_string(), points: points.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_texts_match_only_themselves() {
        for text in ["a.b", "x|y", "(a)", "50%2B", "a-b_c", "[x]{2}^$\\", "é", "a=b~c:d@e"] {
            let regex = regex_like(&escaped(text));
            assert_eq!(regex, text, "{text}");
        }
    }

    /// What the escapes stand for.
    fn regex_like(escaped: &str) -> String {
        let mut text = String::new();
        let mut characters = escaped.chars();
        while let Some(character) = characters.next() {
            text.push(if character == '\\' { characters.next().unwrap() } else { character });
        }
        text
    }
}
