//! Makes the answer of a query from the points of the series.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use serde_json::{Value, json};

use super::aggregate::{Aggregator, Amount, Sample, Span};
use super::group::{GroupBy, Key};
use super::query::{Metric, Query};
use crate::json::write_number;
use crate::names;

/// Maximum number of steps for a metric. A step is one point in one aggregator, grouping or bin. This many
/// steps take some seconds.
const STEPS_MAX: u64 = 1_000_000_000;

/// The points of one series that were read for a query, in ascending order of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The name of the series, in Graphite's form.
    pub name: String,
    /// Milliseconds and values. A slot of a coarse stage is one entry.
    pub points: Vec<(i64, Amount)>,
}

/// The limits of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    /// The number of points that aggregators may add.
    pub points: usize,
    /// The number of series in all groups. A series counts once for each group that it is in.
    pub groups: usize,
}

/// The answer for one metric of a query, as JSON.
///
/// # Errors
/// If an aggregator cannot be applied to these points.
pub fn metric(
    query: &Query,
    metric: &Metric,
    mut columns: Vec<Column>,
    now_ms: i64,
    most: Most,
) -> Result<String, String> {
    // KairosDB applies the limit to each series when it reads it, and later to each group.
    columns.iter_mut().for_each(|column| cut(&mut column.points, metric));
    let points = columns.iter().flat_map(|column| &column.points);
    let sample_size: u64 = points.map(|(_, one)| u64::from(one.count)).sum();
    let entries: usize = columns.iter().map(|column| column.points.len()).sum();
    check_work(metric, entries)?;
    let span = Span {
        start_ms: query.start_ms,
        end_ms: query.end_ms.min(now_ms),
        zone: &query.zone,
        points_max: most.points,
    };
    let mut out = format!("{{\"sample_size\":{sample_size},\"results\":[");
    let groups = groups(metric, columns, query.start_ms, most.groups)?;
    if groups.is_empty() && !metric.group_by.iter().any(|group| !group.is_of_series()) {
        nothing(metric, span, &mut out)?;
    }
    for (at, group) in groups.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        group.result(metric, span, &mut out)?;
    }
    out.push_str("]}");
    Ok(out)
}

/// Refuses a query that would keep a thread busy for minutes.
fn check_work(metric: &Metric, points: usize) -> Result<(), String> {
    let groupings = metric.group_by.iter().map(GroupBy::cost).sum::<u64>();
    let each = groupings.saturating_add(metric.aggregators.len() as u64);
    if each.saturating_mul(points as u64) > STEPS_MAX {
        return Err(format!(
            "{points} points are too many for this number of aggregators, groupings and bins"
        ));
    }
    Ok(())
}

/// Keeps the first points, in the order of the query, up to the limit.
fn cut<P>(points: &mut Vec<P>, metric: &Metric) {
    if metric.limit == 0 || points.len() <= metric.limit {
        return;
    }
    if metric.descending {
        points.drain(..points.len() - metric.limit);
    } else {
        points.truncate(metric.limit);
    }
}

/// The answer of `query/tags` for one metric: which values its tags have in these series.
pub fn tags(metric: &Metric, names: &[String]) -> String {
    let mut tags = Tags::new();
    names.iter().for_each(|name| collect(name, &mut tags));
    json!({"results": [{"name": metric.name, "tags": tags, "values": []}]}).to_string()
}

/// The answer to a whole query, from those of its metrics.
pub fn whole(metrics: &[String]) -> String {
    format!("{{\"queries\":[{}]}}", metrics.join(","))
}

/// The answer if nothing was found. It has no groups, but `gaps` makes points.
fn nothing(metric: &Metric, span: Span<'_>, out: &mut String) -> Result<(), String> {
    let group = Group { keys: Vec::new(), tags: "{}".into(), points: Vec::new() };
    out.push_str(&format!("{{\"name\":{},", json!(metric.name)));
    group.values(metric, span, out)
}

type Tags = BTreeMap<String, BTreeSet<String>>;

fn collect(name: &str, tags: &mut Tags) {
    for (tag, value) in names::series(name).tags {
        tags.entry(tag).or_default().insert(value);
    }
}

/// The series that have the same values of the grouping's tags, merged into one stream.
#[derive(Debug, Default)]
struct Stream {
    /// The values of the grouping's tags.
    values: Vec<String>,
    /// The tags of all its series, with their values.
    tags: Tags,
    series: usize,
    points: Vec<(i64, Amount)>,
}

/// Points that are aggregated together.
#[derive(Debug)]
struct Group {
    /// The key in each grouping of the metric, in the order of the query.
    keys: Vec<Key>,
    /// The tags of its stream, as JSON.
    tags: Rc<str>,
    points: Vec<(i64, Amount)>,
}

