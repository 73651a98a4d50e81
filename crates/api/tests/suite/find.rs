//! `/metrics/…` and `/version`, over HTTP.

use crate::support::default;
use serde_json::{Value, json};

#[tokio::test]
async fn trees_for_grafana() {
    let server = default().await;
    let answer = server.get("/metrics/find?query=web.*").await;
    assert_eq!(answer.header("cache-control"), Some("no-cache"));
    assert_eq!(
        answer.text(),
        "[{\"text\":\"a\",\"id\":\"web.a\",\"allowChildren\":1,\"expandable\":1,\"leaf\":0},\
         {\"text\":\"b\",\"id\":\"web.b\",\"allowChildren\":1,\"expandable\":1,\"leaf\":0}]"
    );
    let tree = async |query: &str| -> Vec<String> {
        let answer = server.get(&format!("/metrics/find/?{query}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let show = |node: &Value| {
            assert_eq!(node["expandable"], node["allowChildren"]);
            let sign = if node["leaf"] == 1 { "" } else { "/" };
            format!("{}{sign} {}", node["text"].as_str().unwrap(), node["id"].as_str().unwrap())
        };
        answer.json().as_array().unwrap().iter().map(show).collect()
    };
    // Children with the same name under two parents are one entry. Its id keeps the glob.
    assert_eq!(tree("query=web.*.*").await, ["cpu/ web.*.cpu"]);
    // Directories first, then metrics.
    assert_eq!(tree("query=*").await, ["db/ db", "odd/ odd", "web/ web"]);
    assert_eq!(tree("query=web.a.cpu.*").await, ["idle web.a.cpu.idle", "user web.a.cpu.user"]);
    // A metric that is also a directory is listed once, as a directory.
    assert_eq!(tree("query=web.b.*").await, ["cpu/ web.b.cpu"]);
    assert_eq!(tree("query=web.b.*&wildcards=1").await, ["*/ web.b.*", "cpu/ web.b.cpu"]);
    assert_eq!(tree("query=web.b.*&leavesOnly=1").await, ["cpu web.b.cpu"]);
    assert_eq!(tree("query=web.a.cpu.*&wildcards=1").await[0], "* web.a.cpu.*");
    assert_eq!(tree("query=web.*&wildcards=1").await[0], "*/ web.*");
    assert_eq!(tree("query=db.*&wildcards=1").await, ["x/ db.x"]);
    assert_eq!(tree("query=odd.1*").await, ["100% x odd.100%25+x"]);
    assert_eq!(tree("query=nothing.*").await, Vec::<String>::new());
    assert_eq!(tree("query=web.*&from=-1&until=-1&local=1&tz=UTC").await.len(), 2);
    assert_eq!(tree("query=web.*&from=-6h&until=now&now=1700000000").await.len(), 2);
}

#[tokio::test]
async fn the_other_forms_of_find() {
    let server = default().await;
    let completer = server.get("/metrics/find?query=web.b.c&format=completer").await;
    assert_eq!(
        completer.json(),
        json!({"metrics": [
            {"path": "web.b.cpu.", "name": "cpu", "is_leaf": "0"},
            {"path": "web.b.cpu", "name": "cpu", "is_leaf": "1"},
        ]})
    );
    let wild = server.get("/metrics/find?query=w..&format=completer&wildcards=1").await.json();
    assert_eq!(wild["metrics"][0]["path"], "web.a.");
    assert_eq!(wild["metrics"][2], json!({"name": "*"}));
    let variants = "/metrics/find?query=web.a,b.c&format=completer&automatic_variants=1";
    assert_eq!(server.get(variants).await.json()["metrics"].as_array().unwrap().len(), 3);

    let nodes = async |query: &str| server.get(&format!("/metrics?format=nodelist&{query}")).await.json();
    assert_eq!(nodes("query=web.*.cpu").await, json!({"nodes": ["cpu"]}));
    assert_eq!(nodes("query=web.*.cpu&position=1").await, json!({"nodes": ["a", "b"]}));
    assert_eq!(nodes("query=web.*.cpu&position=-3").await, json!({"nodes": ["web"]}));
    assert_eq!(nodes("query=web.*.cpu&position=9").await, json!({"nodes": []}));
    assert_eq!(nodes("query=web.*.cpu&position=-9223372036854775808").await, json!({"nodes": []}));

    let json = server.get("/metrics/find?query=web.b.*&format=json&now=1700000000").await.json();
    assert_eq!(
        json,
        json!([
            {"path": "web.b.cpu", "is_leaf": false},
            {"path": "web.b.cpu", "is_leaf": true, "intervals": [{"start": 0, "end": 1_700_000_060}]},
        ])
    );
    let pickle = server.get("/metrics/find?query=web.b.*&format=pickle&local=1&now=1700000000").await;
    let read: Value = serde_pickle::from_slice(&pickle.body, serde_pickle::DeOptions::new()).unwrap();
    assert_eq!(
        read,
        json!([
            {"path": "web.b.cpu", "is_leaf": false},
            {"path": "web.b.cpu", "is_leaf": true, "intervals": [[0, 1_700_000_060]]},
        ])
    );
    let form = "application/x-www-form-urlencoded";
    let posted = server.post("/metrics/find?from=-1h&until=now", form, "query=db.*").await;
    assert_eq!(posted.json()[0]["id"], "db.x");
}

#[tokio::test]
async fn expand_and_its_switches() {
    let server = default().await;
    let expand = async |query: &str| server.get(&format!("/metrics/expand?{query}")).await.json();
    assert_eq!(expand("query=web.*").await, json!({"results": ["web.a", "web.b"]}));
    assert_eq!(
        expand("query=web.*&query=db.*&query=web.a").await,
        json!({"results": ["db.x", "web.a", "web.b"]})
    );
    assert_eq!(
        expand("query=web.*&query=zz.*&groupByExpr=1").await,
        json!({"results": {"web.*": ["web.a", "web.b"], "zz.*": []}})
    );
    assert_eq!(expand("query=web.b.*&leavesOnly=1").await, json!({"results": ["web.b.cpu"]}));
    assert_eq!(expand("query=web.*&leavesOnly=1").await, json!({"results": []}));
    assert_eq!(expand("").await, json!({"results": []}));
    assert_eq!(expand("groupByExpr=1").await, json!({"results": {}}));
}

#[tokio::test]
async fn the_index_is_every_name_sorted() {
    let server = default().await;
    let names = [
        "db.x.load",
        "odd.100%25+x",
        "odd.inf",
        "odd.none",
        "odd.\u{fc}nic\u{f6}de",
        "web.a.cpu.idle",
        "web.a.cpu.user",
        "web.b.cpu",
        "web.b.cpu.user",
    ];
    assert_eq!(server.get("/metrics/index.json").await.json(), json!(names));
    let jsonp = server.get("/metrics/index.json/?jsonp=f&cluster=1").await;
    assert!(jsonp.text().starts_with("f([\"db.x.load\",") && jsonp.text().ends_with("])"));
}

#[tokio::test]
async fn what_is_wrong_is_named_in_one_line() {
    let server = default().await;
    for (query, text) in [
        ("", "the parameter query is missing"),
        ("query=", "the parameter query is empty"),
        (
            "query=a&format=xml",
            "format=\"xml\" is not available; use treejson, completer, nodelist, json, pickle, msgpack, carbonapi_v2_pb (protobuf), carbonapi_v3_pb",
        ),
        ("query=a&leavesOnly=x", "leavesOnly=\"x\" is not a whole number"),
        (
            "query=a&from=-1m",
            "from: \"-1m\" is not a time: m is not a unit: write min for minutes or mon for months",
        ),
    ] {
        let answer = server.get(&format!("/metrics/find?{query}")).await;
        assert_eq!((answer.status, answer.text()), (400, &*format!("{text}\n")), "{query}");
    }
}

#[tokio::test]
async fn version_paths_and_methods() {
    let server = default().await;
    assert_eq!(server.get("/version").await.text(), "1.1.10\n");
    assert_eq!(server.get("/version/").await.status, 200);
    let missing = server.get("/metrics/search").await;
    assert_eq!((missing.status, missing.text()), (404, "there is nothing at \"/metrics/search\"\n"));
    let raw = async |method: &str| {
        server.ask(&format!("{method} /metrics/find?query=web.* HTTP/1.1\r\nhost: x\r\n\r\n")).await
    };
    let (head, get) = (raw("HEAD").await, raw("GET").await);
    assert_eq!((head.status, head.header("content-length")), (200, get.header("content-length")));
    assert_eq!(head.header("content-type"), Some("application/json"));
    assert_eq!(raw("OPTIONS").await.status, 204);
    let refused = raw("DELETE").await;
    assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD, POST, OPTIONS")));
}

#[tokio::test]
async fn functions_for_editors() {
    let server = default().await;
    let all = server.get("/functions").await;
    assert_eq!(all.status, 200);
    let all: Value = serde_json::from_str(&all.text().replace("1e9999", "1e99")).unwrap();
    assert!(all.as_object().unwrap().len() > 150);
    assert_eq!(
        all["scale"]["params"],
        json!([
            {"name": "seriesList", "type": "seriesList", "required": true},
            {"name": "factor", "type": "float", "required": true},
        ])
    );
    assert_eq!(all["keepLastValue"]["params"][1]["default"], json!(1e99));
    assert_eq!(all["sum"]["function"], "sum(*seriesLists)");
    let grouped = server.get("/functions/?grouped=1").await.text().replace("1e9999", "1e99");
    let grouped: Value = serde_json::from_str(&grouped).unwrap();
    assert_eq!(grouped["Transform"]["scale"], all["scale"]);
    let group = server.get("/functions?group=Sorting").await.json();
    assert!(group.as_object().unwrap().values().all(|function| function["group"] == "Sorting"));
    assert_eq!(server.get("/functions/scale").await.json(), all["scale"]);
    assert_eq!(server.get("/functions/nothing").await.status, 404);
    assert_eq!(server.get("/functions/average?type=pie").await.json()["group"], "Pie");
    assert!(server.get("/functions/limit?jsonp=f").await.text().starts_with("f({"));
}
