//! KairosDB's queries, lists and deletions, from the socket to the answer.

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

const NOW: i64 = 1_700_000_000;

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1h,60s:1d\n").clock(NOW);
    setup.set("api.point_writes", "true").set("api.deletes", "true");
    setup
}

fn post(daemon: &Daemon, path: &str, body: &Value) -> (u16, Value) {
    http::post_json(daemon.api(), path, body)
}

/// Waits until a search finds series with exactly these values of tags.
fn wait_values(daemon: &Daemon, values: &[&str]) {
    let wanted = json!({ "results": values });
    let found = || serde_json::from_str::<Value>(&daemon.get("/api/v1/tagvalues").body).unwrap();
    wait_until("the series to be found", || found() == wanted);
}

/// Two cities and a name that needs encoding.
fn fill(daemon: &Daemon) {
    let at = |ago: i64| (NOW - ago) * 1000;
    let body = json!([
        {"name": "temp", "tags": {"city": "A", "unit": "C"}, "datapoints": [[at(120), 1], [at(60), 2.5], [at(0), 3]]},
        {"name": "temp", "tags": {"city": "B|x"}, "datapoints": [[at(120), 10], [at(0), 30]]},
        {"name": "odd name;x", "tags": {"name": "~v"}, "datapoints": [[at(1), 5]]},
    ]);
    assert_eq!(post(daemon, "/api/v1/datapoints", &body).0, 204);
    wait_values(daemon, &["A", "B|x", "C", "~v"]);
}

fn results(daemon: &Daemon, metric: Value) -> Vec<Value> {
    let query = json!({"start_absolute": (NOW - 600) * 1000, "metrics": [metric]});
    let (status, answer) = post(daemon, "/api/v1/datapoints/query", &query);
    assert_eq!(status, 200, "{answer}");
    answer["queries"][0]["results"].as_array().unwrap().clone()
}

#[test]
fn queries_are_answered() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let at = |ago: i64| (NOW - ago) * 1000;
    let all = results(&daemon, json!({"name": "temp"}));
    assert_eq!(all.len(), 1);
    assert_eq!(
        all[0]["values"],
        json!([[at(120), 1], [at(120), 10], [at(60), 2.5], [at(0), 3], [at(0), 30]])
    );
    assert_eq!(all[0]["tags"], json!({"city": ["A", "B|x"], "unit": ["C"]}));
    let one = results(&daemon, json!({"name": "temp", "tags": {"city": ["B|x"]}}));
    assert_eq!(one[0]["values"], json!([[at(120), 10], [at(0), 30]]));
    let two = results(&daemon, json!({"name": "temp", "tags": {"city": ["B|x", "A"]}}));
    assert_eq!(two[0]["values"].as_array().unwrap().len(), 5);
    let regex = results(&daemon, json!({"name": "temp", "tags": {"city": "regex:[AC]"}}));
    assert_eq!(regex[0]["values"].as_array().unwrap().len(), 3);
    let odd = results(&daemon, json!({"name": "odd name;x", "tags": {"name": "~v"}}));
    assert_eq!((&odd[0]["values"], &odd[0]["tags"]), (&json!([[at(1), 5]]), &json!({"name": ["~v"]})));
    let sum = json!({"name": "sum", "sampling": {"value": 1, "unit": "days"}, "align_start_time": true});
    let grouped = results(
        &daemon,
        json!({"name": "temp", "aggregators": [sum], "group_by": [{"name": "tag", "tags": ["city"]}]}),
    );
    let day = NOW / 86_400 * 86_400_000;
    assert_eq!((&grouped[0]["values"], &grouped[1]["values"]), (&json!([[day, 6.5]]), &json!([[day, 40]])));
    assert_eq!(
        results(&daemon, json!({"name": "none"})),
        [json!({"name": "none", "tags": {}, "values": []})]
    );
    let query = json!({"start_absolute": at(600), "metrics": [{"name": "temp", "tags": {"city": "A"}}]});
    let (_, tags) = post(&daemon, "/api/v1/datapoints/query/tags", &query);
    assert_eq!(tags["queries"][0]["results"][0]["tags"], json!({"city": ["A"], "unit": ["C"]}));
    let path = format!("/api/v1/datapoints/query?query={}", http::encode(&query.to_string()));
    assert_eq!(daemon.get(&path).status, 200);
    for bad in
        [json!({}), json!({"start_absolute": 1, "metrics": [{"name": "m", "aggregators": [{"name": "x"}]}]})]
    {
        let (status, answer) = post(&daemon, "/api/v1/datapoints/query", &bad);
        assert!(status == 400 && answer["errors"][0].is_string(), "{bad}: {answer}");
    }
    daemon.stop_well();
}

