//! The body of a query: times, metrics, and the computations on their points.

use jiff::tz::TimeZone;
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::aggregate::Aggregator;
use super::duration::{at_least, number};
use super::group::GroupBy;
use super::time;
use crate::json::{is_true, without_mark};
use crate::{PARTS_MAX, REGEX_BYTES_MAX, REGEXES_MAX};

/// The range of times that calendars support, in milliseconds: from the year 0 to 9999. Other times are
/// clamped to it.
const TIME_MIN_MS: i64 = -62_167_219_200_000;
const TIME_MAX_MS: i64 = 253_402_200_000_000;

/// The prefix that marks a tag's value as a regular expression.
const REGEX: &str = "regex:";

/// A query of KairosDB's API, parsed and checked.
#[derive(Debug, Clone)]
pub struct Query {
    /// The start of the query, in milliseconds since the epoch.
    pub start_ms: i64,
    /// The end of the query (inclusive), in milliseconds since the epoch.
    pub end_ms: i64,
    /// The time zone of calendar units.
    pub zone: TimeZone,
    /// Seconds for which an answer may be kept.
    pub cache_time: u64,
    /// The requested metrics, each with its own answer.
    pub metrics: Vec<Metric>,
}

/// One metric of a query.
#[derive(Debug, Clone)]
pub struct Metric {
    /// The name of the metric, as KairosDB writes it.
    pub name: String,
    /// The tags that a series must have, each with the allowed values.
    pub tags: Vec<(String, Vec<TagValue>)>,
    /// Whether the answer leaves the tags out.
    pub exclude_tags: bool,
    /// Maximum number of points of a group, before aggregation. 0 means all.
    pub limit: usize,
    /// Whether points are returned in descending order of time.
    pub descending: bool,
    /// The aggregators for the points of each group, in the order in which they are applied.
    pub aggregators: Vec<Aggregator>,
    /// How series and points are grouped.
    pub group_by: Vec<GroupBy>,
}

/// A value of a tag, or an expression that the value has to match.
#[derive(Debug, Clone)]
pub enum TagValue {
    /// Exactly this value.
    Exact(String),
    /// A regular expression for the whole value.
    Regex(Regex),
}

impl TagValue {
    /// Whether a tag with this value is selected.
    pub fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(exact) => exact == value,
            Self::Regex(regex) => regex.is_match(value),
        }
    }
}

impl Query {
    /// Reads a query. Relative times count from `now_ms`.
    ///
    /// # Errors
    /// The error lists everything that is wrong with it.
    pub fn parse(body: &[u8], now_ms: i64) -> Result<Self, Vec<String>> {
        let query: Map<String, Value> = serde_json::from_slice(without_mark(body))
            .map_err(|error| vec![format!("the query is not JSON: {error}")])?;
        Self::of(&query, now_ms).map_err(|text| vec![text])
    }

    fn of(query: &Map<String, Value>, now_ms: i64) -> Result<Self, String> {
        let zone = match query.get("time_zone") {
            None | Some(Value::Null) => TimeZone::UTC,
            Some(zone) => {
                let name = zone.as_str().unwrap_or("?");
                time::zone(name).ok_or_else(|| format!("query.{name} is not a valid time zone"))?
            }
        };
        let cache_time = match query.get("cache_time") {
            None | Some(Value::Null) => 0,
            Some(time) => {
                let time = number(time).ok_or("cache_time must be a number")?;
                u64::try_from(time).map_err(|_| "cache_time must be greater than or equal to 0")?
            }
        };
        let Some(Value::Array(metrics)) = query.get("metrics") else {
            return Err("query.metric[] must have a size of at least 1".to_owned());
        };
        // KairosDB answers a query with an empty list of metrics, even if it has no time either.
        let (start_ms, end_ms) = if metrics.is_empty() { (0, 0) } else { times(query, now_ms)? };
        within(metrics.len(), "metrics")?;
        if metrics.iter().map(regexes).sum::<usize>() > REGEXES_MAX {
            return Err(format!("query has more than {REGEXES_MAX} regular expressions."));
        }
        let metric = |(at, metric): (usize, &Value)| {
            Metric::of(metric).map_err(|text| format!("query.metric[{at}].{text}"))
        };
        Ok(Self {
            start_ms,
            end_ms,
            cache_time,
            metrics: metrics.iter().enumerate().map(metric).collect::<Result<_, _>>()?,
            zone,
        })
    }
}

