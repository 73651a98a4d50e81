//! `/tags` and `seriesByTag`, over HTTP.

use crate::support::{Made, Running, start};
use plumbago_api::Config;
use serde_json::json;

async fn tagged() -> Running {
    let mut source = Made::default();
    for name in
        ["cpu;dc=a;host=1", "cpu;dc=b;host=2", "disk;dc=a;host=1", "disk;dc=a;drive=c%/d", "plain.cpu"]
    {
        source.values.insert(name.to_owned(), |_| 1.0);
    }
    start(Config::default(), source).await
}

#[tokio::test]
async fn tags_and_values_are_listed() {
    let server = tagged().await;
    let names = |answer: serde_json::Value, key: &str| -> Vec<String> {
        answer.as_array().unwrap().iter().map(|item| item[key].as_str().unwrap().to_owned()).collect()
    };
    for (path, found) in [
        ("/tags", &["dc", "drive", "host", "name"][..]),
        ("/tags/?filter=d", &["dc", "drive"]),
        ("/tags?filter=d&limit=1", &["dc"]),
        ("/tags?limit=-1", &["dc", "drive", "host", "name"]),
        ("/tags?limit=0", &[]),
    ] {
        assert_eq!(names(server.get(path).await.json(), "tag"), found, "{path}");
    }
    let details = server.get("/tags/host?filter=[12]").await.json();
    assert_eq!((&details["tag"], details["id"].is_u64()), (&json!("host"), true));
    assert_eq!(names(details["values"].clone(), "value"), ["1", "2"]);
    assert_eq!((&details["values"][0]["count"], &details["values"][1]["count"]), (&json!(2), &json!(1)));
    assert_eq!(server.get("/tags/nothing").await.text(), "null");
    let pretty = server.get("/tags/drive?pretty=1").await;
    assert!(pretty.text().starts_with("{\n  \"id\": "), "{}", pretty.text());
    assert_eq!(pretty.json()["values"][0]["value"], "c%/d");
}

#[tokio::test]
async fn series_are_found_and_completed() {
    let server = tagged().await;
    for (path, found) in [
        ("/tags/findSeries?expr=name=cpu&expr=dc=~a", json!(["cpu;dc=a;host=1"])),
        ("/tags/findSeries?expr[]=name=cpu", json!(["cpu;dc=a;host=1", "cpu;dc=b;host=2"])),
        ("/tags/findSeries/?expr=drive=c%25/d", json!(["disk;dc=a;drive=c%/d"])),
        ("/tags/findSeries?expr=dc=x", json!([])),
        ("/tags/autoComplete/tags", json!(["dc", "drive", "host", "name"])),
        ("/tags/autoComplete/tags?expr=name=cpu&tagPrefix=h", json!(["host"])),
        ("/tags/autoComplete/tags?expr=name=cpu&limit=1&local=1", json!(["dc"])),
        ("/tags/autoComplete/values?tag=name", json!(["cpu", "disk"])),
        ("/tags/autoComplete/values?tag=name&valuePrefix=d", json!(["disk"])),
        ("/tags/autoComplete/values?tag=dc&expr=name=disk", json!(["a"])),
        ("/tags/autoComplete/values?tag=nothing", json!([])),
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.json()), (200, found), "{path}");
    }
    let form = "application/x-www-form-urlencoded";
    let answer = server.post("/tags/findSeries", form, "expr=dc%3Db").await;
    assert_eq!(answer.json(), json!(["cpu;dc=b;host=2"]));
}