#[test]
fn hostile_queries_are_refused_and_others_answered() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let start = (NOW - 600) * 1000;
    let with = |metric: Value| json!({"start_absolute": start, "metrics": [metric]}).to_string();
    let many: Vec<String> = (0..2000).map(|at| format!("v{at}")).collect();
    let regexes: Vec<String> = (0..100).map(|at| format!("regex:a{at}")).collect();
    let gaps = json!({"name": "gaps", "sampling": {"value": 1, "unit": "milliseconds"}});
    let years =
        json!({"name": "gaps", "sampling": {"value": 9_223_372_036_854_775_807_i64, "unit": "years"}});
    let before = daemon.memory("VmHWM");
    for body in [
        String::new(),
        "{".repeat(100_000),
        format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!(r#"{{"start_absolute":1,"metrics":{}"#, "[".repeat(100_000)),
        r#"{"start_absolute":1e999,"metrics":[{"name":"temp"}]}"#.to_owned(),
        json!({"start_absolute": "x", "metrics": [{"name": "temp"}]}).to_string(),
        json!({"start_relative": {"value": i64::MAX, "unit": "years"}, "metrics": [{"name": "temp"}]})
            .to_string(),
        json!({"start_relative": {"value": -1, "unit": "years"}, "metrics": [{"name": "temp"}]}).to_string(),
        with(json!({"name": "temp", "tags": {"city": "regex:((((a{1000}){1000}){1000}){1000})"}})),
        with(json!({"name": "temp", "tags": {"city": "regex:(" }})),
        with(json!({"name": "temp", "tags": {"city": regexes}})),
        with(json!({"name": "temp", "tags": {"city": many}})),
        with(json!({"name": "temp", "tags": 5})),
        with(json!({"name": "temp", "aggregators": vec![json!({"name": "diff"}); 2000]})),
        with(
            json!({"name": "temp", "aggregators": [{"name": "sum", "sampling": {"value": 0, "unit": "hours"}}]}),
        ),
        with(json!({"name": "temp", "group_by": [{"name": "value", "range_size": 0}]})),
        json!({"start_absolute": (NOW - 3000) * 1000, "metrics": [{"name": "temp", "aggregators": [gaps]}]})
            .to_string(),
    ] {
        let answer = http::request(daemon.api(), "POST", "/api/v1/datapoints/query", "", &body);
        let shown: String = body.chars().take(150).collect();
        assert!(matches!(answer.status, 400 | 413), "{shown}: {} {}", answer.status, answer.body);
        assert!(
            answer.body.starts_with("{\"errors\":[") && answer.body.len() < 10_000,
            "{shown}: {}",
            answer.body
        );
    }
    // Times far away and long ranges are not errors. They contain no points.
    for body in [
        json!({"start_absolute": i64::MIN, "end_absolute": i64::MAX, "metrics": [{"name": "temp"}]}),
        json!({"start_absolute": start, "metrics": [{"name": "temp", "aggregators": [years], "limit": 1}]}),
        json!({"start_absolute": start, "metrics": [{"name": "x".repeat(100_000)}]}),
    ] {
        let (status, answer) = post(&daemon, "/api/v1/datapoints/query", &body);
        assert_eq!(status, 200, "{answer}");
    }
    let grown = daemon.memory("VmHWM").saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes more");
    assert_eq!(results(&daemon, json!({"name": "temp"}))[0]["values"].as_array().unwrap().len(), 5);
    daemon.stop_well();
}

/// A query from the beginning of time reads the coarsest stage. `xFilesFactor` hides none of its slots.
#[test]
fn queries_from_the_beginning_read_the_coarsest_stage() {
    for factor in ["0", "0.5"] {
        let mut setup = setup();
        setup.aggregation(&format!("[all]\npattern = .*\nxFilesFactor = {factor}\n"));
        let daemon = setup.start();
        fill(&daemon);
        let query = json!({"start_absolute": 1, "metrics": [{"name": "temp", "tags": {"city": "A"}}]});
        let (status, answer) = post(&daemon, "/api/v1/datapoints/query", &query);
        let slot = |ago: i64| (NOW - ago) / 60 * 60_000;
        let wanted = json!([[slot(120), 1], [slot(60), 2.5], [slot(0), 3]]);
        assert_eq!((status, &answer["queries"][0]["results"][0]["values"]), (200, &wanted), "{answer}");
        daemon.stop_well();
    }
}

