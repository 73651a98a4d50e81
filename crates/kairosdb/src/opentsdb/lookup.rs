//! `/api/search/lookup`: which series there are.

use serde_json::{Value, json};

use super::parts::within;
use super::query::text;
use crate::names::{self, Series};

/// How many series are listed if the request does not say.
const LIMIT: usize = 25;

/// The series that a lookup selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookup {
    /// The metric. `None` for any.
    pub metric: Option<String>,
    /// Tags and their values that a series must have; `None` for any.
    pub tags: Vec<(Option<String>, Option<String>)>,
    /// Maximum number of series in the answer.
    pub limit: usize,
}

impl Lookup {
    /// Reads the parameters `m`, as `METRIC{TAG=VALUE,TAG=*}`, and `limit`.
    ///
    /// # Errors
    /// The error says what is wrong with them.
    pub fn parse(m: &str, limit: Option<&str>) -> Result<Self, String> {
        let (metric, tags) = match m.split_once('{') {
            None => (m, ""),
            Some((metric, tags)) => {
                (metric, tags.strip_suffix('}').ok_or_else(|| format!("Missing '}}' at the end of: {m}"))?)
            }
        };
        let mut pairs = Vec::new();
        for pair in tags.split(',').filter(|pair| !pair.is_empty()) {
            let (tag, value) = pair.split_once('=').ok_or_else(|| format!("invalid tag: {pair}"))?;
            pairs.push((any(tag), any(value)));
        }
        let limit = match limit {
            None => LIMIT,
            Some(limit) => limit.parse().map_err(|_| "Unable to convert 'limit' to a valid number")?,
        };
        Self::of(any(metric), pairs, limit)
    }

    /// Reads the body of a POST.
    ///
    /// # Errors
    /// The error says what is wrong with it.
    pub fn parse_body(body: &[u8]) -> Result<Self, String> {
        let body: Value = serde_json::from_slice(body)
            .map_err(|error| format!("Unable to parse the given JSON: {error}"))?;
        let pairs = match body.get("tags") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(tags)) => {
                let pair = |tag: &Value| (any(&text(tag.get("key"))), any(&text(tag.get("value"))));
                tags.iter().map(pair).collect()
            }
            Some(_) => return Err("tags must be an array".to_owned()),
        };
        let limit = match body.get("limit") {
            None | Some(Value::Null) => LIMIT,
            Some(limit) => text(Some(limit)).parse().map_err(|_| "limit is not a number")?,
        };
        Self::of(any(&text(body.get("metric"))), pairs, limit)
    }

    fn of(
        metric: Option<String>,
        tags: Vec<(Option<String>, Option<String>)>,
        limit: usize,
    ) -> Result<Self, String> {
        within(tags.len(), "tags")?;
        if metric.is_none() && tags.iter().all(|pair| *pair == (None, None)) {
            return Err("Missing metric and tags. Please supply at least one value.".to_owned());
        }
        Ok(Self { metric, tags, limit })
    }

    /// Whether the lookup selects a series.
    pub fn selects(&self, series: &Series) -> bool {
        let has = |(tag, value): &(Option<String>, Option<String>)| {
            series.tags.iter().any(|(known, its)| {
                tag.as_ref().is_none_or(|tag| tag == known) && value.as_ref().is_none_or(|value| value == its)
            })
        };
        self.metric.as_ref().is_none_or(|metric| *metric == series.metric) && self.tags.iter().all(has)
    }

    /// The answer, with the names that were found.
    pub fn answer(&self, found: &[String], took_ms: i64) -> String {
        let series = |name: &String| {
            let series = names::series(name);
            let tags: serde_json::Map<String, Value> =
                series.tags.into_iter().map(|(tag, value)| (tag, Value::String(value))).collect();
            json!({"tsuid": name, "metric": series.metric, "tags": tags})
        };
        let results: Vec<Value> = found.iter().take(self.limit).map(series).collect();
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "*".to_owned());
        let tags = self.tags.iter().map(|(tag, value)| json!({"key": text(tag), "value": text(value)}));
        json!({
            "type": "LOOKUP",
            "metric": self.metric.as_deref().unwrap_or("*"),
            "tags": tags.collect::<Vec<_>>(),
            "limit": self.limit,
            "time": took_ms,
            "totalResults": results.len(),
            "results": results,
            "startIndex": 0,
        })
        .to_string()
    }
}

/// A text; `None` if the text means any.
fn any(text: &str) -> Option<String> {
    Some(text).filter(|text| !text.is_empty() && *text != "*").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_looked_up() {
        let selects = |m: &str, name: &str| Lookup::parse(m, None).unwrap().selects(&names::series(name));
        assert!(selects("m", "m;host=a") && !selects("m", "n;host=a"));
        assert!(selects("m{host=*}", "m;host=a") && !selects("m{host=*}", "m;dc=a"));
        assert!(selects("m{host=a,dc=*}", "m;dc=x;host=a") && !selects("m{host=b}", "m;host=a"));
        assert!(selects("{host=a}", "n;host=a") && selects("m{*=a}", "m;x=a"));
        for wrong in ["", "*", "{}", "{*=*}", "m{a", "m{a}"] {
            assert!(Lookup::parse(wrong, None).is_err(), "{wrong}");
        }
        let body = br#"{"metric":"m","tags":[{"key":"host","value":"*"}],"limit":1,"useMeta":false}"#;
        let lookup = Lookup::parse_body(body).unwrap();
        assert_eq!(Lookup::parse("m{host=*}", Some("1")), Ok(lookup.clone()));
        let answer = lookup.answer(&["m;host=a".to_owned(), "m;host=b".to_owned()], 3);
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["results"], json!([{"tsuid": "m;host=a", "metric": "m", "tags": {"host": "a"}}]));
        assert_eq!((&answer["type"], &answer["totalResults"]), (&json!("LOOKUP"), &json!(1)));
    }
}
