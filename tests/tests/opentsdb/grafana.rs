//! Requests as Grafana's data source for OpenTSDB sends them, with versions 2.3 and 2.4 in its settings: times in
//! milliseconds, and all of its switches.

use serde_json::{Value, json};

use super::generate::DENSE;

/// Paths and bodies of panels.
pub(super) fn panels() -> Vec<(&'static str, Value)> {
    let filter = |kind: &str, tag: &str, text: &str, groups: bool| json!({"type": kind, "tagk": tag, "filter": text, "groupBy": groups});
    let counter = json!({"counter": true, "counterMax": 100_000, "resetValue": 0, "dropResets": false});
    let queries = [
        json!({"metric": "cmp.fast", "aggregator": "sum", "downsample": "1m-avg"}),
        json!({"metric": "cmp.fast", "aggregator": "avg", "downsample": "5m-max-null", "tags": {"host": "*"}}),
        json!({"metric": "cmp.fast", "aggregator": "max", "downsample": "10m-sum-zero",
            "filters": [filter("wildcard", "host", "*", true), filter("literal_or", "dc", "a|b", false)]}),
        json!({"metric": "cmp.counter", "aggregator": "sum", "rate": true, "rateOptions": counter, "downsample": "5m-max"}),
        json!({"metric": "cmp.slow", "aggregator": "none", "explicitTags": true,
            "filters": [filter("regexp", "host", "h[12]", true), filter("not_literal_or", "dc", "c", true)]}),
    ];
    let body = |queries: &[Value], shows: bool| {
        let mut body = json!({
            "start": (DENSE.0 + 600) * 1000, "end": DENSE.1 * 1000, "queries": queries, "msResolution": false,
            "globalAnnotations": true,
        });
        if shows {
            body["showQuery"] = json!(true);
        }
        body
    };
    let mut panels = Vec::new();
    for query in &queries {
        panels.push(("/api/query", body(std::slice::from_ref(query), true)));
        panels.push(("/api/query?arrays=true", body(std::slice::from_ref(query), false)));
    }
    // One request contains all queries of a panel.
    panels.push(("/api/query", body(&queries[..4], false)));
    panels
}

/// The requests of its editor and of variables. Lookups are left out, because an OpenTSDB without meta data finds
/// nothing.
pub(super) const LISTS: [&str; 5] = [
    "/api/suggest?type=metrics&q=cmp.&max=1000",
    "/api/suggest?type=metrics&q=cmp.f&max=1000",
    "/api/suggest?type=metrics&q=cmp.&max=2",
    "/api/suggest?type=tagk&q=h&max=1000",
    "/api/suggest?type=tagv&q=web&max=1000",
];