#[tokio::test]
async fn errors_are_json() {
    let server = tagged().await;
    for (path, status, text) in [
        ("/tags/findSeries", 400, "no tag expressions specified"),
        ("/tags/findSeries?expr=dc", 400, "Invalid tagspec dc"),
        ("/tags/findSeries?expr=dc=", 400, "At least one tagspec must not match the empty string"),
        ("/tags/autoComplete/values", 400, "no tag specified"),
        ("/tags?limit=x", 400, "limit=\"x\" is not a whole number"),
    ] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, answer.json()), (status, json!({"error": text})), "{path}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    assert!(server.get("/tags?filter=(").await.text().contains("is not a valid regular expression"));
    for path in ["tagSeries", "tagMultiSeries", "delSeries"] {
        let answer = server.get(&format!("/tags/{path}?path=a;b=c")).await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST, OPTIONS")), "{path}");
        assert_eq!(answer.text(), "GET is not supported here; use POST, OPTIONS\n", "{path}");
    }
    let listed = server.post("/tags", "", "").await;
    assert_eq!((listed.status, listed.header("allow")), (405, Some("GET, HEAD, OPTIONS")));
    let answer = server.post("/tags/tagSeries", "application/x-www-form-urlencoded", "").await;
    assert_eq!((answer.status, answer.json()), (400, json!({"error": "no path specified"})));
}

#[tokio::test]
async fn limits_and_switches_are_named() {
    let form = "application/x-www-form-urlencoded";
    let server = start(Config { tag_writes: false, ..Config::default() }, Made::default()).await;
    for call in ["tagSeries", "tagMultiSeries", "delSeries"] {
        let answer = server.post(&format!("/tags/{call}"), form, "path=a;b=c").await;
        let text = "this server does not tag or untag series (api.tag_writes)";
        assert_eq!((answer.status, answer.json()), (403, json!({"error": text})));
    }
    let mut source = Made::default();
    for n in 0..5 {
        source.values.insert(format!("cpu;n={n}"), |_| 1.0);
    }
    let limits = plumbago_api::Limits { series: 3, find_results: 4, ..Default::default() };
    let server = start(Config { limits, ..Config::default() }, source).await;
    let answer = server.get("/render?format=json&target=seriesByTag('name=cpu')").await;
    let text = "more than 3 series match (limit of results); narrow the expressions\n";
    assert_eq!((answer.status, answer.text()), (413, text));
    let answer = server.get("/tags/findSeries?expr=name=cpu").await;
    let text = "more than 4 series match (limit of results); narrow the expressions";
    assert_eq!((answer.status, answer.json()), (413, json!({"error": text})));
    let many = "expr=name=cpu&".repeat(65);
    let answer = server.get(&format!("/tags/findSeries?{many}")).await;
    assert_eq!((answer.status, answer.json()), (413, json!({"error": "more than 64 tag expressions"})));
}

#[tokio::test]
async fn targets_find_series_by_tag() {
    let server = tagged().await;
    let render = async |target: &str, rest: &str| {
        let answer = server.get(&format!("/render?format=json&from=-2min&target={target}{rest}")).await;
        assert_eq!(answer.status, 200, "{target}: {}", answer.text());
        let series = answer.json();
        series
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["target"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (target, found) in [
        ("seriesByTag('name=cpu')", &["cpu;dc=a;host=1", "cpu;dc=b;host=2"][..]),
        ("seriesByTag('name=cpu','dc=~a.*')", &["cpu;dc=a;host=1"]),
        ("seriesByTag('name=cpu')|groupByTags('sum','dc')", &["cpu;dc=a", "cpu;dc=b"]),
        ("seriesByTag('host=1')|aliasByTags('name','host')", &["cpu.1", "disk.1"]),
        ("aliasByNode(seriesByTag('host=1'),'dc',0)", &["a.cpu", "a.disk"]),
        ("sumSeries(seriesByTag('dc=a'))", &["sumSeries(seriesByTag('dc=a'))"]),
        ("seriesByTag('name=nothing')", &[]),
    ] {
        let target = target.replace('|', "%7C");
        assert_eq!(render(&target, "").await, found, "{target}");
    }
    // A front end, which sends `local=1`, gets an empty list instead of an error.
    assert_eq!(render("seriesByTag('dc=')", "&local=1").await, [""; 0]);
    let answer = server.get("/render?format=pickle&local=1&from=-2min&target=seriesByTag('dc=b')").await;
    let rows: Vec<serde_json::Value> =
        serde_pickle::from_slice(&answer.body, serde_pickle::DeOptions::new()).unwrap();
    assert_eq!(rows[0]["pathExpression"], "seriesByTag('dc=b')");
    assert_eq!(rows[0]["name"], "cpu;dc=b;host=2");
}
