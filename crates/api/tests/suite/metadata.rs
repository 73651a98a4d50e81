//! `/metrics/get-metadata` and `/metrics/set-metadata`, over HTTP.

use plumbago_api::Config;
use serde_json::json;

use crate::support::{Running, metrics, start};

const FORM: &str = "application/x-www-form-urlencoded";

async fn writable() -> Running {
    start(Config { metadata_writes: true, ..Config::default() }, metrics()).await
}

#[tokio::test]
async fn settings_of_several_metrics_are_read() {
    let server = writable().await;
    let found = json!({"db.x.load": "k of db.x.load", "none": {"error": "no none"}});
    let path = "/metrics/get-metadata?key=k&metric=db.x.load&metric=none&metric=db.x.load";
    assert_eq!(server.get(path).await.json(), found);
    assert_eq!(server.get(&path.replace('?', "/?")).await.json(), found);
    let posted = server.post("/metrics/get-metadata", FORM, "key=k&metric=db.x.load&metric=none").await;
    assert_eq!(posted.json(), found);
    assert_eq!(server.get("/metrics/get-metadata?key=k").await.json(), json!({}));
    let wrapped = server.get("/metrics/get-metadata?key=k&metric=db.x.load&jsonp=f").await;
    assert_eq!(wrapped.text(), r#"f({"db.x.load":"k of db.x.load"})"#);
    let many = "&metric=a".repeat(1001);
    assert_eq!(server.get(&format!("/metrics/get-metadata?key=k{many}")).await.status, 413);
}

#[tokio::test]
async fn settings_are_changed_one_by_one_and_in_bulk() {
    let server = writable().await;
    let changed = json!({"db.x.load": {"old_value": "k of db.x.load", "new_value": "v"}});
    let one = server.get("/metrics/set-metadata?metric=db.x.load&key=k&value=v").await;
    assert_eq!((one.status, one.json()), (200, changed));
    let unknown = server.get("/metrics/set-metadata?metric=none&key=k&value=v").await;
    assert_eq!((unknown.status, unknown.json()), (200, json!({"none": {"error": "no none"}})));
    let operations = json!([
        {"metric": "db.x.load", "key": "k", "value": "1"},
        {"metric": "odd.none", "key": "k", "value": "2"},
        {"metric": "odd.inf", "key": "k"},
        {"key": "k", "value": "3"},
        5,
        {"metric": "db.x.load", "key": "k", "value": "4"},
    ])
    .to_string();
    let form = format!("operations={}", operations.replace('"', "%22"));
    for (kind, body) in [("application/json", operations.as_str()), (FORM, &form)] {
        let several = server.post("/metrics/set-metadata", kind, body).await;
        let found = json!({
            "db.x.load": {"old_value": "k of db.x.load", "new_value": "4"},
            "odd.none": {"old_value": "k of odd.none", "new_value": "2"},
            "odd.inf": {"error": "the operation has no string \"value\""},
        });
        assert_eq!((several.status, several.json()), (200, found), "{kind}");
    }
    let done = server.source.changes.lock().unwrap().clone();
    let bulk = ["db.x.load k=1", "odd.none k=2", "db.x.load k=4"];
    assert_eq!(done, [&["db.x.load k=v", "none k=v"][..], &bulk, &bulk].concat());
}

#[tokio::test]
async fn wrong_requests_change_nothing() {
    let server = writable().await;
    for path in ["?metric=db.x.load&key=k", "?metric=db.x.load&value=v", "?key=k&value=v", ""] {
        assert_eq!(server.get(&format!("/metrics/set-metadata{path}")).await.status, 400, "{path}");
    }
    for (kind, body) in
        [("application/json", "{"), ("application/json", "{}"), (FORM, "operations=x"), (FORM, "")]
    {
        assert_eq!(server.post("/metrics/set-metadata", kind, body).await.status, 400, "{kind} {body}");
    }
    let head = "HEAD /metrics/set-metadata?metric=db.x.load&key=k&value=v HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert_eq!(server.ask(head).await.status, 200);
    let closed = start(Config::default(), metrics()).await;
    let refused = closed.get("/metrics/set-metadata?metric=db.x.load&key=k&value=v").await;
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("api.metadata_writes"), "{}", refused.text());
    for server in [&server, &closed] {
        assert!(server.source.changes.lock().unwrap().is_empty());
    }
}