/// The groups of a metric, in KairosDB's order: by the values of the tags, then by first appearance.
fn groups(metric: &Metric, columns: Vec<Column>, start_ms: i64, most: usize) -> Result<Vec<Group>, String> {
    let by_point = metric.group_by.iter().any(|group| !group.is_of_series());
    let mut all = Vec::new();
    let mut counted = 0;
    for mut stream in streams(metric, columns).into_values() {
        // Points of the same time are ordered by their values.
        stream.points.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.value.total_cmp(&b.1.value)));
        let tags: Rc<str> = json!(stream.tags).to_string().into();
        let mut keys: Vec<Key> = metric.group_by.iter().map(|_| Key::Number(0)).collect();
        for (key, _) in keys.iter_mut().zip(&metric.group_by).filter(|(_, group)| group.is_of_series()) {
            *key = Key::Tags(stream.values.clone());
        }
        if !by_point {
            all.push(Group { keys, tags, points: stream.points });
            continue;
        }
        if metric.descending {
            stream.points.reverse();
        }
        let first = all.len();
        let mut places: HashMap<Vec<Key>, usize> = HashMap::new();
        for (ms, amount) in stream.points {
            for (key, group) in
                keys.iter_mut().zip(&metric.group_by).filter(|(_, group)| !group.is_of_series())
            {
                *key = group.key(ms, amount.value, start_ms);
            }
            let at = match places.get(&keys) {
                Some(at) => *at,
                None => {
                    // Each group is returned with the tags of all series in its stream.
                    counted += stream.series;
                    if counted > most {
                        return Err(format!("group_by makes more than {most} groups (api.limits.series)"));
                    }
                    all.push(Group { keys: keys.clone(), tags: Rc::clone(&tags), points: Vec::new() });
                    places.insert(keys.clone(), all.len() - 1);
                    all.len() - 1
                }
            };
            all[at].points.push((ms, amount));
        }
        if metric.descending {
            all[first..].iter_mut().for_each(|group| group.points.reverse());
        }
    }
    Ok(all)
}

/// The streams of a metric, ordered as KairosDB orders them: by the names and values of their tags, joined
/// into one text. KairosDB merges groups whose texts are equal, such as `a`=`bc` and `ab`=`c`. Here the
/// values in the key keep them apart.
fn streams(metric: &Metric, columns: Vec<Column>) -> BTreeMap<(String, Vec<String>), Stream> {
    let grouping = metric.group_by.iter().find_map(|group| match group {
        GroupBy::Tag(tags) => Some(&tags[..]),
        _ => None,
    });
    let mut streams: BTreeMap<(String, Vec<String>), Stream> = BTreeMap::new();
    for column in columns.into_iter().filter(|column| !column.points.is_empty()) {
        let series = names::series(&column.name);
        let (mut key, mut values) = (String::new(), Vec::new());
        for tag in grouping.unwrap_or_default() {
            let value = series.tag(tag).unwrap_or_default();
            key.push_str(tag);
            key.push_str(value);
            values.push(value.to_owned());
        }
        let stream = streams.entry((key, values.clone())).or_default();
        stream.values = values;
        stream.series += 1;
        collect(&column.name, &mut stream.tags);
        stream.points.extend(column.points);
    }
    streams
}

impl Group {
    fn result(self, metric: &Metric, span: Span<'_>, out: &mut String) -> Result<(), String> {
        let (name, group_by) = (json!(metric.name), self.group_by(metric));
        out.push_str(&format!("{{\"name\":{name},\"group_by\":{group_by},"));
        self.values(metric, span, out)
    }

    /// Writes the tags and the aggregated points.
    fn values(self, metric: &Metric, span: Span<'_>, out: &mut String) -> Result<(), String> {
        // Aggregators over ranges need ascending times. The other aggregators use the points in the order of
        // the query.
        let has_ranges = metric.aggregators.iter().any(Aggregator::is_over_ranges);
        let mut points: Vec<Sample> =
            self.points.into_iter().map(|(ms, amount)| (ms, Some(amount))).collect();
        cut(&mut points, metric);
        if metric.descending && !has_ranges {
            points.reverse();
        }
        for aggregator in &metric.aggregators {
            points = aggregator.apply(points, span)?;
        }
        if metric.descending && has_ranges {
            points.reverse();
        }
        if !metric.exclude_tags {
            out.push_str(&format!("\"tags\":{},", self.tags));
        }
        out.push_str("\"values\":[");
        for (at, point) in points.into_iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_point(point, out);
        }
        out.push_str("]}");
        Ok(())
    }

    /// Groupings by tags come after those by values, times and bins, and the type comes last. KairosDB uses
    /// only the first grouping by tags.
    fn group_by(&self, metric: &Metric) -> Value {
        let described = |of_series: bool| {
            let groups = metric.group_by.iter().zip(&self.keys);
            let groups = groups.filter(move |(group, _)| group.is_of_series() == of_series);
            groups.map(|(group, key)| group.describe(key))
        };
        let kind = json!({"name": "type", "type": "number"});
        described(false).chain(described(true).take(1)).chain([kind]).collect()
    }
}