/// Sums, means and counts over the slots of a coarse stage are those of the points.
#[test]
fn coarse_stages_count_every_point() {
    for method in ["average", "sum"] {
        let mut setup = setup();
        setup
            .aggregation(&format!("[all]\npattern = .*\nxFilesFactor = 0.5\naggregationMethod = {method}\n"));
        let daemon = setup.start();
        // Minutes with ten, one and three points.
        let minute = NOW / 60 * 60 - 600;
        let times = (0..10).chain([60]).chain([121, 122, 123]);
        let points: Vec<Value> = times.map(|at| json!([(minute + at) * 1000, at % 7 + 1])).collect();
        let body = json!([{"name": "many", "tags": {"h": "a"}, "datapoints": points}]);
        assert_eq!(post(&daemon, "/api/v1/datapoints", &body).0, 204);
        wait_values(&daemon, &["a"]);
        let values: Vec<f64> = points.iter().map(|point| point[1].as_f64().unwrap()).collect();
        let (sum, count) = (values.iter().sum::<f64>(), values.len() as f64);
        for (name, wanted) in [("sum", sum), ("count", count), ("avg", sum / count)] {
            let all =
                json!({"name": name, "sampling": {"value": 10, "unit": "years"}, "align_start_time": true});
            let query = json!({"start_absolute": 1, "metrics": [{"name": "many", "aggregators": [all]}]});
            let (status, answer) = post(&daemon, "/api/v1/datapoints/query", &query);
            assert_eq!((status, &answer["queries"][0]["sample_size"]), (200, &json!(14)), "{answer}");
            let values = answer["queries"][0]["results"][0]["values"].as_array().unwrap();
            assert_eq!(values.len(), 1, "{answer}");
            let made = values[0][1].as_f64().unwrap();
            assert!((made - wanted).abs() < 1e-9, "{method} {name}: {made} {wanted}");
        }
        daemon.stop_well();
    }
}

#[test]
fn cache_time_keeps_an_answer() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let ask = |cache_time: i64| {
        let query = json!({"start_absolute": (NOW - 600) * 1000, "cache_time": cache_time, "metrics": [{"name": "temp"}]});
        let (status, answer) = post(&daemon, "/api/v1/datapoints/query", &query);
        assert_eq!(status, 200, "{answer}");
        answer["queries"][0]["sample_size"].as_u64().unwrap()
    };
    assert_eq!((ask(60), ask(0)), (5, 5));
    let more =
        json!({"name": "temp", "tags": {"city": "A", "unit": "C"}, "datapoints": [[(NOW - 10) * 1000, 4]]});
    assert_eq!(post(&daemon, "/api/v1/datapoints", &more).0, 204);
    assert_eq!((ask(60), ask(0)), (5, 6), "the kept answer, and what is there now");
    daemon.set_clock(NOW + 61);
    assert_eq!(ask(60), 6, "the kept answer is too old");
    daemon.stop_well();
}

#[test]
fn lists_versions_and_health() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let list = |path: &str| {
        // Some clients send a body with every request.
        let answer = http::request(daemon.api(), "GET", path, "Content-Type: application/json\r\n", "{}");
        (answer.status, serde_json::from_str(&answer.body).unwrap_or(Value::Null))
    };
    assert_eq!(list("/api/v1/metricnames"), (200, json!({"results": ["odd name;x", "temp"]})));
    assert_eq!(list("/api/v1/metricnames/?prefix=t").1, json!({"results": ["temp"]}));
    assert_eq!(list("/api/v1/tagnames").1, json!({"results": ["city", "name", "unit"]}));
    assert_eq!(list("/api/v1/tagvalues").1, json!({"results": ["A", "B|x", "C", "~v"]}));
    assert!(list("/api/v1/version").1["version"].as_str().unwrap().starts_with("KairosDB"));
    assert_eq!((list("/api/v1/health/status").0, list("/api/v1/health/check").0), (200, 204));
    for path in ["rollups", "features", "metadata/x"] {
        assert_eq!(list(&format!("/api/v1/{path}")).0, 404, "{path}");
    }
    daemon.stop_well();
}

