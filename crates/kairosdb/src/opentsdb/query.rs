//! A query: times, and the computations on the points of each of its metrics.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};

use super::aggregate::Aggregator;
use super::body::Body;
use super::downsample::{Downsample, Range};
use super::filter::Filter;
use super::get;
use super::parts::{Parts, SubParts, within};
use super::rate::RateOptions;
use super::time::time;
use crate::REGEXES_MAX;
use crate::json::is_true;
use crate::names::Series;

/// The period that OpenTSDB keeps in one row, in seconds. It reads whole rows, so points in the same hour
/// before and after the query are used for rates and for interpolation.
const ROW: i64 = 3600;

/// A query of OpenTSDB's API, parsed and checked.
#[derive(Debug, Clone)]
pub struct Query {
    /// The start of the query, in milliseconds since the epoch.
    pub start_ms: i64,
    /// The end of the query (inclusive), in milliseconds since the epoch.
    pub end_ms: i64,
    /// Whether times in the answer are in milliseconds.
    pub ms_resolution: bool,
    /// Whether the answer repeats the sub-query with each result.
    pub show_query: bool,
    /// Whether points are written as pairs instead of members of an object.
    pub arrays: bool,
    /// The sub-queries, each with its own results.
    pub subs: Vec<Sub>,
    pub(super) zone: TimeZone,
}

/// One metric of a query.
#[derive(Debug, Clone)]
pub struct Sub {
    /// The name of the metric, without its tags.
    pub metric: String,
    /// How several series are combined.
    pub aggregator: Aggregator,
    /// The filters for tags. A series must match all of them.
    pub filters: Vec<Filter>,
    /// Whether a series may have the tags of the filters only.
    pub explicit_tags: bool,
    /// How points are first folded into buckets of time, if at all.
    pub downsample: Option<Downsample>,
    /// Whether the rate of change is asked for.
    pub rate: Option<RateOptions>,
    /// The texts of the sub-query, for answers that repeat it.
    pub(super) texts: Texts,
}

/// Texts of a sub-query as written in the query.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    pub(super) aggregator: String,
    pub(super) downsample: Option<String>,
    pub(super) rate_options: Option<RateOptions>,
}

impl Query {
    /// Reads the body of a POST. Relative times count from `now_ms`.
    ///
    /// # Errors
    /// The error says what is wrong with it.
    pub fn parse(body: &[u8], now_ms: i64) -> Result<Self, String> {
        let body: Body = serde_json::from_slice(body)
            .map_err(|error| format!("Unable to parse the given JSON: {error}"))?;
        Self::of(body_parts(&body)?, now_ms)
    }

    /// Reads the names and values of a query string. Relative times count from `now_ms`.
    ///
    /// # Errors
    /// The error says what is wrong with them.
    pub fn parse_pairs<'a>(
        pairs: impl Iterator<Item = (&'a str, &'a str)>,
        now_ms: i64,
    ) -> Result<Self, String> {
        Self::of(get::parts(pairs)?, now_ms)
    }

    fn of(parts: Parts, now_ms: i64) -> Result<Self, String> {
        let zone = match parts.zone.as_str() {
            "" => TimeZone::UTC,
            name => TimeZone::get(name).map_err(|_| format!("Invalid timezone name: {name}"))?,
        };
        if parts.start.is_empty() {
            return Err("Missing start time".to_owned());
        }
        let start_ms = time(&parts.start, &zone, now_ms)?;
        let end_ms = if parts.end.is_empty() { now_ms } else { time(&parts.end, &zone, now_ms)? };
        if end_ms <= start_ms {
            return Err(format!("End time [{end_ms}] must be greater than the start time [{start_ms}]"));
        }
        if parts.subs.is_empty() {
            return Err("Missing queries".to_owned());
        }
        within(parts.subs.len(), "queries")?;
        let regexes = parts.subs.iter().flat_map(|sub| &sub.filters).filter(|filter| filter.is_regex());
        if regexes.count() > REGEXES_MAX {
            return Err(format!("more than {REGEXES_MAX} regular expressions"));
        }
        let subs = parts.subs.into_iter().map(|sub| Sub::of(sub, parts.use_calendar));
        let mut subs = subs.collect::<Result<Vec<_>, _>>()?;
        // A sub-query that occurs twice is answered once.
        let mut seen = BTreeSet::new();
        subs.retain(|sub| {
            let kinds: Vec<_> = sub.filters.iter().map(Filter::kind).collect();
            seen.insert(format!("{} {kinds:?}", sub.shown(0)))
        });
        Ok(Self {
            start_ms,
            end_ms,
            ms_resolution: parts.ms_resolution,
            show_query: parts.show_query,
            arrays: false,
            subs,
            zone,
        })
    }

    /// The range of seconds (end exclusive) that has to be read for a sub-query. It consists of whole hours
    /// and buckets.
    pub fn scan(&self, sub: &Sub) -> (i64, i64) {
        let interval = sub.downsample.map_or(0, |downsample| downsample.millis());
        let (mut start, mut end) = (self.start_ms / 1000, self.end_ms / 1000 + 1);
        if interval > 0 {
            start -= (start * 1000).rem_euclid(interval) / 1000;
            end += (interval - (end * 1000).rem_euclid(interval)) / 1000;
        } else {
            // The end belongs to the query.
            end += 1;
        }
        ((start - start.rem_euclid(ROW)).max(0), end + (ROW - end.rem_euclid(ROW)) % ROW)
    }

    pub(super) fn range(&self, sub: &Sub) -> Range<'_> {
        let (scan_start, scan_end) = self.scan(sub);
        Range {
            start: self.start_ms,
            end: self.end_ms,
            scan_start: scan_start * 1000,
            scan_end: scan_end.saturating_mul(1000),
            zone: &self.zone,
        }
    }
}

