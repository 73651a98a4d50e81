//! `/render`, over HTTP.

use crate::support::{Made, NOW, default, metrics, start};
use plumbago_api::{Config, Limits};
use plumbago_tests::wait::eventually;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const FIVE: &str = "from=-5min&until=now";

#[tokio::test]
async fn json_is_what_graphite_shows() {
    let server = default().await;
    let answer = server.get(&format!("/render?target=web.a.cpu.user&format=json&{FIVE}")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(
        answer.text(),
        "[{\"target\":\"web.a.cpu.user\",\"tags\":{\"name\":\"web.a.cpu.user\"},\"datapoints\":\
         [[-4.0,1699999860],[-3.0,1699999920],[-2.0,1699999980],[-1.0,1700000040],[0.0,1700000100]]}]"
    );
    let tagged = server.get(&format!("/render?target=cpu%3Bdc%3Da&format=json&{FIVE}")).await;
    assert_eq!(tagged.json()[0]["tags"], json!({"dc": "a", "name": "cpu"}));
}

#[tokio::test]
async fn targets_are_answered_in_their_order_and_sorted_within() {
    let server = default().await;
    let names = async |query: &str| -> Vec<String> {
        let answer = server.get(&format!("/render?format=json&{FIVE}&{query}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        answer.as_array().unwrap().iter().map(|s| s["target"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("target=web.*.cpu.user").await, ["web.a.cpu.user", "web.b.cpu.user"]);
    assert_eq!(names("target=web.{b,a}.cpu.user").await, ["web.a.cpu.user", "web.b.cpu.user"]);
    assert_eq!(
        names("target=web.b.*.*&target=db.*.*&target=web.b.*.user").await,
        ["web.b.cpu.user", "db.x.load", "web.b.cpu.user"]
    );
    assert_eq!(names("target[]=db.x.load&target[]=&target[]=nothing.here").await, ["db.x.load"]);
    assert_eq!(names("target=nothing.*&target=%20").await, Vec::<String>::new());
    assert_eq!(names("").await, Vec::<String>::new());
    assert_eq!(names("target=odd.%C3%BC*").await, ["odd.\u{fc}nic\u{f6}de"]);
    assert_eq!(names("target=template(web.$x.cpu.user,x='a')").await, ["web.a.cpu.user"]);
    let overridden = "target=template(web.$x.cpu.user,x='a')&template[x]=b";
    assert_eq!(names(overridden).await, ["web.b.cpu.user"]);
}

#[tokio::test]
async fn values_that_are_no_numbers() {
    let server = default().await;
    let answer = server.get(&format!("/render?target=odd.inf&format=json&{FIVE}")).await;
    assert!(answer.text().contains("[[-1e-07,1699999860],[null,1699999920],[-1e-07,"), "{}", answer.text());
    let answer = server.get(&format!("/render?target=odd.*de&format=json&{FIVE}")).await;
    assert!(answer.text().contains("[1e+16,"), "{}", answer.text());

    let sparse =
        server.get(&format!("/render?target=web.a.cpu.idle&format=json&noNullPoints=1&{FIVE}")).await;
    assert_eq!(sparse.json()[0]["datapoints"], json!([[0.1, NOW - 240], [0.1, NOW - 120], [0.1, NOW]]));
    let none = format!("/render?target=odd.none&target=db.x.load&format=json&noNullPoints&{FIVE}");
    assert_eq!(server.get(&none).await.json().as_array().unwrap().len(), 1);
    let all = server.get(&format!("/render?target=odd.none&format=json&{FIVE}")).await;
    assert_eq!(all.json()[0]["datapoints"][4], json!([null, NOW]));
}

/// The moving window uses all points that are read, so the series has no point in the requested range.
#[tokio::test]
async fn json_without_a_slot_is_an_empty_list() {
    let server = default().await;
    let get = async |format: &str, targets: &str| {
        server.get(&format!("/render?format={format}&from=-30s&until=-10s&{targets}")).await
    };
    let empty = "target=movingAverage(db.x.load,5)";
    let raw = get("raw", empty).await;
    assert!(
        raw.text().starts_with("movingAverage(db.x.load,5),") && raw.text().ends_with("|\n"),
        "{}",
        raw.text()
    );
    assert_eq!(get("json", empty).await.text(), "[]");
    let both = get("json", &format!("{empty}&target=db.x.load")).await.json();
    assert_eq!((both.as_array().unwrap().len(), &both[0]["datapoints"]), (2, &json!([])));
}

#[tokio::test]
async fn times_of_a_regression_in_the_wrong_order_are_swapped() {
    let server = default().await;
    let points = async |times: &str| {
        let target = format!("linearRegression(db.x.load,{times})");
        let answer = server.get(&format!("/render?format=json&from=-2min&target={target}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()[0]["datapoints"].clone()
    };
    let right = points("'-10min','now'").await;
    assert_eq!(right.as_array().unwrap().len(), 2);
    assert_eq!(points("'now','-10min'").await, right);
}

#[tokio::test]
async fn csv_and_raw_to_the_byte() {
    let server = default().await;
    let csv = server.get("/render?target=web.a.cpu.*&format=csv&from=-2min&tz=Europe/Rome").await;
    assert_eq!(csv.header("content-type"), Some("text/csv"));
    assert_eq!(
        csv.text(),
        "web.a.cpu.idle,2023-11-14 23:14:00,\r\nweb.a.cpu.idle,2023-11-14 23:15:00,0.1\r\n\
         web.a.cpu.user,2023-11-14 23:14:00,-1.0\r\nweb.a.cpu.user,2023-11-14 23:15:00,0.0\r\n"
    );
    let raw = server.get("/render?target=web.a.cpu.*&format=raw&from=-2min").await;
    assert_eq!(raw.header("content-type"), Some("text/plain"));
    assert_eq!(
        raw.text(),
        "web.a.cpu.idle,1700000040,1700000160,60|None,0.1\nweb.a.cpu.user,1700000040,1700000160,60|-1.0,0.0\n"
    );
    let odd = server.get("/render?target=odd.inf&rawData=1&from=-2min").await;
    assert_eq!(odd.text(), "odd.inf,1700000040,1700000160,60|inf,-1e-07\n");
    // Counts are integers in Graphite.
    let counts = "target=isNonNull(web.a.cpu.idle)&target=countSeries(web.a.cpu.*)&from=-2min";
    let raw = server.get(&format!("/render?{counts}&format=raw")).await;
    assert_eq!(
        raw.text(),
        "isNonNull(web.a.cpu.idle),1700000040,1700000160,60|0,1\n\
         countSeries(web.a.cpu.*),1700000040,1700000160,60|2,2\n"
    );
    let csv = server.get(&format!("/render?{counts}&format=csv")).await;
    assert!(csv.text().starts_with("isNonNull(web.a.cpu.idle),2023-11-14 22:14:00,0\r\n"), "{}", csv.text());
}

#[tokio::test]
async fn pickle_can_be_read_by_a_front_end() {
    let server = default().await;
    let answer = server.get("/render?target=web.*.cpu.idle&format=pickle&local=1&from=-2min").await;
    assert_eq!(answer.header("content-type"), Some("application/pickle"));
    let read: Value = serde_pickle::from_slice(&answer.body, serde_pickle::DeOptions::new()).unwrap();
    assert_eq!(
        read,
        json!([{
            "name": "web.a.cpu.idle", "pathExpression": "web.*.cpu.idle", "start": 1_700_000_040,
            "end": 1_700_000_160, "step": 60, "values": [null, 0.1], "valuesPerPoint": 1,
            "consolidationFunc": "average", "xFilesFactor": 0.0,
        }])
    );
    for query in ["target=f(", "target=nosuch(a)", "target=odd.(p)", ""] {
        let answer = server.get(&format!("/render?format=pickle&{query}")).await;
        assert_eq!(answer.status, 200, "{query}");
        let read: Value = serde_pickle::from_slice(&answer.body, serde_pickle::DeOptions::new()).unwrap();
        assert_eq!(read, json!([]), "{query}");
    }
    // A name that cannot be parsed as a target does not make the request fail.
    let targets = "target=odd.(p)&target=web.a.cpu.user&target=seriesByTag('x')";
    let answer = server.get(&format!("/render?format=raw&local=1&from=-1min&{targets}")).await;
    assert_eq!(answer.text(), "web.a.cpu.user,1700000100,1700000160,60|0.0\n");
    let local = server.get("/render?format=json&local=1&target=f(").await;
    assert_eq!((local.status, local.text()), (200, "[]"));
}

#[tokio::test]
async fn forms_are_read_and_win_over_the_query() {
    let server = default().await;
    let query = "/render/?target=db.x.load&format=raw&from=-2min";
    let form = "application/x-www-form-urlencoded";
    let answer = server.post(query, form, "target=web.a.cpu.user&format=json").await;
    let names: Vec<Value> = answer.json().as_array().unwrap().iter().map(|s| s["target"].clone()).collect();
    assert_eq!(names, ["db.x.load", "web.a.cpu.user"]);

    let multipart = "--XX\r\nContent-Disposition: form-data; name=\"target\"\r\n\r\nweb.a.cpu.user\r\n\
        --XX\r\nContent-Disposition: form-data; name=\"format\"\r\n\r\nraw\r\n--XX--\r\n";
    let answer = server.post("/render?from=-1min", "multipart/form-data; boundary=XX", multipart).await;
    assert_eq!(answer.text(), "web.a.cpu.user,1700000100,1700000160,60|0.0\n");

    let broken = server.post("/render", "multipart/form-data; boundary=XX", "--YY nothing").await;
    assert_eq!(broken.status, 400);
    assert!(broken.text().starts_with("malformed multipart form"), "{}", broken.text());
}

#[tokio::test]
async fn times_of_the_request() {
    let server = default().await;
    let range = async |query: &str| {
        let answer = server.get(&format!("/render?target=db.x.load&format=raw&{query}")).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        let text = answer.text().to_owned();
        let mut parts = text.split([',', '|']).skip(1).map(|n| n.parse::<i64>().unwrap_or_default());
        (parts.next().unwrap() - NOW, parts.next().unwrap() - NOW)
    };
    assert_eq!(range("from=-2min").await, (-60, 60));
    assert_eq!(range("").await, (60 - 86_400, 60));
    assert_eq!(range("from=-2min&until=-1min").await, (-60, 0));
    assert_eq!(range("from=-1min&until=-2min").await, (-60, 0));
    assert_eq!(range("from=-2min&now=1699999980").await, (-180, -60));
    assert_eq!(range("from=00:00_20231114&until=00:02_20231114").await, (-80_040, -79_920));
    assert_eq!(range("from=00:00_20231114&until=00:02_20231114&tz=Europe/Rome").await, (-83_640, -83_520));
    assert_eq!(range("from=00:00_20231114&until=00:02_20231114&tz=Nowhere").await, (-80_040, -79_920));
}

#[tokio::test]
async fn widths_thin_json_only() {
    let server = default().await;
    let points = async |query: &str| {
        let answer = server.get(&format!("/render?target=db.x.load&from=-10min&{query}")).await.json();
        answer[0]["datapoints"].as_array().unwrap().len()
    };
    assert_eq!(points("format=json").await, 10);
    assert_eq!(points("format=json&maxDataPoints=5").await, 5);
    assert_eq!(points("format=json&maxDataPoints=1").await, 1);
    for ignored in ["0", "-5", "10.5", "", "99999999999999999999999", "10"] {
        assert_eq!(points(&format!("format=json&maxDataPoints={ignored}")).await, 10, "{ignored}");
    }
    let raw = server.get("/render?target=db.x.load&from=-10min&format=raw&maxDataPoints=2").await;
    assert_eq!(raw.text().matches(',').count(), 3 + 9);
}

#[tokio::test]
async fn pretty_and_jsonp() {
    let server = default().await;
    let query = "/render?target=db.x.load&from=-1min&format=json";
    let pretty = server.get(&format!("{query}&pretty=1")).await;
    assert_eq!(
        pretty.text(),
        "[\n  {\n    \"target\": \"db.x.load\",\n    \"tags\": {\n      \"name\": \"db.x.load\"\n    },\n    \
         \"datapoints\": [\n      [\n        0.0,\n        1700000100\n      ]\n    ]\n  }\n]"
    );
    assert_eq!(server.get("/render?format=json&pretty=1").await.text(), "[]");
    let jsonp = server.get("/render?format=json&jsonp=a.b").await;
    assert_eq!((jsonp.text(), jsonp.header("content-type")), ("a.b([])", Some("text/javascript")));
    assert_eq!(server.get("/render?format=json&jsonp=alert(1)//").await.status, 400);
}

#[tokio::test]
async fn what_is_wrong_is_named_in_one_line() {
    let server = default().await;
    for (query, text) in [
        (
            "target=a&format=json&from=-1m",
            "from: \"-1m\" is not a time: m is not a unit: write min for minutes or mon for months",
        ),
        ("target=a&format=json&until=24:00", "until: \"24:00\" is not a time: there is no 24:00"),
        ("target=a&format=json&now=x", "now: \"x\" is not a time: \"x\" is not a day"),
        ("target=a&format=json&from=now&until=now", "from and until are the same: the time range is empty"),
        (
            "target=a&format=jsn",
            "format=\"jsn\" is not available; use json, columns, csv, raw, pickle, msgpack, dygraph, rickshaw, carbonapi_v2_pb (protobuf), carbonapi_v3_pb, png, svg",
        ),
        ("target=a&graphType=bar", "graphType=\"bar\" is not line or pie"),
        ("target=a&width=0", "width=\"0\" is not a number from 1 to 16384"),
        ("target=a&lineMode=x", "lineMode=\"x\" is not slope, staircase or connected"),
        ("target=a&format=json&xFilesFactor=x", "xFilesFactor=\"x\" is not a number"),
        ("target=a&format=json&cacheTimeout=x", "cacheTimeout=\"x\" is not a whole number"),
        (
            "target=sumSeries(a&format=json",
            "target \"sumSeries(a\": expected , or ) in the arguments of sumSeries at character 12",
        ),
        (
            "target=a&target=nosuch(b)&format=json",
            "target \"nosuch(b)\": unknown function nosuch at character 1",
        ),
        ("target=.a&format=json", "target \".a\": empty path component at character 1"),
        (
            "target=seriesByTag('a=')&format=json",
            "target \"seriesByTag('a=')\": At least one tagspec must not match the empty string",
        ),
        (
            "target=sum(seriesByTag('a=b','a'))&format=json",
            "target \"seriesByTag('a=b','a')\": Invalid tagspec a",
        ),
    ] {
        let answer = server.get(&format!("/render?{query}")).await;
        assert_eq!((answer.status, answer.text()), (400, &*format!("{text}\n")), "{query}");
        assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    }
}

#[tokio::test]
async fn limits_name_themselves() {
    let limits = Limits {
        targets: 2,
        series: 3,
        points: 100,
        find_results: 4,
        body: "1KiB".parse().unwrap(),
        ..Limits::default()
    };
    let server = start(Config { limits, ..Config::default() }, metrics()).await;
    for (query, text) in [
        ("target=a&target=b&target=c", "targets: more than 2 (api.limits.targets)"),
        ("target=web.*.*.*&target=odd.n*", "series: more than 3 (api.limits.series)"),
        ("target=web.a.cpu.user&from=-101min", "points: more than 100 (api.limits.points)"),
        ("target=**", "query \"**\": more than 4 metrics match (limit of results); narrow the pattern"),
    ] {
        let answer = server.get(&format!("/render?format=json&{query}")).await;
        assert_eq!((answer.status, answer.text()), (413, &*format!("{text}\n")), "{query}");
    }
    let form = "application/x-www-form-urlencoded";
    let answer = server.post("/render", form, &format!("format=json&target={}", "a".repeat(2000))).await;
    assert_eq!(answer.status, 413);
    assert_eq!(answer.text(), "bytes of the request's body: more than 1024 (api.limits.body)\n");

    let limits = Limits { request_time: "20ms".parse().unwrap(), ..Limits::default() };
    let slow = Made { delay: std::time::Duration::from_secs(3600), ..metrics() };
    let server = start(Config { limits, ..Config::default() }, slow).await;
    let answer = server.get("/render?format=json&target=web.a.cpu.user").await;
    assert_eq!(answer.status, 413);
    assert_eq!(answer.text(), "the request took longer than 20ms (api.limits.request_time)\n");
}

#[tokio::test]
async fn what_functions_take_is_limited() {
    let limits = Limits {
        computed_points: 1000,
        calls: 5,
        fetches: 3,
        memory: "64KiB".parse().unwrap(),
        memory_total: "100KiB".parse().unwrap(),
        ..Limits::default()
    };
    let server = start(Config { limits, ..Config::default() }, metrics()).await;
    let wide = format!("group({})", ["web.a.cpu.user"; 4].join(","));
    let ask = async |target: &str, from: &str| {
        server.get(&format!("/render?format=json&target={target}&from={from}")).await
    };
    for (target, from, text) in [
        (
            "scale(web.a.cpu.user,2)",
            "-1100min",
            "points made by functions: more than 1000 (api.limits.computed_points)",
        ),
        (
            "scale(scale(scale(scale(scale(scale(db.x.load,1),1),1),1),1),1)",
            "-5min",
            "evaluations of calls: more than 5 (api.limits.calls)",
        ),
        ("group(a,b,c,d)", "-5min", "fetches: more than 3 (api.limits.fetches)"),
        ("web.*.cpu.*", "-4000min", "memory: more than 64KiB (api.limits.memory)"),
        ("group(scale(db.x.load,1),scale(db.x.load,2))", "-200min", ""),
        (&wide, "-5min", ""),
    ] {
        let answer = ask(target, from).await;
        let wanted = if text.is_empty() { 200 } else { 413 };
        assert_eq!(answer.status, wanted, "{target}: {}", answer.text());
        assert!(text.is_empty() || answer.text() == format!("{text}\n"), "{target}: {}", answer.text());
    }
    // All memory was returned to the pool.
    assert_eq!(server.registry.value("plumbago_api_render_memory_bytes"), Some(0.0));
}

#[tokio::test]
async fn requests_share_a_memory() {
    let limits = Limits { memory_total: "4MiB".parse().unwrap(), ..Limits::default() };
    let server = start(Config { limits, ..Config::default() }, metrics()).await;
    // The response is larger than the sockets' buffers, so its series stay in memory until the client reads.
    let path = "/render?format=json&target=db.x.load&from=-400000min";
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    socket2::SockRef::from(&slow).set_recv_buffer_size(4096).unwrap();
    slow.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let held = || server.registry.value("plumbago_api_render_memory_bytes").unwrap_or(0.0);
    eventually("the answer to take memory", || held() > 0.0).await;
    let refused = server.get(path).await;
    assert_eq!(refused.status, 429);
    let text = "memory of all requests: more than 4MiB (api.limits.memory_total); try again\n";
    assert_eq!(refused.text(), text);
    drop(slow);
    eventually("the memory to be released", || held() == 0.0).await;
    assert_eq!(server.get(path).await.status, 200);
}

#[tokio::test]
async fn a_source_that_fails_is_a_503() {
    let server = start(Config::default(), Made { fails: true, ..metrics() }).await;
    let answer = server.get("/render?format=json&target=web.a.cpu.user").await;
    assert_eq!((answer.status, answer.text()), (503, "the engine is stopping\n"));
}

#[tokio::test]
async fn large_answers_are_streamed_whole() {
    let server = default().await;
    let answer = server.get("/render?format=json&target=web.**&target=db.**&from=-200d").await;
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    let series = answer.json();
    for series in series.as_array().unwrap() {
        let points = series["datapoints"].as_array().unwrap();
        assert_eq!(points.len(), 200 * 1440);
        assert_eq!(points[0][1], json!(NOW - 200 * 86_400 + 60));
        assert_eq!(points[points.len() - 1][1], json!(NOW));
    }
    assert_eq!(series.as_array().unwrap().len(), 5);
}