/// Writes a point. Whole numbers are written without a fraction. A value that no JSON number can express is
/// written as null.
fn write_point((ms, value): Sample, out: &mut String) {
    out.push('[');
    out.push_str(itoa::Buffer::new().format(ms));
    out.push(',');
    match value {
        Some(amount) if amount.value.is_finite() => write_number(amount.value, out),
        _ => out.push_str("null"),
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Most = Most { points: 1000, groups: 100 };

    fn ask(query: Value) -> Value {
        let query = Query::parse(query.to_string().as_bytes(), 10_000).unwrap();
        let column = |name: &str, points: &[(i64, f64)]| {
            let points = points.iter().map(|(ms, value)| (*ms, Amount::from(*value)));
            Column { name: name.to_owned(), points: points.collect() }
        };
        let columns = vec![
            column("m;dc=x;host=a", &[(1000, 1.0), (2000, 2.5)]),
            column("m;host=b", &[(1000, 10.0), (3000, 30.0)]),
            column("m;host=c", &[]),
        ];
        let answer = metric(&query, &query.metrics[0], columns, 10_000, MOST).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    #[test]
    fn series_are_one_stream_unless_they_are_grouped() {
        let answer = ask(json!({"start_absolute": 0, "metrics": [{"name": "m"}]}));
        let expected = json!({"sample_size": 4, "results": [{
            "name": "m", "group_by": [{"name": "type", "type": "number"}],
            "tags": {"dc": ["x"], "host": ["a", "b"]},
            "values": [[1000, 1], [1000, 10], [2000, 2.5], [3000, 30]],
        }]});
        assert_eq!(answer, expected);
        let by_tag = json!({"name": "tag", "tags": ["dc"]});
        let answer = ask(
            json!({"start_absolute": 0, "metrics": [{"name": "m", "group_by": [by_tag], "exclude_tags": true}]}),
        );
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        assert_eq!(results[0]["group_by"][0], json!({"name": "tag", "tags": ["dc"], "group": {"dc": ""}}));
        assert_eq!((&results[0]["values"], results[0].get("tags")), (&json!([[1000, 10], [3000, 30]]), None));
        let value = json!({"name": "value", "range_size": 10});
        let answer = ask(json!({"start_absolute": 0, "metrics": [{"name": "m", "group_by": [value]}]}));
        let groups: Vec<_> = answer["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|r| &r["group_by"][0]["group"]["group_number"])
            .collect();
        assert_eq!(groups, [0, 1, 3]);
        // Each result has the tags of all series from which it was computed.
        assert_eq!(answer["results"][2]["tags"], json!({"dc": ["x"], "host": ["a", "b"]}));
    }

    #[test]
    fn slots_of_coarse_stages_count_with_all_their_points() {
        let slot = |value: f64, count: u32| Amount { value, sum: value * f64::from(count), count };
        let of = |aggregators: Value| {
            let query = json!({"start_absolute": 0, "metrics": [{"name": "m", "aggregators": aggregators}]});
            let query = Query::parse(query.to_string().as_bytes(), 0).unwrap();
            let columns = vec![
                Column {
                    name: "m;host=a".to_owned(),
                    points: vec![(0, slot(1.0, 9)), (60_000, slot(5.0, 1))],
                },
                Column { name: "m;host=b".to_owned(), points: vec![(0, slot(8.0, 2))] },
            ];
            let answer = metric(&query, &query.metrics[0], columns, 0, MOST).unwrap();
            let answer: Value = serde_json::from_str(&answer).unwrap();
            assert_eq!(answer["sample_size"], 12);
            answer["results"][0]["values"].clone()
        };
        let day = |name: &str| json!({"name": name, "sampling": {"value": 1, "unit": "days"}});
        assert_eq!(of(json!([])), json!([[0, 1], [0, 8], [60_000, 5]]));
        assert_eq!(of(json!([day("sum")])), json!([[0, 30]]));
        assert_eq!(of(json!([day("avg")])), json!([[0, 2.5]]));
        assert_eq!(of(json!([day("count")])), json!([[0, 12]]));
        assert_eq!(of(json!([day("max")])), json!([[0, 8]]));
        // An aggregator that keeps or changes each point does not change the number of points.
        assert_eq!(of(json!([{"name": "scale", "factor": 2}, day("sum")])), json!([[0, 60]]));
        assert_eq!(of(json!([{"name": "div", "divisor": 2}, day("avg")])), json!([[0, 1.25]]));
        assert_eq!(
            of(json!([{"name": "filter", "filter_op": "gt", "threshold": 7}, day("count")])),
            json!([[0, 10]])
        );
        let score = json!({"name": "score", "thresholds": [{"value": 4}]});
        assert_eq!(of(json!([score, day("sum")])), json!([[0, 3]]));
        // The value of a range counts as one point.
        assert_eq!(of(json!([day("avg"), day("count")])), json!([[0, 1]]));
    }

    #[test]
    fn groups_are_limited() {
        let value = json!({"name": "value", "range_size": 1});
        let query = json!({"start_absolute": 0, "metrics": [{"name": "m", "group_by": [value]}]});
        let query = Query::parse(query.to_string().as_bytes(), 0).unwrap();
        let points = (0..200).map(|at| (at, Amount::from(at as f64))).collect();
        let columns = vec![Column { name: "m;host=a".to_owned(), points }];
        let refused = metric(&query, &query.metrics[0], columns, 0, MOST).unwrap_err();
        assert!(refused.contains("api.limits.series"), "{refused}");
    }

    #[test]
    fn work_is_limited() {
        let bins: Vec<i64> = (0..1000).rev().collect();
        let groups = vec![json!({"name": "bin", "bins": bins}); 1000];
        let query = json!({"start_absolute": 0, "metrics": [{"name": "m", "group_by": groups}]});
        let query = Query::parse(query.to_string().as_bytes(), 0).unwrap();
        let columns = |count: i64| {
            let points = (0..count).map(|at| (at, Amount::from(-1.0))).collect();
            vec![Column { name: "m;host=a".to_owned(), points }]
        };
        let refused = metric(&query, &query.metrics[0], columns(1000), 0, MOST).unwrap_err();
        assert!(refused.contains("too many"), "{refused}");
        metric(&query, &query.metrics[0], columns(10), 0, MOST).unwrap();
        let many = json!({"name": "bin", "bins": (0..1001).collect::<Vec<i64>>()});
        let query = json!({"start_absolute": 0, "metrics": [{"name": "m", "group_by": [many]}]});
        assert!(Query::parse(query.to_string().as_bytes(), 0).is_err());
    }

    #[test]
    fn limits_and_order_come_before_and_after_aggregation() {
        let answer = ask(json!({"start_absolute": 0, "metrics": [{"name": "m", "limit": 2, "order": "desc",
            "aggregators": [{"name": "sum", "sampling": {"value": 1, "unit": "seconds"}}]}]}));
        assert_eq!(answer["results"][0]["values"], json!([[3000, 30], [2000, 2.5]]));
        let query = json!({"start_absolute": 0, "metrics": [{"name": "m"}]});
        let query = Query::parse(query.to_string().as_bytes(), 0).unwrap();
        let none = metric(&query, &query.metrics[0], Vec::new(), 0, MOST).unwrap();
        let none: Value = serde_json::from_str(&none).unwrap();
        assert_eq!(none, json!({"sample_size": 0, "results": [{"name": "m", "tags": {}, "values": []}]}));
    }

    #[test]
    fn wrong_queries_are_refused() {
        let m = json!([{"name": "m"}]);
        for query in [
            json!({}),
            json!({"metrics": m}),
            json!({"start_absolute": 5, "end_absolute": 4, "metrics": m}),
            json!({"start_absolute": 5, "metrics": {}}),
            json!({"start_absolute": 5, "cache_time": -1, "metrics": m}),
            json!({"start_relative": {"value": 1, "unit": "x"}, "metrics": m}),
            json!({"start_absolute": 5, "time_zone": "Nowhere", "metrics": m}),
            json!({"start_absolute": 5, "metrics": [{"name": "m", "tags": {"a": ""}}]}),
            json!({"start_absolute": 5, "metrics": [{"name": "m", "order": "x"}]}),
            json!({"start_absolute": 5, "metrics": [{"name": "m", "group_by": [{"name": "x"}]}]}),
            json!({"start_absolute": 5, "metrics": [{"name": "m", "aggregators": [{"name": "x"}]}]}),
        ] {
            assert!(Query::parse(query.to_string().as_bytes(), 0).is_err(), "{query}");
        }
        let good = json!({"start_relative": {"value": "1", "unit": "HOURS"}, "unknown": 1,
            "metrics": [{"name": "m", "tags": {"a": ["b", "regex:c.*"], "d": 5}}]});
        let query = Query::parse(good.to_string().as_bytes(), 3_600_000).unwrap();
        assert_eq!((query.start_ms, query.end_ms), (0, i64::MAX));
        assert!(query.metrics[0].tags[0].1[1].matches("cd") && !query.metrics[0].tags[0].1[1].matches("xcd"));
    }
}