impl Sub {
    fn of(parts: SubParts, use_calendar: bool) -> Result<Self, String> {
        if parts.aggregator.is_empty() {
            return Err("Missing the aggregation function".to_owned());
        }
        let unknown = || format!("No such aggregation function: {}", parts.aggregator);
        let aggregator = Aggregator::named(&parts.aggregator).ok_or_else(unknown)?;
        if parts.metric.is_empty() {
            return Err("Missing the metric".to_owned());
        }
        let text = Some(parts.downsample).filter(|text| !text.is_empty());
        Ok(Self {
            metric: parts.metric,
            aggregator,
            filters: parts.filters,
            explicit_tags: parts.explicit_tags,
            downsample: text.as_deref().map(|text| Downsample::parse(text, use_calendar)).transpose()?,
            rate: parts.rate.then(|| parts.rate_options.unwrap_or_default()),
            texts: Texts { aggregator: parts.aggregator, downsample: text, rate_options: parts.rate_options },
        })
    }

    /// Whether the tags of a series match all filters.
    pub fn selects(&self, series: &Series) -> bool {
        let matches = |filter: &Filter| series.tag(&filter.tag).is_some_and(|value| filter.matches(value));
        let is_named = |(tag, _): &(String, String)| self.filters.iter().any(|filter| filter.tag == *tag);
        let explicit = !self.explicit_tags || self.filters.is_empty();
        (explicit || series.tags.iter().all(is_named)) && self.filters.iter().all(matches)
    }

    /// The tags by whose values series are grouped, sorted.
    pub(super) fn grouped_by(&self) -> Vec<&str> {
        let mut tags: Vec<&str> =
            self.filters.iter().filter(|filter| filter.group_by).map(|filter| &*filter.tag).collect();
        tags.sort_unstable();
        tags.dedup();
        tags
    }

    /// The sub-query with its number, as an answer shows it.
    pub(super) fn shown(&self, index: usize) -> Value {
        let filter = |filter: &Filter| json!({"tagk": filter.tag, "filter": filter.text, "group_by": filter.group_by, "type": filter.shown_kind()});
        let grouped = self.filters.iter().filter(|filter| filter.group_by);
        let tags: Map<String, Value> = grouped
            .map(|filter| (filter.tag.clone(), json!(format!("{}({})", filter.shown_kind(), filter.text))))
            .collect();
        let options = self.texts.rate_options.map(|rate| {
            json!({"counter": rate.counter, "counterMax": rate.counter_max, "resetValue": rate.reset_value,
                "dropResets": rate.drop_resets})
        });
        json!({
            "aggregator": self.texts.aggregator,
            "metric": self.metric,
            "tsuids": null,
            "downsample": self.texts.downsample,
            "rate": self.rate.is_some(),
            "filters": self.filters.iter().map(filter).collect::<Vec<_>>(),
            "rateOptions": options,
            "explicitTags": self.explicit_tags,
            "tags": tags,
            "index": index,
        })
    }
}

fn body_parts(body: &Body) -> Result<Parts, String> {
    let query = &body.members;
    if flag(query.get("delete")) {
        return Err("nothing is deleted by a query".to_owned());
    }
    within(body.subs.len(), "queries")?;
    let subs = body.subs.iter().map(|sub| sub_parts(&sub.0)).collect::<Result<_, _>>()?;
    Ok(Parts {
        start: text(query.get("start")),
        end: text(query.get("end")),
        zone: text(query.get("timezone")),
        use_calendar: flag(query.get("useCalendar")),
        ms_resolution: flag(query.get("msResolution")),
        show_query: flag(query.get("showQuery")),
        subs,
    })
}

