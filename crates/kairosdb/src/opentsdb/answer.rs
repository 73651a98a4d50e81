//! Makes the answer of a query from the points of the series.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::aggregate::Aggregator;
use super::downsample::{Fill, Points, Range};
use super::merge::merge;
use super::query::{Query, Sub};
use crate::json::{quoted, write_number};
use crate::kairos::Amount;
use crate::names::{self, Series};

/// The points of one series that were read for a query, in ascending order of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The name of the series, in Graphite's form.
    pub name: String,
    /// Milliseconds and values, for the times that [`Query::scan`] returns.
    pub points: Vec<(i64, Amount)>,
}

/// The rest of the limits of an answer; used amounts are subtracted.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    /// The number of buckets that fill policies may still make.
    pub buckets: usize,
    /// The number of values that may still be read when series are aggregated.
    pub steps: u64,
}

/// The results for one sub-query, separated by commas.
///
/// # Errors
/// If the results would exceed a limit.
pub fn results(query: &Query, at: usize, columns: Vec<Column>, most: &mut Most) -> Result<String, String> {
    let sub = &query.subs[at];
    let range = query.range(sub);
    let mut out = String::new();
    for group in groups(sub, columns).into_values() {
        let merged = group.aggregated(sub, range, most)?;
        if !out.is_empty() {
            out.push(',');
        }
        group.write(query, at, &merged, &mut out);
    }
    Ok(out)
}

/// The answer to a whole query, from the results of its sub-queries.
pub fn whole(results: &[String]) -> String {
    let results: Vec<&str> = results.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    format!("[{}]", results.join(","))
}

/// Series that are aggregated together.
#[derive(Debug, Default)]
struct Group {
    all: Vec<(Series, Vec<(i64, Amount)>)>,
}

/// The groups by the values of the grouping tags. Without aggregation, every series is a group.
fn groups(sub: &Sub, columns: Vec<Column>) -> BTreeMap<Vec<String>, Group> {
    let mut all: Vec<(Series, Vec<(i64, Amount)>)> = columns
        .into_iter()
        .filter(|column| !column.points.is_empty())
        .map(|column| (names::series(&column.name), column.points))
        .collect();
    // The order in which values are added. It also determines which series is the first.
    all.sort_by(|(a, _), (b, _)| a.tags.cmp(&b.tags));
    let tags = sub.grouped_by();
    let mut groups = BTreeMap::<Vec<String>, Group>::new();
    for (series, points) in all {
        let key = if sub.aggregator == Aggregator::None {
            series.tags.iter().flat_map(|(tag, value)| [tag.clone(), value.clone()]).collect()
        } else {
            tags.iter().map(|tag| series.tag(tag).unwrap_or_default().to_owned()).collect()
        };
        groups.entry(key).or_default().all.push((series, points));
    }
    groups
}

impl Group {
    fn aggregated(&self, sub: &Sub, range: Range<'_>, most: &mut Most) -> Result<Points, String> {
        let mut series = Vec::with_capacity(self.all.len());
        for (_, points) in &self.all {
            let mut points = match &sub.downsample {
                None => points.iter().map(|(ms, amount)| (*ms, amount.value)).collect(),
                Some(downsample) => downsample.apply(points, range, &mut most.buckets)?,
            };
            if let Some(rate) = &sub.rate {
                points = rate.rates(&points);
            }
            points.retain(|(ms, _)| *ms >= range.scan_start);
            series.push(points);
        }
        merge(&series, sub.aggregator, sub.rate.is_some(), range.scan_end, &mut most.steps)
    }

    fn write(&self, query: &Query, at: usize, points: &[(i64, f64)], out: &mut String) {
        let sub = &query.subs[at];
        let (common, differing) = self.tags();
        let (metric, tags, aggregated) = (quoted(&sub.metric), json!(common), json!(differing));
        out.push_str(&format!("{{\"metric\":{metric},\"tags\":{tags},\"aggregateTags\":{aggregated},"));
        if query.show_query {
            out.push_str(&format!("\"query\":{},", sub.shown(at)));
        }
        out.push_str(if query.arrays { "\"dps\":[" } else { "\"dps\":{" });
        let is_null = sub.downsample.is_some_and(|downsample| downsample.fill == Fill::Null);
        let within = points.iter().filter(|(ms, _)| (query.start_ms..=query.end_ms).contains(ms));
        for (at, (ms, value)) in within.enumerate() {
            if at > 0 {
                out.push(',');
            }
            let time = if query.ms_resolution { *ms } else { ms / 1000 };
            out.push_str(if query.arrays { "[" } else { "\"" });
            out.push_str(itoa::Buffer::new().format(time));
            out.push_str(if query.arrays { "," } else { "\":" });
            write_value(*value, is_null, out);
            out.push_str(if query.arrays { "]" } else { "" });
        }
        out.push_str(if query.arrays { "]}" } else { "}}" });
    }

