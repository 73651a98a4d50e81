//! Series of a metric in the index.

use std::collections::BTreeSet;
use std::sync::Arc;

use hyper::StatusCode;
use plumbago_index::{FindLimits, Index, TagError, TagExpression};
use plumbago_kairosdb::names;
use plumbago_kairosdb::opentsdb::{Lookup, Sub};

use crate::error::ApiError;
use crate::handler::kairos::reading::{add_untagged, expression, find};
use crate::handler::tag_search;
use crate::protocol::Failure;
use crate::state::Api;

/// The names of the series that a sub-query selects, sorted.
///
/// Fails as OpenTSDB does if no series has the metric, a tag or a value that the sub-query names. A value
/// that occurs only under another tag counts as known.
pub(super) async fn selected(api: &Arc<Api>, sub: &Sub) -> Result<Vec<String>, Failure> {
    let mut texts = vec![format!("name={}", names::metric(&sub.metric))];
    for filter in &sub.filters {
        let tag = names::tag(&filter.tag);
        let values = filter.named().map(|values| values.map(names::value).collect::<Vec<_>>());
        // Other filters must be matched against decoded values, so they are applied below.
        texts.push(expression(&tag, values.as_deref()));
    }
    let mut found = find(api, &texts).await?;
    found.retain(|name| sub.selects(&names::series(name)));
    if sub.filters.is_empty() {
        add_untagged(api, &sub.metric, &mut found);
    }
    if found.is_empty() {
        explain(api, sub).await?;
    }
    for value in unseen(sub, &found) {
        if !is_value(api, value).await? {
            return Err(unknown(StatusCode::BAD_REQUEST, "tagv", value));
        }
    }
    Ok(found)
}

/// The names of the series that a lookup selects, sorted. Fails if no series has its metric.
pub(super) async fn looked_up(api: &Arc<Api>, lookup: &Lookup) -> Result<Vec<String>, Failure> {
    let mut texts = Vec::new();
    if let Some(metric) = &lookup.metric {
        texts.push(format!("name={}", names::metric(metric)));
    }
    for (tag, value) in &lookup.tags {
        texts.extend(match (tag, value) {
            (Some(tag), Some(value)) => Some(format!("{}={}", names::tag(tag), names::value(value))),
            (Some(tag), None) => Some(format!("{}!=", names::tag(tag))),
            (None, _) => None,
        });
    }
    if texts.is_empty() || (lookup.metric.is_none() && lookup.tags.iter().all(|(_, value)| value.is_none())) {
        // A search needs at least one expression that does not match the empty value.
        texts.push("name!=".to_owned());
    }
    let mut found = find(api, &texts).await?;
    found.retain(|name| lookup.selects(&names::series(name)));
    if let Some(metric) = &lookup.metric {
        if lookup.tags.is_empty() {
            add_untagged(api, metric, &mut found);
        }
        if found.is_empty() && !is_metric(api, metric).await? {
            return Err(unknown(StatusCode::NOT_FOUND, "metrics", metric));
        }
    }
    Ok(found)
}

fn unknown(status: StatusCode, kind: &str, name: &str) -> Failure {
    let name: String = name.chars().take(200).collect();
    Failure::new(status, format!("No such name for '{kind}': '{name}'"))
}

/// Fails with OpenTSDB's error if nothing was found because a name is unknown.
async fn explain(api: &Arc<Api>, sub: &Sub) -> Result<(), Failure> {
    let status = StatusCode::BAD_REQUEST;
    if !is_metric(api, &sub.metric).await? {
        return Err(unknown(status, "metrics", &sub.metric));
    }
    for filter in &sub.filters {
        if !is_tag(api, &filter.tag).await? {
            return Err(unknown(status, "tagk", &filter.tag));
        }
    }
    Ok(())
}

/// The values that are named in filters but that no found series has.
fn unseen<'a>(sub: &'a Sub, found: &[String]) -> Vec<&'a str> {
    let mut unseen = Vec::new();
    for filter in &sub.filters {
        let mut values: BTreeSet<&str> = filter.named().into_iter().flatten().collect();
        for name in found {
            if values.is_empty() {
                break;
            }
            if let Some(value) = names::series(name).tag(&filter.tag) {
                values.remove(value);
            }
        }
        unseen.extend(values);
    }
    unseen
}

async fn is_metric(api: &Arc<Api>, metric: &str) -> Result<bool, ApiError> {
    let mut found = Vec::new();
    add_untagged(api, metric, &mut found);
    if !found.is_empty() {
        return Ok(true);
    }
    let text = format!("name={}", names::metric(metric));
    tag_search::aside(api, move |index, limits| has_series(index, &text, limits)).await
}

async fn is_tag(api: &Arc<Api>, tag: &str) -> Result<bool, ApiError> {
    let tag = names::tag(tag).into_owned();
    tag_search::search(api, move |index, _| Ok(index.list_values(&tag, None, 1)?.is_some())).await
}

/// Whether any tag has this value.
async fn is_value(api: &Arc<Api>, value: &str) -> Result<bool, ApiError> {
    let value = names::value(value).into_owned();
    tag_search::aside(api, move |index, limits| {
        for tag in index.list_tags(None, usize::MAX)?.iter().filter(|tag| &*tag.text != "name") {
            if has_series(index, &format!("{}={value}", tag.text), limits)? {
                return Ok(true);
            }
        }
        Ok(false)
    })
    .await
}

/// Whether any series matches a tag expression.
fn has_series(index: &Index, text: &str, limits: &FindLimits) -> Result<bool, TagError> {
    let one = FindLimits { results_max: 1, ..*limits };
    match index.find_series(&[TagExpression::parse(text)?], &one) {
        Err(TagError::TooManyResults(_)) => Ok(true),
        found => Ok(!found?.is_empty()),
    }
}
