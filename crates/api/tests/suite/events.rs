//! `/events`, `/info`, `/_internal/capabilities`, `/dashboard` and `/composer`, over HTTP.

use crate::support::{NOW, default, metrics, start};
use plumbago_api::{Config, Limits};
use plumbago_model::ByteSize;
use prost::Message;
use serde_json::{Value, json};

async fn post(server: &crate::support::Running, event: &Value) -> u16 {
    server.post("/events/", "application/json", &event.to_string()).await.status
}

#[tokio::test]
async fn events_are_noted_and_found() {
    let server = default().await;
    assert_eq!(post(&server, &json!({"what": "a", "tags": ["x", "y"], "when": NOW - 50})).await, 200);
    assert_eq!(post(&server, &json!({"what": "b", "tags": "x", "data": {"build": 7}})).await, 200);
    let found = async |query: &str| server.get(&format!("/events/get_data?{query}")).await.json();
    let a = json!({"when": NOW - 50, "what": "a", "data": "", "tags": ["x", "y"], "id": 1});
    let b = json!({"when": NOW, "what": "b", "data": "{\"build\":7}", "tags": ["x"], "id": 2});
    assert_eq!(found("").await, json!([a, b]));
    assert_eq!(found("tags=x+y").await, json!([a]));
    assert_eq!(found("from=-49s").await, json!([b]));
    assert_eq!(server.get("/events?until=-1s").await.json(), json!([a]));
    assert_eq!(server.get("/events/1").await.json()["when"], "2023-11-14T22:14:10Z");
    assert_eq!(server.get("/events/3").await.status, 404);
    assert_eq!(server.get("/events/x").await.status, 404);
    // As in Graphite, the text of an event may be empty.
    assert_eq!(post(&server, &json!({"what": "", "tags": "empty", "when": NOW - 500})).await, 200);
    assert_eq!(found("tags=empty").await[0]["what"], "");
    let render =
        server.get("/render?target=events('x')&from=-60s&until=now&format=json&noNullPoints=1").await;
    assert_eq!(render.json()[0]["datapoints"], json!([[1.0, NOW - 50]]));
}

#[tokio::test]
async fn events_that_are_wrong_are_refused() {
    let server = default().await;
    for (body, text) in [
        ("[]", "the event is not a JSON object\n"),
        ("{}", "the event has no \"what\"\n"),
        ("{\"what\":null}", "the event has no \"what\"\n"),
        ("{\"what\":\"a\",\"when\":1e300}", "when=\"1e+300\" is not a time in seconds\n"),
        (
            "{\"what\":\"a\",\"tags\":1}",
            "{\"error\":\"\\\"tags\\\" must be an array or space-separated string\"}",
        ),
    ] {
        let answer = server.post("/events", "application/json", body).await;
        assert_eq!((answer.status, answer.text()), (400, text), "{body}");
    }
    let long = json!({"what": "a", "data": "x".repeat(70_000)}).to_string();
    let answer = server.post("/events", "application/json", &long).await;
    assert_eq!((answer.status, answer.text()), (413, "the event is longer than 65536 bytes\n"));
    assert_eq!(server.get("/events/get_data").await.json(), json!([]));
    assert_eq!(server.get("/events/get_data?from=nonsense").await.status, 400);
}

#[tokio::test]
async fn events_have_limits() {
    let config = Config { events_bytes: ByteSize(0), ..Config::default() };
    let off = start(config, metrics()).await;
    let answer = off.post("/events", "", "{\"what\":\"a\"}").await;
    assert_eq!(
        (answer.status, answer.text()),
        (403, "this server keeps no events (api.events_bytes is 0)\n")
    );
    assert_eq!(off.get("/events/get_data").await.json(), json!([]));

    let limits = Limits { points: 100, ..Limits::default() };
    let small = start(Config { limits, ..Config::default() }, metrics()).await;
    assert_eq!(small.get("/render?target=events('*')&from=-100s&format=json").await.status, 200);
    assert_eq!(small.get("/render?target=events('*')&from=-101s&format=json").await.status, 413);
}