fn sub_parts(sub: &Map<String, Value>) -> Result<SubParts, String> {
    let is_list = |key: &str| matches!(sub.get(key), Some(Value::Array(list)) if !list.is_empty());
    if is_list("tsuids") {
        return Err("tsuids are not supported; name the metric and its tags".to_owned());
    }
    if is_list("percentiles") || flag(sub.get("showHistogramBuckets")) {
        return Err("histograms are not kept here".to_owned());
    }
    let rate_options = match sub.get("rateOptions") {
        None | Some(Value::Null) => None,
        Some(options @ Value::Object(_)) => Some(rate_options(options)?),
        Some(_) => return Err("rateOptions must be an object".to_owned()),
    };
    Ok(SubParts {
        metric: text(sub.get("metric")),
        aggregator: text(sub.get("aggregator")),
        filters: filters(sub)?,
        explicit_tags: flag(sub.get("explicitTags")),
        downsample: text(sub.get("downsample")),
        rate: flag(sub.get("rate")),
        rate_options,
    })
}

/// The filters of the only list, `tags` or `filters`.
fn filters(sub: &Map<String, Value>) -> Result<Vec<Filter>, String> {
    let mut filters = Vec::new();
    match sub.get("filters") {
        None | Some(Value::Null) => {}
        Some(Value::Array(list)) => {
            within(list.len(), "filters")?;
            for filter in list {
                let field = |key: &str| text(filter.get(key));
                let group_by = flag(filter.get("groupBy")) || flag(filter.get("group_by"));
                filters.push(Filter::new(&field("type"), &field("tagk"), &field("filter"), group_by)?);
            }
        }
        Some(_) => return Err("filters must be an array".to_owned()),
    }
    match sub.get("tags") {
        None => {}
        Some(Value::Object(tags)) => {
            within(tags.len(), "tags")?;
            for (tag, value) in tags {
                filters.push(Filter::short(tag, &text(Some(value)), true)?);
            }
        }
        Some(_) => return Err("tags must be an object".to_owned()),
    }
    Ok(filters)
}

fn rate_options(options: &Value) -> Result<RateOptions, String> {
    let number = |key: &str, default: i64| match text(options.get(key)).as_str() {
        "" => Ok(default),
        text => whole(text).ok_or_else(|| format!("rateOptions.{key} is not a whole number")),
    };
    Ok(RateOptions {
        counter: flag(options.get("counter")),
        counter_max: number("counterMax", i64::MAX)?,
        reset_value: number("resetValue", 0)?,
        drop_resets: flag(options.get("dropResets")),
    })
}

/// A whole number. Numbers beyond 64 bits become the largest one.
fn whole(text: &str) -> Option<i64> {
    text.parse()
        .ok()
        .or_else(|| text.parse().ok().filter(|real: &f64| real.is_finite()).map(|real| real as i64))
}

