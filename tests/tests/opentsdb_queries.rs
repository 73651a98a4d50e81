//! OpenTSDB's queries and lists, from the socket to the answer.

use std::io::Write as _;

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

const NOW: i64 = 1_700_000_000;

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1d,60s:30d\n").clock(NOW);
    setup.set("api.point_writes", "true").set("ingest.opentsdb.listen", "127.0.0.1:0");
    setup
}

fn post(daemon: &Daemon, path: &str, body: &Value) -> (u16, Value) {
    http::post_json(daemon.api(), path, body)
}

fn get(daemon: &Daemon, path: &str) -> (u16, Value) {
    let answer = daemon.get(path);
    (answer.status, serde_json::from_str(&answer.body).unwrap_or(Value::Null))
}

/// Two hosts, and a metric with names that need encoding.
fn fill(daemon: &Daemon) {
    let point = |metric: &str, ago: i64, value: f64, tags: Value| json!({"metric": metric, "timestamp": NOW - ago, "value": value, "tags": tags});
    let a = || json!({"host": "web01", "dc": "x"});
    let b = || json!({"host": "web02"});
    let body = json!([
        point("cpu", 120, 1.0, a()),
        point("cpu", 60, 2.0, a()),
        point("cpu", 0, 3.0, a()),
        point("cpu", 120, 10.0, b()),
        point("cpu", 0, 30.0, b()),
        point("odd name;x", 1, 5.0, json!({"name": "~v"})),
    ]);
    assert_eq!(post(daemon, "/api/put", &body).0, 204);
    let wanted = json!(["web01", "web02"]);
    wait_until("the series to be found", || get(daemon, "/api/suggest?type=tagv&q=web").1 == wanted);
}

fn ask(daemon: &Daemon, sub: Value) -> Vec<Value> {
    let query = json!({"start": NOW - 600, "end": NOW, "queries": [sub]});
    let (status, answer) = post(daemon, "/api/query?arrays", &query);
    assert_eq!(status, 200, "{answer}");
    answer.as_array().unwrap().clone()
}

#[test]
fn queries_are_answered() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let all = ask(&daemon, json!({"metric": "cpu", "aggregator": "sum"}));
    assert_eq!(
        all[0]["dps"],
        json!([[NOW - 120, 11], [NOW - 60, 22], [NOW, 33]]),
        "20 lies between 10 and 30"
    );
    assert_eq!((&all[0]["tags"], &all[0]["aggregateTags"]), (&json!({"dc": "x"}), &json!(["host"])));
    let hosts = ask(&daemon, json!({"metric": "cpu", "aggregator": "max", "tags": {"host": "*"}}));
    assert_eq!((hosts.len(), &hosts[1]["dps"]), (2, &json!([[NOW - 120, 10], [NOW, 30]])));
    let explicit = json!({"metric": "cpu", "aggregator": "none", "explicitTags": true,
        "filters": [{"type": "wildcard", "tagk": "host", "filter": "web*", "groupBy": false}]});
    assert_eq!(ask(&daemon, explicit)[0]["tags"], json!({"host": "web02"}));
    let rate = json!({"metric": "cpu", "aggregator": "sum", "rate": true, "downsample": "1m-avg",
        "filters": [{"type": "iliteral_or", "tagk": "host", "filter": "WEB02|x", "groupBy": true}]});
    let bucket = NOW / 60 * 60;
    assert_eq!(ask(&daemon, rate)[0]["dps"], json!([[bucket, 20.0 / 120.0]]));
    let odd = ask(&daemon, json!({"metric": "odd name;x", "aggregator": "last", "tags": {"name": "~v"}}));
    assert_eq!((&odd[0]["tags"], &odd[0]["dps"]), (&json!({"name": "~v"}), &json!([[NOW - 1, 5]])));
    assert_eq!(
        ask(
            &daemon,
            json!({"metric": "cpu", "aggregator": "sum", "tags": {"host": "web01", "dc": "regexp(y)"}})
        ),
        Vec::<Value>::new()
    );

    // The same query as a query string, with times in milliseconds, and with the query in the answer.
    let path = format!(
        "/api/query?start=10m-ago&ms&show_query&m=sum:1m-sum-zero:cpu{}&m=count:cpu",
        http::encode("{host=literal_or(web01)}")
    );
    let (status, answer) = get(&daemon, &path);
    assert_eq!((status, answer.as_array().unwrap().len()), (200, 2), "{answer}");
    assert_eq!(answer[0]["dps"][(bucket * 1000).to_string()], 3);
    assert_eq!((&answer[0]["query"]["index"], &answer[1]["query"]["index"]), (&json!(0), &json!(1)));
    let on_4242 = http::get(daemon.address("opentsdb tcp"), "/api/query?start=10m-ago&m=sum:cpu");
    assert_eq!(on_4242.status, 200, "{}", on_4242.body);
    daemon.stop_well();
}

