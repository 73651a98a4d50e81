//! Requests as Grafana's plug-in for KairosDB 3.0.2 (`grafana/kairosdb-datasource`) sends them. All values
//! from its editor are texts, even numbers. Units are in upper case, empty tags are left out, and the limit
//! is 0.

use serde_json::{Value, json};

use super::points;
use super::queries::Query;

/// Queries of panels.
pub(super) fn panels() -> Vec<Query> {
    let start = points::FINE_START;
    let panel = |metric: &str, tags: Value, aggregators: Value, group_by: Value| {
        let metric = json!({"limit": 0, "name": metric, "tags": tags, "aggregators": aggregators, "group_by": group_by});
        let body = json!({
            "cache_time": 0, "start_absolute": start * 1000, "end_absolute": (start + points::FINE_LENGTH) * 1000,
            "metrics": [metric],
        });
        Query { body, is_relative: false, is_fitted: false, has_descending_ranges: false, is_coarse: false }
    };
    let every = |value: &str, unit: &str| json!({"value": value, "unit": unit});
    let by_tags = json!({"name": "tag", "tags": ["host", "dc"]});
    vec![
        panel("fine", json!({}), json!([]), json!([])),
        panel("fine", json!({"host": ["a", "b"]}), json!([]), json!([by_tags])),
        panel(
            "fine",
            json!({"dc": ["x"]}),
            json!([{"name": "avg", "align_sampling": true, "sampling": every("5", "MINUTES")}]),
            json!([by_tags]),
        ),
        panel(
            "fine",
            json!({}),
            json!([{"name": "sum", "align_start_time": true, "sampling": every("90000", "MILLISECONDS")}]),
            json!([]),
        ),
        panel(
            "fine",
            json!({}),
            json!([
                {"name": "percentile", "sampling": every("1", "HOURS"), "percentile": "0.95"},
                {"name": "scale", "factor": "2.5"},
            ]),
            json!([{"name": "time", "group_count": "3", "range_size": every("1", "HOURS")}]),
        ),
        panel(
            "fine",
            json!({"host": ["a"]}),
            json!([{"name": "rate", "unit": "SECONDS"}, {"name": "sma", "size": "3"}]),
            json!([by_tags, {"name": "value", "range_size": "100"}]),
        ),
        panel(
            "fine",
            json!({}),
            json!([{"name": "div", "divisor": "4"}, {"name": "trim", "trim": "both"}]),
            json!([]),
        ),
        panel(
            "fine",
            json!({}),
            json!([{"name": "sampler", "unit": "MINUTES"}, {"name": "diff"}]),
            json!([by_tags]),
        ),
        panel(
            "fine",
            json!({"host": ["none"]}),
            json!([{"name": "max", "sampling": every("1", "DAYS")}]),
            json!([]),
        ),
        panel("no such metric", json!({}), json!([]), json!([])),
    ]
}

/// Queries of its editor and of variables.
pub(super) fn tags() -> Vec<Query> {
    let tags = |metric: &str, tags: Value| {
        let body = json!({"cache_time": 0, "start_absolute": 0, "metrics": [{"name": metric, "tags": tags}]});
        Query { body, is_relative: false, is_fitted: false, has_descending_ranges: false, is_coarse: false }
    };
    vec![
        tags("fine", json!({})),
        tags("fine", json!({"dc": "x"})),
        tags("fine", json!({"dc": ["x", "y"], "host": ["a"]})),
        tags("no such metric", json!({})),
    ]
}