/// A range includes both of its ends. Its points are removed from all stages, and a kill does not bring them
/// back.
#[test]
fn ranges_of_time_are_deleted_for_good() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let at = |ago: i64| (NOW - ago) * 1000;
    let delete = |daemon: &Daemon, start: i64, end: i64, metric: Value| {
        let query = json!({"start_absolute": start, "end_absolute": end, "metrics": [metric]});
        post(daemon, "/api/v1/datapoints/delete", &query).0
    };
    let city_a = || json!({"name": "temp", "tags": {"city": "A"}});
    // There is nothing to delete between two seconds, before 1970 or for an unknown metric.
    assert_eq!(delete(&daemon, at(60) + 1, at(60) + 999, city_a()), 204);
    assert_eq!(delete(&daemon, -5000, -1000, city_a()), 204);
    assert_eq!(delete(&daemon, at(60), at(0), json!({"name": "unknown"})), 204);
    let values = |daemon: &Daemon, start: i64, city: &str| {
        let query = json!({"start_absolute": start, "metrics": [{"name": "temp", "tags": {"city": city}}]});
        let (status, answer) = post(daemon, "/api/v1/datapoints/query", &query);
        assert_eq!(status, 200, "{answer}");
        answer["queries"][0]["results"][0]["values"].clone()
    };
    // A second point in the minute in which one is deleted.
    let more = json!({"name": "temp", "tags": {"city": "A", "unit": "C"}, "datapoints": [[at(59), 4]]});
    assert_eq!(post(&daemon, "/api/v1/datapoints", &more).0, 204);
    assert_eq!(values(&daemon, at(600), "A"), json!([[at(120), 1], [at(60), 2.5], [at(59), 4], [at(0), 3]]));
    assert_eq!(delete(&daemon, at(60), at(60), city_a()), 204);
    let left = |daemon: &Daemon| {
        assert_eq!(values(daemon, at(600), "A"), json!([[at(120), 1], [at(59), 4], [at(0), 3]]));
        assert_eq!(values(daemon, at(600), "B|x"), json!([[at(120), 10], [at(0), 30]]));
        let slot = |ago: i64| (NOW - ago) / 60 * 60_000;
        assert_eq!(values(daemon, 1, "A"), json!([[slot(120), 1], [slot(60), 4], [slot(0), 3]]));
    };
    left(&daemon);
    daemon.kill();
    let daemon = setup.start();
    wait_values(&daemon, &["A", "B|x", "C", "~v"]);
    left(&daemon);
    daemon.stop_well();
}

#[test]
fn metrics_are_deleted_for_good() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let delete = |path: &str| http::request(daemon.api(), "DELETE", path, "", "{}").status;
    assert_eq!((delete("/api/v1/metric/odd%20name%3Bx"), delete("/api/v1/metric/unknown")), (204, 204));
    let whole = json!({"start_absolute": 0, "metrics": [{"name": "temp", "tags": {"city": "A"}}]});
    assert_eq!(post(&daemon, "/api/v1/datapoints/delete", &whole).0, 204);
    let left = |daemon: &Daemon| {
        assert_eq!(results(daemon, json!({"name": "temp"}))[0]["tags"], json!({"city": ["B|x"]}));
        assert_eq!(results(daemon, json!({"name": "odd name;x"}))[0]["values"], json!([]));
    };
    left(&daemon);
    daemon.kill();
    let daemon = setup.start();
    wait_values(&daemon, &["B|x"]);
    left(&daemon);
    daemon.stop_well();
}

/// Twelve years of seconds with a few points: queries from the beginning are answered, a render of all slots is
/// refused, and neither takes memory for the empty slots.
#[test]
fn long_ranges_of_seconds_take_little_memory() {
    const YEAR: i64 = 31_536_000;
    let mut setup = setup();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:12y\n");
    let daemon = setup.start();
    let times = [NOW - 11 * YEAR, NOW - 11 * YEAR + 7, NOW - 5 * YEAR, NOW];
    let cities: Vec<String> = (0..40).map(|number| format!("c{number:02}")).collect();
    let points = times.map(|time| json!([time * 1000, time % 100]));
    let of_city = |city: &String| json!({"name": "temp", "tags": {"city": city}, "datapoints": points});
    let body: Vec<Value> = cities.iter().map(of_city).collect();
    assert_eq!(post(&daemon, "/api/v1/datapoints", &json!(body)).0, 204);
    wait_values(&daemon, &cities.iter().map(String::as_str).collect::<Vec<_>>());
    let sum = json!({"name": "sum", "sampling": {"value": 1, "unit": "seconds"}});
    for is_stored in [false, true] {
        if is_stored {
            daemon.flush();
        }
        let query = json!({"start_absolute": 0, "metrics": [{"name": "temp", "aggregators": [sum]}]});
        let (status, answer) = post(&daemon, "/api/v1/datapoints/query", &query);
        assert_eq!(status, 200, "{answer}");
        let wanted = times.map(|time| json!([time * 1000, time % 100 * 40]));
        assert_eq!(answer["queries"][0]["results"][0]["values"], json!(wanted));
        let query = json!({"start": 0, "queries": [{"metric": "temp", "aggregator": "zimsum"}]});
        let (status, answer) = post(&daemon, "/api/query?arrays", &query);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer[0]["dps"], json!(times.map(|time| json!([time, time % 100 * 40]))));
        let refused = daemon.get("/render?target=seriesByTag('name=temp')&from=0&format=json");
        assert_eq!(refused.status, 413, "{}", refused.body);
        assert!(refused.body.contains("api.limits.points"), "{}", refused.body);
    }
    let peak = daemon.memory("VmHWM");
    assert!(peak < 500 << 20, "{peak} bytes");
}