#[test]
fn lists_are_answered() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let suggest = |rest: &str| get(&daemon, &format!("/api/suggest?{rest}"));
    assert_eq!(suggest("type=metrics&q=c"), (200, json!(["cpu"])));
    assert_eq!(suggest("type=metrics&q=odd%20n"), (200, json!(["odd name;x"])));
    assert_eq!(suggest("type=tagk"), (200, json!(["dc", "host", "name"])));
    assert_eq!(suggest("type=tagv&q=web&max=1"), (200, json!(["web01"])));
    assert_eq!(suggest("type=tagv&q=web&max=-1"), (200, json!(["web01", "web02"])));
    assert_eq!(
        post(&daemon, "/api/suggest", &json!({"type": "tagv", "q": "~", "max": 5})),
        (200, json!(["~v"]))
    );
    for wrong in ["", "type=x", "type=tagk&max=x"] {
        let (status, answer) = suggest(wrong);
        assert!(status == 400 && answer["error"]["message"].is_string(), "{wrong}: {answer}");
    }
    let (_, aggregators) = get(&daemon, "/api/aggregators");
    assert!(aggregators.as_array().unwrap().contains(&json!("mimmax")));
    let (_, filters) = get(&daemon, "/api/config/filters");
    assert!(filters["iwildcard"]["description"].is_string());
    assert_eq!(get(&daemon, "/api/version").1["version"], "2.4.1");
    let lookup =
        |m: &str, rest: &str| get(&daemon, &format!("/api/search/lookup?m={}{rest}", http::encode(m)));
    let (status, found) = lookup("cpu{host=*}", "&limit=1");
    assert_eq!(
        (status, &found["type"], found["results"].as_array().unwrap().len()),
        (200, &json!("LOOKUP"), 1)
    );
    assert_eq!(found["results"][0]["tags"], json!({"dc": "x", "host": "web01"}));
    assert_eq!(lookup("{host=web02}", "").1["results"][0]["metric"], "cpu");
    assert_eq!(lookup("{host=*}", "").1["totalResults"], 2);
    assert_eq!((lookup("none", "").0, lookup("", "").0), (404, 400));
    daemon.stop_well();
}

/// Bodies of queries may be gzip too.
#[test]
fn compressed_queries_are_answered() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let gzip = |body: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(body).unwrap();
        encoder.finish().unwrap()
    };
    let send = |path: &str, body: &[u8]| {
        let answer = http::post_bytes(daemon.api(), path, "Content-Encoding: gzip\r\n", body);
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap_or(Value::Null))
    };
    let query =
        json!({"start": NOW - 600, "end": NOW, "queries": [{"metric": "cpu", "aggregator": "count"}]});
    let packed = gzip(query.to_string().as_bytes());
    assert_eq!(send("/api/query", &packed), post(&daemon, "/api/query", &query));
    assert_eq!(send("/api/suggest", &gzip(br#"{"type":"metrics","q":"c"}"#)), (200, json!(["cpu"])));
    assert_eq!(send("/api/search/lookup", &gzip(br#"{"metric":"cpu"}"#)).1["totalResults"], 2);
    assert_eq!(send("/api/query", &packed[..packed.len() - 5]).0, 400);
    assert_eq!(send("/api/query", &gzip(&vec![b' '; 64 << 20])).0, 413);
    daemon.stop_well();
}

#[test]
fn unknown_names_and_hostile_queries_are_refused() {
    let setup = setup();
    let daemon = setup.start();
    fill(&daemon);
    let message = |sub: Value| {
        let query = json!({"start": NOW - 600, "queries": [sub]});
        let (status, answer) = post(&daemon, "/api/query", &query);
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(400)), "{answer}");
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    let sub = |extra: Value| {
        let mut sub = json!({"metric": "cpu", "aggregator": "sum"});
        sub.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        sub
    };
    assert_eq!(message(sub(json!({"metric": "x"}))), "No such name for 'metrics': 'x'");
    assert_eq!(message(sub(json!({"tags": {"rack": "*"}}))), "No such name for 'tagk': 'rack'");
    assert_eq!(message(sub(json!({"tags": {"host": "web01|web99"}}))), "No such name for 'tagv': 'web99'");

    let before = daemon.memory("VmHWM");
    let with = |sub: Value| json!({"start": NOW - 6000, "end": NOW, "queries": [sub]}).to_string();
    let regexes: Vec<Value> =
        (0..100).map(|at| json!({"type": "regexp", "tagk": "host", "filter": format!("a{at}")})).collect();
    for body in [
        String::new(),
        "{".repeat(100_000),
        format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)),
        r#"{"start":1e999}"#.to_owned(),
        json!({"start": 5, "end": 5, "queries": [sub(json!({}))]}).to_string(),
        json!({"start": "-1", "queries": [sub(json!({}))]}).to_string(),
        json!({"start": 1, "queries": vec![sub(json!({})); 2000]}).to_string(),
        with(sub(json!({"downsample": "1ms-sum-zero"}))),
        with(sub(json!({"downsample": "9223372036854775807y-sum"}))),
        with(sub(json!({"filters": regexes}))),
        with(sub(json!({"tags": {"host": "regexp(((((a{1000}){1000}){1000}){1000}))"}}))),
        with(sub(json!({"tags": {"host": "regexp(()"}}))),
        with(sub(json!({"aggregator": "mult"}))),
    ] {
        let answer = http::request(daemon.api(), "POST", "/api/query", "", &body);
        let shown: String = body.chars().take(150).collect();
        assert!(matches!(answer.status, 400 | 413), "{shown}: {} {}", answer.status, answer.body);
        assert!(
            answer.body.starts_with("{\"error\":{") && answer.body.len() < 10_000,
            "{shown}: {}",
            answer.body
        );
    }
    let grown = daemon.memory("VmHWM").saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes more");
    assert_eq!(ask(&daemon, sub(json!({}))).len(), 1);
    daemon.stop_well();
}

/// OpenTSDB's API below a prefix, beside Graphite's API.
#[test]
fn a_prefix_is_served() {
    let mut setup = setup();
    setup.set("api.url_prefix", "/graphite");
    let daemon = setup.start();
    assert_eq!(get(&daemon, "/graphite/api/aggregators").0, 200);
    assert_eq!(get(&daemon, "/api/aggregators").0, 404);
    daemon.stop_well();
}