    /// The tags that have the same value in all series, and the names of the tags with several values. Series
    /// without a tag are ignored for that tag.
    fn tags(&self) -> (BTreeMap<&str, &str>, BTreeSet<&str>) {
        let (mut common, mut differing) = (BTreeMap::new(), BTreeSet::new());
        for (series, _) in &self.all {
            for (tag, value) in &series.tags {
                if *common.entry(tag.as_str()).or_insert(value.as_str()) != value.as_str() {
                    differing.insert(tag.as_str());
                }
            }
        }
        common.retain(|tag, _| !differing.contains(tag));
        (common, differing)
    }
}

/// Writes a value. Whole numbers are written without a fraction. Values that JSON numbers cannot express are
/// written as texts.
fn write_value(value: f64, is_null: bool, out: &mut String) {
    if value.is_finite() {
        write_number(value, out);
    } else if value.is_nan() {
        out.push_str(if is_null { "null" } else { "\"NaN\"" });
    } else {
        out.push_str(if value > 0.0 { "\"Infinity\"" } else { "\"-Infinity\"" });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const START: i64 = 1_500_001_800;

    fn ask(extra: Value, sub: Value, arrays: bool) -> Value {
        let mut query =
            json!({"start": START, "end": START + 120, "queries": [{"metric": "m", "aggregator": "sum"}]});
        query.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        query["queries"][0].as_object_mut().unwrap().extend(sub.as_object().unwrap().clone());
        let mut query = Query::parse(query.to_string().as_bytes(), START * 1000).unwrap();
        query.arrays = arrays;
        let column = |name: &str, points: &[(i64, f64)]| Column {
            name: name.to_owned(),
            points: points.iter().map(|(at, value)| ((START + at) * 1000, Amount::from(*value))).collect(),
        };
        let columns = vec![
            column("m;dc=x;host=b", &[(0, 1.0), (60, 2.0), (120, 4.0)]),
            column("m;host=a", &[(-60, 10.0), (30, 20.0), (180, 50.0)]),
            column("m;host=c", &[]),
        ];
        let mut most = Most { buckets: 1000, steps: 1000 };
        let results = results(&query, 0, columns, &mut most).unwrap();
        serde_json::from_str(&whole(&[results])).unwrap()
    }

    fn dps(points: &[(i64, f64)]) -> Value {
        points
            .iter()
            .map(|(at, value)| ((START + at).to_string(), json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn same(answer: &Value, points: &[(i64, f64)]) {
        let numbers = |value: &Value| -> Vec<(String, f64)> {
            value
                .as_object()
                .unwrap()
                .iter()
                .map(|(time, value)| (time.clone(), value.as_f64().unwrap()))
                .collect()
        };
        assert_eq!(numbers(&answer["dps"]), numbers(&dps(points)), "{answer}");
    }

    #[test]
    fn series_are_aggregated_with_what_lies_between() {
        let answer = ask(json!({}), json!({}), false);
        assert_eq!(answer[0]["tags"], json!({"dc": "x"}));
        assert_eq!(answer[0]["aggregateTags"], json!(["host"]));
        // The values of host a: 20 − 10/3 at the start, later 20 + 6 and 20 + 18.
        let at_start = 1.0 + 10.0 + 60.0 * 10.0 / 90.0;
        same(&answer[0], &[(0, at_start), (30, 21.5), (60, 28.0), (120, 42.0)]);
    }

    #[test]
    fn groups_and_single_series() {
        let answer = ask(json!({}), json!({"tags": {"host": "*"}}), false);
        assert_eq!(
            (&answer[0]["tags"], &answer[1]["tags"]),
            (&json!({"host": "a"}), &json!({"dc": "x", "host": "b"}))
        );
        same(&answer[0], &[(30, 20.0)]);
        let none = ask(json!({"showQuery": true}), json!({"aggregator": "none"}), true);
        assert_eq!(none.as_array().unwrap().len(), 2);
        assert_eq!(none[0]["dps"], json!([[START, 1], [START + 60, 2], [START + 120, 4]]));
        assert_eq!(none[0]["query"]["index"], 0);
        assert_eq!(none[1]["aggregateTags"], json!([]));
    }

    #[test]
    fn filled_buckets_and_milliseconds() {
        let sub = json!({"aggregator": "avg", "downsample": "40s-count-null", "tags": {"host": "a"}});
        let answer = ask(json!({"msResolution": true}), sub, false);
        let ms = |at: i64| ((START + at) * 1000).to_string();
        let wanted = json!({ms(0): 1, ms(40): null, ms(80): null, ms(120): null});
        let host_a = answer.as_array().unwrap().iter().find(|result| result["tags"]["host"] == "a").unwrap();
        assert_eq!(host_a["dps"], wanted);
        let nan = ask(json!({}), json!({"downsample": "40s-sum-nan", "tags": {"host": "*"}}), true);
        assert_eq!(nan[0]["dps"][1], json!([START + 40, "NaN"]));
    }

    #[test]
    fn rates_are_taken_before() {
        let answer = ask(json!({}), json!({"rate": true, "tags": {"host": "*"}}), false);
        same(&answer[1], &[(60, 1.0 / 60.0), (120, 2.0 / 60.0)]);
    }
}
