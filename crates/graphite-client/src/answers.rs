//! Parses the answers of servers: names, series and events. No I/O.

use plumbago_maintenance::graphite::{SourceEvent, SourceSeries};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A node below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// The whole path, without a trailing dot.
    pub(crate) path: String,
    pub(crate) is_metric: bool,
}

/// The names in a JSON list.
pub(crate) fn names(body: &[u8]) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    // Some servers begin each name with a dot.
    for name in &mut names {
        if name.starts_with('.') {
            name.remove(0);
        }
    }
    Ok(names)
}

/// The names in an answer of `/metrics/expand`.
pub(crate) fn expanded(body: &[u8]) -> Result<Vec<String>, String> {
    #[derive(Deserialize)]
    struct Expanded {
        results: Vec<String>,
    }
    let expanded: Expanded = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    Ok(expanded.results)
}

/// The nodes in an answer of `/metrics/find?format=completer`.
pub(crate) fn nodes(body: &[u8]) -> Result<Vec<Node>, String> {
    #[derive(Deserialize)]
    struct Found {
        metrics: Vec<Listed>,
    }
    #[derive(Deserialize)]
    struct Listed {
        #[serde(default)]
        path: String,
        #[serde(default)]
        is_leaf: Value,
    }
    let found: Found = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let is_true = |value: &Value| match value {
        Value::String(text) => text == "1",
        Value::Number(number) => number.as_i64() == Some(1),
        other => other.as_bool() == Some(true),
    };
    let node = |listed: Listed| {
        let path = listed.path.trim_end_matches('.').to_owned();
        let is_metric = is_true(&listed.is_leaf);
        (!path.is_empty()).then_some(Node { path, is_metric })
    };
    Ok(found.metrics.into_iter().filter_map(node).collect())
}

/// The series in an answer of `/render`. The answer may be raw text or JSON. Numbers are read exactly.
pub(crate) fn series(body: &[u8]) -> Result<Vec<SourceSeries>, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?.trim();
    if text.starts_with('[') {
        return json(text);
    }
    text.lines().map(|line| raw(line).ok_or_else(|| format!("not a series: {}", shown(line)))).collect()
}

/// Reads `name,start,end,step|value,None,value`.
fn raw(line: &str) -> Option<SourceSeries> {
    let (head, values) = line.rsplit_once('|')?;
    let mut fields = head.rsplitn(4, ',');
    let step: u32 = fields.next()?.trim().parse().ok().filter(|step| *step > 0)?;
    let _end = fields.next()?;
    let start: i64 = fields.next()?.trim().parse().ok()?;
    let name = fields.next()?.to_owned();
    let mut points = Vec::new();
    if !values.is_empty() {
        for (index, value) in values.split(',').enumerate() {
            let value = value.trim();
            if !value.eq_ignore_ascii_case("none") && !value.is_empty() {
                let value: f64 = value.parse().ok()?;
                points.push((start + i64::from(step) * index as i64, value));
            }
        }
    }
    points.retain(|(_, value)| !value.is_nan());
    Some(SourceSeries { name, step, points })
}

/// Reads `[{"target": name, "datapoints": [[value, time], …]}]`.
fn json(text: &str) -> Result<Vec<SourceSeries>, String> {
    #[derive(Deserialize)]
    struct Listed<'a> {
        target: String,
        // Numbers are kept as text, because they must be exact. A number beyond the largest double is infinite.
        #[serde(borrow)]
        datapoints: Vec<(&'a RawValue, &'a RawValue)>,
    }
    let listed: Vec<Listed<'_>> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let series = |listed: Listed<'_>| -> Result<SourceSeries, String> {
        let mut times = Vec::with_capacity(listed.datapoints.len());
        let mut points = Vec::with_capacity(listed.datapoints.len());
        for (value, time) in listed.datapoints {
            let time: f64 = time.get().parse().map_err(|_| format!("not a time: {}", shown(time.get())))?;
            let time = time as i64;
            times.push(time);
            match value.get() {
                "null" => {}
                number => {
                    let value: f64 =
                        number.parse().map_err(|_| format!("not a number: {}", shown(number)))?;
                    points.push((time, value));
                }
            }
        }
        let step = times.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(0);
        let step = u32::try_from(step).unwrap_or(0);
        Ok(SourceSeries { name: listed.target, step, points })
    };
    listed.into_iter().map(series).collect()
}

