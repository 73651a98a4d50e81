//! The lists that users of OpenTSDB's clients choose from: names, tags and values, aggregators and filters.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use hyper::{Method, StatusCode};
use plumbago_index::{Index, TagError, TagFilter};
use plumbago_kairosdb::names;
use plumbago_kairosdb::opentsdb::{self, AGGREGATORS, Lookup};
use serde_json::{Value, json};

use super::find;
use crate::error::quoted;
use crate::handler::kairos::body;
use crate::handler::tag_search;
use crate::params::query_value;
use crate::protocol::{Failure, Protocol, json_text};
use crate::state::Api;

/// The version that is reported to clients. Grafana chooses features by it.
const OPENTSDB_VERSION: &str = "2.4.1";

/// Number of suggestions for a request that does not set a number.
const SUGGESTIONS: usize = 25;

/// Answers `/api/aggregators`.
pub(crate) async fn aggregators(_: Arc<Api>, _: Request) -> Response {
    let names: Vec<&str> = AGGREGATORS.iter().map(|(name, _)| *name).collect();
    json_text(StatusCode::OK, json!(names).to_string())
}

/// Answers `/api/config/filters`.
pub(crate) async fn filters(_: Arc<Api>, _: Request) -> Response {
    json_text(StatusCode::OK, opentsdb::filters().to_string())
}

/// Answers `/api/version`.
pub(crate) async fn opentsdb_version(_: Arc<Api>, _: Request) -> Response {
    let full = concat!("Plumbago ", env!("CARGO_PKG_VERSION"));
    let version = json!({
        "version": OPENTSDB_VERSION, "short_revision": "", "full_revision": full, "repo": "", "repo_status": "",
        "branch": "", "host": "", "user": "", "timestamp": "0",
    });
    json_text(StatusCode::OK, version.to_string())
}

/// Answers `/api/suggest`: names that begin with a text.
pub(crate) async fn suggest(api: Arc<Api>, request: Request) -> Response {
    Protocol::OpenTsdb.answer(suggested(&api, request).await)
}

/// Answers `/api/search/lookup`: series of a metric.
pub(crate) async fn lookup(api: Arc<Api>, request: Request) -> Response {
    Protocol::OpenTsdb.answer(looked_up(&api, request).await)
}

async fn looked_up(api: &Arc<Api>, request: Request) -> Result<String, Failure> {
    api.check_tags()?;
    let began = api.clock.now_ms();
    let lookup = if request.method() == Method::POST {
        Lookup::parse_body(&body::of_query(api, request).await?)
    } else {
        let value = |key: &str| query_value(&request, key);
        Lookup::parse(&value("m").unwrap_or_default(), value("limit").as_deref())
    };
    let lookup = lookup.map_err(invalid)?;
    let found = find::looked_up(api, &lookup).await?;
    Ok(lookup.answer(&found, api.clock.now_ms() - began))
}

async fn suggested(api: &Arc<Api>, request: Request) -> Result<String, Failure> {
    api.check_tags()?;
    let [kind, prefix, max] = suggest_params(api, request).await?;
    let max = match max.as_str() {
        "" => 0,
        text => text.parse::<i32>().map_err(|_| invalid("Unable to parse 'max' as a number"))?,
    };
    // As in OpenTSDB, 0 and negative numbers mean the default.
    let max = usize::try_from(max).ok().filter(|max| *max > 0).unwrap_or(SUGGESTIONS);
    let max = max.min(api.limits().find_results);
    let names = match kind.as_str() {
        "metrics" => {
            tag_search::aside(api, move |index, _| {
                Ok(values(index, "name", &prefix, max)?.into_iter().collect())
            })
            .await?
        }
        "tagk" => tag_search::aside(api, move |index, _| tags(index, &prefix, max)).await?,
        "tagv" => tag_search::aside(api, move |index, _| values_of_all(index, &prefix, max)).await?,
        "" => return Err(invalid("Missing 'type' parameter")),
        other => return Err(invalid(format!("Invalid 'type' parameter:{}", quoted(other)))),
    };
    let names: BTreeSet<String> = names;
    Ok(json!(names.into_iter().take(max).collect::<Vec<_>>()).to_string())
}

async fn suggest_params(api: &Arc<Api>, request: Request) -> Result<[String; 3], Failure> {
    const KEYS: [&str; 3] = ["type", "q", "max"];
    if request.method() != Method::POST {
        return Ok(KEYS.map(|key| query_value(&request, key).unwrap_or_default()));
    }
    let body = body::of_query(api, request).await?;
    let body: Value = serde_json::from_slice(&body)
        .map_err(|error| invalid(format!("Unable to parse the given JSON: {error}")))?;
    Ok(KEYS.map(|key| match body.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }))
}

/// The first `max` values of a tag, decoded, that begin with a text.
fn values(index: &Index, tag: &str, prefix: &str, max: usize) -> Result<Vec<String>, TagError> {
    let (filter, whole) = beginning(prefix)?;
    let limit = if whole { max } else { usize::MAX };
    let found = index.list_values(tag, filter.as_ref(), limit)?.map(|(_, values)| values).unwrap_or_default();
    let decoded = found.iter().map(|value| names::decoded(&value.text).into_owned());
    Ok(decoded.filter(|value| value.starts_with(prefix)).take(max).collect())
}

fn tags(index: &Index, prefix: &str, max: usize) -> Result<BTreeSet<String>, TagError> {
    let found = index.list_tags(None, usize::MAX)?;
    let tags = found.iter().map(|tag| &*tag.text).filter(|tag| *tag != "name");
    let tags = tags.map(|tag| names::decoded(tag).into_owned()).filter(|tag| tag.starts_with(prefix));
    Ok(tags.collect::<BTreeSet<_>>().into_iter().take(max).collect())
}

fn values_of_all(index: &Index, prefix: &str, max: usize) -> Result<BTreeSet<String>, TagError> {
    let mut all = BTreeSet::new();
    for tag in index.list_tags(None, usize::MAX)?.iter().filter(|tag| &*tag.text != "name") {
        all.extend(values(index, &tag.text, prefix, max)?);
        while all.len() > max {
            all.pop_last();
        }
    }
    Ok(all)
}

/// A filter for values that begin with the plain part of a text. The plain part ends before the first
/// character that may be encoded in names. Also returns whether the plain part is the whole text.
fn beginning(prefix: &str) -> Result<(Option<TagFilter>, bool), TagError> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let plain = prefix.split(|character| !is_plain(character)).next().unwrap_or_default();
    let filter = if plain.is_empty() { None } else { Some(TagFilter::new(plain)?) };
    Ok((filter, plain.len() == prefix.len()))
}

fn invalid(text: impl Into<String>) -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, text)
}