/// A text. A number in place of a text is accepted too.
pub(super) fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// Whether a member is true. For OpenTSDB, a whole number other than 0 is true too.
fn flag(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Number(number)) => number.as_i64().is_some_and(|number| number != 0),
        value => value.and_then(is_true).unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: Value) -> Result<Query, String> {
        Query::parse(query.to_string().as_bytes(), 1_700_000_000_000)
    }

    #[test]
    fn bodies_as_grafana_sends_them() {
        let query = parse(json!({
            "start": 1_500_000_000_000_i64, "end": "1500003600", "msResolution": true, "globalAnnotations": true,
            "showQuery": true,
            "queries": [{
                "metric": "m", "aggregator": "sum", "downsample": "1m-avg-null", "explicitTags": true, "rate": true,
                "rateOptions": {"counter": true, "counterMax": 100, "resetValue": "7", "dropResets": false},
                "filters": [
                    {"type": "wildcard", "tagk": "host", "filter": "*", "groupBy": true},
                    {"type": "literal_or", "tagk": "dc", "filter": "a|b", "groupBy": true},
                ],
                "disableDownsampling": false,
            }],
        }))
        .unwrap();
        assert_eq!((query.start_ms, query.end_ms), (1_500_000_000_000, 1_500_003_600_000));
        assert!(query.ms_resolution && query.show_query);
        let sub = &query.subs[0];
        assert_eq!((sub.aggregator, sub.grouped_by()), (Aggregator::Sum, vec!["dc", "host"]));
        let rate = RateOptions { counter: true, counter_max: 100, reset_value: 7, drop_resets: false };
        assert_eq!(sub.rate, Some(rate));
        assert_eq!(sub.shown(3)["index"], 3);
        let series = |name: &str| crate::names::series(name);
        assert!(sub.selects(&series("m;dc=a;host=x")));
        assert!(!sub.selects(&series("m;dc=c;host=x")), "another value");
        assert!(!sub.selects(&series("m;dc=a")), "no host");
        assert!(!sub.selects(&series("m;dc=a;host=x;z=1")), "one more tag");
    }

    #[test]
    fn the_last_list_of_filters_counts() {
        let tags = r#""tags":{"host":"*"}"#;
        let filters = r#""filters":[{"type":"wildcard","tagk":"dc","filter":"*","groupBy":1}]"#;
        let parse = |lists: &str| {
            let body = format!(r#"{{"start":5,"queries":[{{"metric":"m","aggregator":"sum",{lists}}}]}}"#);
            Query::parse(body.as_bytes(), 1_700_000_000_000)
        };
        for (lists, wanted) in [
            (format!("{tags},{filters}"), vec!["dc"]),
            (format!("{filters},{tags}"), vec!["host"]),
            (format!("{tags},{filters},{tags}"), vec!["host"]),
            (format!(r#"{tags},"filters":[]"#), vec![]),
            (format!(r#"{tags},"filters":null"#), vec![]),
            (format!(r#"{filters},"tags":{{}}"#), vec![]),
        ] {
            assert_eq!(parse(&lists).unwrap().subs[0].grouped_by(), wanted, "{lists}");
        }
        assert!(parse(r#""tags":null"#).is_err());
    }

    #[test]
    fn a_sub_query_is_answered_once_and_shown_as_it_was_sent() {
        let sub =
            |rate: Value| json!({"metric": "m", "aggregator": "sum", "rate": rate, "tags": {"host": "web*"}});
        let query =
            parse(json!({"start": 5, "queries": [sub(json!(true)), sub(json!(0)), sub(json!(1))]})).unwrap();
        assert_eq!(query.subs.iter().map(|sub| sub.rate.is_some()).collect::<Vec<_>>(), [true, false]);
        let shown = query.subs[0].shown(0);
        assert_eq!((&shown["rate"], &shown["rateOptions"]), (&json!(true), &Value::Null));
        // OpenTSDB shows the short form like this, although it ignores case.
        assert_eq!(
            (&shown["tags"], &shown["filters"][0]["type"]),
            (&json!({"host": "wildcard(web*)"}), &json!("wildcard"))
        );
    }

    #[test]
    fn whole_hours_and_buckets_are_read() {
        let scan = |start: i64, end: i64, downsample: &str| {
            let sub = json!({"metric": "m", "aggregator": "sum", "downsample": downsample});
            let query = parse(json!({"start": start, "end": end, "queries": [sub]})).unwrap();
            query.scan(&query.subs[0])
        };
        assert_eq!(scan(3601, 7000, ""), (3600, 7200));
        assert_eq!(scan(3600, 7199, ""), (3600, 10_800));
        assert_eq!(scan(7201, 7300, "2h-avg"), (7200, 14_400));
        assert_eq!(scan(90_000, 100_000, "1d-avg"), (86_400, 172_800));
        assert_eq!(scan(5000, 7100, "0all-avg"), (3600, 7200));
    }

    #[test]
    fn wrong_queries_are_refused() {
        let good = || json!({"start": 1, "queries": [{"metric": "m", "aggregator": "sum"}]});
        assert!(parse(good()).is_ok());
        for (path, value) in [
            ("/start", json!(null)),
            ("/start", json!("x")),
            ("/start", json!(1_700_000_000_000_i64)),
            ("/queries", json!([])),
            ("/queries", json!(5)),
            ("/queries/0", json!(5)),
            ("/queries/0/metric", json!("")),
            ("/queries/0/aggregator", json!("x")),
            ("/queries/0/aggregator", json!(null)),
        ] {
            let mut query = good();
            *query.pointer_mut(path).unwrap() = value;
            assert!(parse(query.clone()).is_err(), "{query}");
        }
        for (key, value) in [
            ("downsample", json!("x")),
            ("filters", json!([{"type": "not_key", "tagk": "a", "filter": ""}])),
            ("filters", json!({})),
            ("tags", json!({"a": ""})),
            ("tags", json!([])),
            ("rateOptions", json!({"counterMax": "x"})),
            ("tsuids", json!(["000001"])),
            ("percentiles", json!([99])),
        ] {
            let mut query = good();
            query["queries"][0][key] = value;
            assert!(parse(query.clone()).is_err(), "{query}");
        }
        assert!(Query::parse(b"[]", 0).is_err() && Query::parse(b"", 0).is_err());
        let regexes: Vec<_> =
            (0..65).map(|at| json!({"type": "regexp", "tagk": "a", "filter": at.to_string()})).collect();
        let mut query = good();
        query["queries"][0]["filters"] = json!(regexes);
        assert!(parse(query).unwrap_err().contains("regular"));
    }
}