/// The events in an answer of `/events/get_data`. Events without a time or a title are skipped.
pub(crate) fn events(body: &[u8]) -> Result<Vec<SourceEvent>, String> {
    let listed: Vec<Value> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    Ok(listed.iter().filter_map(event).collect())
}

fn event(value: &Value) -> Option<SourceEvent> {
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let tags = match &value["tags"] {
        Value::String(text) => words(text),
        Value::Array(tags) => tags.iter().flat_map(|tag| words(&text(tag))).collect(),
        _ => Vec::new(),
    };
    let what = value.get("what").filter(|what| !what.is_null()).map(text)?;
    let when = value["when"].as_f64()? as i64;
    Some(SourceEvent { when, what, data: text(&value["data"]), tags })
}

fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, step: u32, points: &[(i64, f64)]) -> SourceSeries {
        SourceSeries { name: name.to_owned(), step, points: points.to_vec() }
    }

    #[test]
    fn raw_and_json_series() {
        let text = "a.b,120,240,60|1.5,None\nc;d=e|f,g,0,20,10|0.1,1e-7\nempty,0,0,60|\n";
        let expected = [
            one("a.b", 60, &[(120, 1.5)]),
            one("c;d=e|f,g", 10, &[(0, 0.1), (10, 1e-7)]),
            one("empty", 60, &[]),
        ];
        assert_eq!(series(text.as_bytes()).unwrap(), expected);
        let text = r#"[{"target": "a", "tags": {"name": "a"}, "datapoints": [[null, 60], [0.30000000000000004, 120.0]]},
            {"target": "b", "datapoints": [[1e9999, 60]]}, {"target": "c", "datapoints": []}]"#;
        let expected =
            [one("a", 60, &[(120, 0.1 + 0.2)]), one("b", 0, &[(60, f64::INFINITY)]), one("c", 0, &[])];
        assert_eq!(series(text.as_bytes()).unwrap(), expected);
        assert!(series(b"").unwrap().is_empty());
        for wrong in ["<html>", "a,b|1", "a,0,0,0|1", "a,0,9,1|x", "[{}]", "[{\"target\":1}]"] {
            assert!(series(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_and_nodes() {
        assert_eq!(names(br#"["a.b", ".c"]"#).unwrap(), ["a.b", "c"]);
        assert_eq!(expanded(br#"{"results": ["a"]}"#).unwrap(), ["a"]);
        let body =
            br#"{"metrics": [{"path": "a.", "name": "a", "is_leaf": "0"}, {"path": "b", "is_leaf": "1"},
            {"path": "c", "is_leaf": 1}, {"path": "d", "is_leaf": true}, {"name": "*"}]}"#;
        let found = nodes(body).unwrap();
        let expected = [("a", false), ("b", true), ("c", true), ("d", true)];
        let found: Vec<(&str, bool)> =
            found.iter().map(|node| (node.path.as_str(), node.is_metric)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn events_of_several_versions() {
        let body = br#"[{"when": 10, "what": "a", "data": "x", "tags": ["b", "c"], "id": 1},
            {"when": 11.9, "what": "d", "data": null, "tags": "e f"}, {"what": "no time"}, {"when": 1, "what": ""},
            {"when": 2}]"#;
        let event = |when: i64, what: &str, data: &str, tags: &[&str]| SourceEvent {
            when,
            what: what.to_owned(),
            data: data.to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        };
        let expected =
            [event(10, "a", "x", &["b", "c"]), event(11, "d", "", &["e", "f"]), event(1, "", "", &[])];
        assert_eq!(events(body).unwrap(), expected);
    }
}