impl Metric {
    /// All series of a metric.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            tags: Vec::new(),
            exclude_tags: false,
            limit: 0,
            descending: false,
            aggregators: Vec::new(),
            group_by: Vec::new(),
        }
    }

    fn of(metric: &Value) -> Result<Self, String> {
        let Value::Object(metric) = metric else { return Err("must be an object.".to_owned()) };
        let name = match metric.get("name") {
            Some(Value::String(name)) if !name.is_empty() => name.clone(),
            // KairosDB reads them as text.
            Some(number @ (Value::Number(_) | Value::Bool(_))) => number.to_string(),
            _ => return Err("name may not be empty".to_owned()),
        };
        let list = |key: &str| -> Result<Vec<&Value>, String> {
            match metric.get(key) {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(Value::Array(list)) => within(list.len(), key).map(|()| list.iter().collect()),
                Some(_) => Err(format!("{key} must be an array.")),
            }
        };
        let limit = match metric.get("limit") {
            None | Some(Value::Null) => 0,
            Some(limit) => {
                // A negative number means no limit, as in KairosDB.
                usize::try_from(number(limit).ok_or("limit is not a number.")?).unwrap_or(0)
            }
        };
        let descending = match metric.get("order") {
            None | Some(Value::Null) => false,
            Some(order) => match order.as_str().map(str::to_ascii_lowercase).as_deref() {
                Some("asc") => false,
                Some("desc") => true,
                _ => return Err("order must be either 'asc' or 'desc'".to_owned()),
            },
        };
        let aggregator = |(at, value): (usize, &Value)| {
            Aggregator::of(value).map_err(|text| format!("aggregators[{at}].{text}"))
        };
        let group = |(at, value): (usize, &Value)| {
            GroupBy::of(value).map_err(|text| format!("group_by[{at}].{text}"))
        };
        Ok(Self {
            name,
            tags: tags(metric.get("tags"))?,
            exclude_tags: metric.get("exclude_tags").and_then(is_true).unwrap_or(false),
            limit,
            descending,
            aggregators: list("aggregators")?
                .into_iter()
                .enumerate()
                .map(aggregator)
                .collect::<Result<_, _>>()?,
            group_by: list("group_by")?.into_iter().enumerate().map(group).collect::<Result<_, _>>()?,
        })
    }
}

fn tags(tags: Option<&Value>) -> Result<Vec<(String, Vec<TagValue>)>, String> {
    let tags = match tags {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Object(tags)) => tags,
        Some(_) => return Err("tags must be an object.".to_owned()),
    };
    within(tags.len(), "tags")?;
    let mut all = Vec::new();
    for (at, (tag, values)) in tags.iter().enumerate() {
        if tag.is_empty() {
            return Err(format!("tags[{at}] name must not be empty"));
        }
        let values: Vec<&Value> = match values {
            Value::Array(values) => values.iter().collect(),
            value => vec![value],
        };
        within(values.len(), "tags")?;
        let value = |value| tag_value(value).map_err(|text| format!("tags[{at}].{tag} {text}"));
        let values = values.into_iter().map(value).collect::<Result<Vec<_>, _>>()?;
        // A list without values selects nothing, as in KairosDB.
        if !values.is_empty() {
            all.push((tag.clone(), values));
        }
    }
    Ok(all)
}

/// Number of regular expressions in the tags of a metric.
fn regexes(metric: &Value) -> usize {
    let is_regex = |value: &Value| value.as_str().is_some_and(|text| text.starts_with(REGEX));
    let tags = metric.get("tags").and_then(Value::as_object).into_iter().flatten();
    tags.map(|(_, values)| match values {
        Value::Array(values) => values.iter().filter(|value| is_regex(value)).count(),
        value => usize::from(is_regex(value)),
    })
    .sum()
}

fn tag_value(value: &Value) -> Result<TagValue, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(is) => is.to_string(),
        _ => String::new(),
    };
    if text.is_empty() {
        return Err("value must not be null or empty".to_owned());
    }
    match text.strip_prefix(REGEX) {
        None => Ok(TagValue::Exact(text)),
        Some(regex) => RegexBuilder::new(&format!("^(?:{regex})$"))
            .size_limit(REGEX_BYTES_MAX)
            .build()
            .map(TagValue::Regex)
            .map_err(|_| format!("{regex:?} is not a regular expression, or too large a one")),
    }
}

/// First and last time. If they are wrong, KairosDB's error names the first metric.
fn times(query: &Map<String, Value>, now_ms: i64) -> Result<(i64, i64), String> {
    let start = edge(query, "start", now_ms)?;
    let start = start.ok_or("query.metric[0].start_time relative or absolute time must be set")?;
    let end = edge(query, "end", now_ms)?.unwrap_or(i64::MAX);
    if start > end {
        return Err("query.metric[0].end_time must be greater than the start time".to_owned());
    }
    Ok((start, end))
}

/// The time of an edge: absolute, or relative to now.
fn edge(query: &Map<String, Value>, edge: &str, now_ms: i64) -> Result<Option<i64>, String> {
    match query.get(&format!("{edge}_absolute")) {
        None | Some(Value::Null) => {}
        Some(absolute) => {
            return number(absolute)
                .map(|time| Some(time.clamp(TIME_MIN_MS, TIME_MAX_MS)))
                .ok_or_else(|| format!("query.{edge}_absolute must be a number."));
        }
    }
    match query.get(&format!("{edge}_relative")) {
        None | Some(Value::Null) => Ok(None),
        Some(relative) => {
            let duration = at_least(0, relative).map_err(|text| format!("{edge}_relative.{text}"))?;
            let beyond = || format!("{edge}_relative is outside of the calendar");
            duration.before(now_ms).map(Some).ok_or_else(beyond)
        }
    }
}

fn within(count: usize, what: &str) -> Result<(), String> {
    if count > PARTS_MAX { Err(format!("{what}: more than {PARTS_MAX}.")) } else { Ok(()) }
}