#[derive(Clone, PartialEq, Message)]
struct Retention {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int64, tag = "2")]
    points: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Info {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    method: String,
    #[prost(int64, tag = "3")]
    longest: i64,
    #[prost(float, tag = "4")]
    factor: f32,
    #[prost(message, repeated, tag = "5")]
    retentions: Vec<Retention>,
}

#[derive(Clone, PartialEq, Message)]
struct Infos {
    #[prost(message, repeated, tag = "1")]
    metrics: Vec<Info>,
}

#[derive(Clone, PartialEq, Message)]
struct Capabilities {
    #[prost(string, repeated, tag = "1")]
    protocols: Vec<String>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(bool, tag = "4")]
    filters: bool,
}

fn info(name: &str) -> Info {
    let retention = |seconds, points| Retention { seconds, points };
    Info {
        name: name.to_owned(),
        method: "Sum".to_owned(),
        longest: 30 * 86_400,
        factor: 0.25,
        retentions: vec![retention(60, 1440), retention(300, 8640)],
    }
}

#[tokio::test]
async fn metrics_say_how_they_are_kept() {
    let server = default().await;
    let json = server.get("/info/?target=db.x.load&target=web.b.cpu").await.json();
    assert_eq!(json["metrics"][0]["name"], "db.x.load");
    assert_eq!(json["metrics"][1]["consolidationFunc"], "Sum");
    assert_eq!(json["metrics"][1]["retentions"][1], json!({"secondsPerPoint": 300, "numberOfPoints": 8640}));

    let second = server.get("/info?format=protobuf&target=db.x.load").await;
    assert_eq!(second.header("content-type"), Some("application/x-protobuf"));
    assert_eq!(Info::decode(&*second.body).unwrap(), info("db.x.load"));
    let third = server.get("/info?format=carbonapi_v3_pb&target=db.x.load&target=web.b.cpu").await;
    let both = Infos { metrics: vec![info("db.x.load"), info("web.b.cpu")] };
    assert_eq!(Infos::decode(&*third.body).unwrap(), both);

    assert_eq!(server.get("/info?target=db.x.load&target=nothing").await.status, 404);
    assert_eq!(server.get("/info").await.status, 400);
    assert_eq!(server.get("/info?target=a&format=png").await.status, 400);
}

#[tokio::test]
async fn carbonapi_is_told_what_it_may_ask() {
    let server = default().await;
    let head = "host: x\r\nconnection: close\r\naccept: application/x-carbonapi-v3-pb\r\n\r\n";
    let answer = server.ask(&format!("GET /_internal/capabilities/ HTTP/1.1\r\n{head}")).await;
    assert_eq!(answer.header("content-type"), Some("application/x-carbonapi-v3-pb"));
    let told = Capabilities::decode(&*answer.body).unwrap();
    assert_eq!(
        (told.protocols[0].as_str(), told.name.as_str(), told.filters),
        ("carbonapi_v3_pb", "plumbago", false)
    );
    let json = server.get("/_internal/capabilities").await.json();
    assert_eq!(json["supportedProtocols"], json!(told.protocols));
    // Each offered format works.
    for protocol in told.protocols {
        let format = protocol.trim_start_matches("graphite-web-");
        let answer = server.get(&format!("/render?target=db.x.load&format={format}")).await;
        assert_eq!(answer.status, 200, "{protocol}");
    }
}

#[tokio::test]
async fn old_pages_are_answered() {
    for prefix in ["", "/graphite"] {
        let config = Config { url_prefix: prefix.to_owned(), ..Config::default() };
        let server = start(config, metrics()).await;
        let get = async |path: &str| server.get(&format!("{prefix}{path}")).await;
        assert_eq!(get("/dashboard/find?query=").await.json(), json!({"dashboards": []}));
        assert_eq!(get("/dashboard").await.status, 404);
        let moved = get("/composer/?width=500&target=db.x.load&format=json").await;
        assert_eq!(moved.status, 307);
        let location = moved.header("location").unwrap();
        assert_eq!(location, format!("{prefix}/render?width=500&target=db.x.load&format=json"));
        assert_eq!(server.get(location).await.json()[0]["target"], "db.x.load");
        assert_eq!(get("/composer").await.status, 404);
        assert_eq!(get("/events/get_data").await.json(), json!([]));
    }
}
