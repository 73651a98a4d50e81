//! `/plumbago/rules`: what the rules do with a name, what edited rules would do with existing metrics, and
//! the access control.

use nix::sys::signal::Signal;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

use crate::status;

const NOW: i64 = 1_700_000_040;

const SCHEMAS: &str = "\
[web]\npattern = ^web\\.\nretentions = 60s:2d,1h:30d\n
[cpu]\npattern = \\.cpu$\nretentions = 10s:1d\n
[all]\npattern = .*\nretentions = 60s:1d\n";
const AGGREGATION: &str = "\
[sum]\npattern = \\.count$\nxFilesFactor = 0\naggregationMethod = sum\n
[all]\npattern = .*\nxFilesFactor = 0.5\naggregationMethod = average\n";

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.clock(NOW).schemas(SCHEMAS).aggregation(AGGREGATION);
    let blacklist = setup.file("blacklist.conf", "# secrets\n^secret\\.\n");
    let rewrite = setup.file("rewrite-rules.conf", "[pre]\n^collectd\\.([^.]+) = web.\\1\n[post]\n_ = .\n");
    setup.set("ingest.blacklist", blacklist.to_str().unwrap());
    setup.set("ingest.rewrite_rules", rewrite.to_str().unwrap());
    setup
}

fn explain(daemon: &Daemon, name: &str) -> Value {
    let answer = daemon.get(&http::url("/plumbago/rules", &[("name", name)]));
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

fn sections(fits: &Value) -> Vec<(&str, u64)> {
    let sections = fits["sections"].as_array().unwrap().iter();
    sections.map(|one| (one["section"].as_str().unwrap(), one["line"].as_u64().unwrap())).collect()
}

/// The sections of a trial that have metrics, each with the number of its metrics.
fn used(sections: &Value) -> Vec<(&str, u64)> {
    let sections = sections.as_array().unwrap().iter();
    let sections =
        sections.map(|one| (one["section"].as_str().unwrap_or("-"), one["metrics"].as_u64().unwrap()));
    sections.filter(|(_, metrics)| *metrics > 0).collect()
}

fn attempt(daemon: &Daemon, body: &Value) -> Value {
    let (status, answer) = http::post_json(daemon.api(), "/plumbago/rules", body);
    assert_eq!(status, 200, "{answer}");
    answer
}

#[test]
fn a_name_is_explained() {
    let setup = setup();
    let daemon = setup.start();
    let found = explain(&daemon, "web.a.cpu");
    assert_eq!(
        (&found["passage"]["stored"], &found["passage"]["refused"]),
        (&json!("web.a.cpu"), &Value::Null)
    );
    assert_eq!(found["passage"]["steps"], json!([]));
    assert_eq!(sections(&found["schemas"]), [("web", 1), ("cpu", 5), ("all", 9)], "the first decides");
    assert_eq!(found["schemas"]["sections"][1]["gives"], "10s:1d");
    assert!(found["schemas"]["file"].as_str().unwrap().ends_with("storage-schemas.conf"));
    assert_eq!(sections(&found["aggregations"]), [("all", 6)]);
    let metric = &found["metric"];
    assert_eq!(
        metric["settings"],
        json!({"retention": "1m:2d,1h:30d", "aggregation": "average", "x_files_factor": 0.5})
    );
    let stages: Vec<&str> =
        metric["stages"].as_array().unwrap().iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["1m:2d", "1h:30d"]);
    assert_eq!(
        (&metric["stages"][0]["slots"], &metric["stages"][0]["seconds"]),
        (&json!(2880), &json!(172_800))
    );
    assert_eq!(metric["stages"][0]["origin"], "embedded");
    assert_eq!(metric["stages"][0]["bytes"], 4147, "2880 times 1.44");
    assert_eq!(metric["existing"], Value::Null);

    let dropped = explain(&daemon, "secret.count");
    let step = &dropped["passage"]["steps"][0];
    assert_eq!(
        (&step["kind"], &step["line"], &step["rule"]),
        (&json!("blacklist"), &json!(2), &json!("^secret\\."))
    );
    assert!(step["file"].as_str().unwrap().ends_with("blacklist.conf"), "{step}");
    assert_eq!(dropped["passage"]["refused"]["reason"], "blacklist");
    assert_eq!((&step["name"], &dropped["passage"]["stored"]), (&Value::Null, &Value::Null));
    assert_eq!(dropped["metric"]["settings"]["aggregation"], "sum", "the metric may exist from before");

    let renamed = explain(&daemon, "collectd.db_1.cpu");
    let steps: Vec<(&Value, &Value)> = renamed["passage"]["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (&step["line"], &step["name"]))
        .collect();
    assert_eq!(steps, [(&json!(2), &json!("web.db_1.cpu")), (&json!(4), &json!("web.db.1.cpu"))]);
    assert_eq!(renamed["metric"]["name"], "web.db.1.cpu");
    assert_eq!(renamed["schemas"]["sections"][0]["section"], "web");

    let no_name = explain(&daemon, "...");
    assert_eq!(no_name["passage"]["refused"]["reason"], "name_empty");
    assert_eq!(no_name["metric"], Value::Null);

    let in_force = daemon.get("/plumbago/rules");
    let in_force: Value = serde_json::from_str(&in_force.body).unwrap();
    assert_eq!(
        (&in_force["schemas"]["text"], &in_force["aggregation"]["text"]),
        (&json!(SCHEMAS), &json!(AGGREGATION))
    );
    daemon.stop_well();
}

#[test]
fn an_existing_metric_differs_after_the_rules_changed() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let points: Vec<Point> =
        (0..1000).map(|n| Point::new("web.a.cpu", NOW - 60 * (1000 - n), n as f64)).collect();
    daemon.put(&points);
    daemon.put(&[Point::new("load;host=a", NOW, 1.0)]);
    daemon.wait_names(1);
    daemon.flush();
    let before = explain(&daemon, "web.a.cpu");
    let existing = &before["metric"]["existing"];
    assert_eq!((&existing["differs"], &existing["differences"]), (&json!(false), &json!([])));
    assert_eq!(before["metric"]["stages"][0]["origin"], "measured", "1,000 points of it are stored");

    setup.file("storage-schemas.conf", &SCHEMAS.replace("60s:2d,1h:30d", "60s:3d"));
    daemon.signal(Signal::SIGHUP);
    wait_until("the new rules", || {
        explain(&daemon, "web.a.cpu")["metric"]["settings"]["retention"] == "1m:3d"
    });
    let after = explain(&daemon, "web.a.cpu");
    let existing = &after["metric"]["existing"];
    assert_eq!(existing["differs"], true, "{existing}");
    assert_eq!(
        existing["differences"],
        json!([{"what": "retention", "now": "1m:2d,1h:30d", "rules": "1m:3d"}])
    );
    assert_eq!(existing["refused"], Value::Null);
    assert_eq!(existing["command"], "plumbago rules apply 'web.a.cpu'");
    let said = setup.run_well(&["rules", "apply", "web.a.cpu"]);
    assert!(said.contains("1 of 1 metrics changed"), "{said}");
    assert_eq!(explain(&daemon, "web.a.cpu")["metric"]["existing"]["differs"], false);
    assert_eq!(
        explain(&daemon, "load;host=a")["metric"]["existing"]["command"],
        "printf '%s\\n' 'load;host=a' | plumbago rules apply --names -"
    );
    daemon.stop_well();
}

#[test]
fn edited_rules_are_tried() {
    let setup = setup();
    let daemon = setup.start();
    let mut points: Vec<Point> = (0..8).map(|n| Point::new(format!("web.h{n}.load"), NOW, 1.0)).collect();
    points.extend(["db.x.cpu", "db.x.count", "load;host=a"].map(|name| Point::new(name, NOW, 1.0)));
    daemon.put(&points);
    daemon.wait_names(10);
    wait_until("the tagged series", || !explain(&daemon, "load;host=a")["metric"]["existing"].is_null());

    let same = attempt(&daemon, &json!({}));
    assert_eq!(
        (&same["metrics"], &same["complete"], &same["tagged"]),
        (&json!(11), &json!(true), &json!(true))
    );
    assert_eq!(used(&same["schemas"]), [("web", 8), ("cpu", 1), ("all", 2)]);
    assert_eq!(used(&same["aggregations"]), [("sum", 1), ("all", 10)]);
    assert_eq!(same["schemas"][0]["examples"].as_array().unwrap().len(), 5, "{}", same["schemas"]);
    assert_eq!((&same["apply"]["changed"], &same["apply"]["changes"]), (&json!(0), &json!([])));

    let text =
        "[db]\npattern = ^db\\.\nretentions = 60s:9d\nfoo = 1\n[web]\npattern = ^web\nretentions = 60s:1d\n";
    let other = attempt(&daemon, &json!({"schemas": text}));
    assert_eq!(used(&other["schemas"]), [("db", 2), ("web", 8), ("-", 1)]);
    assert_eq!(other["schemas"][0]["examples"], json!(["db.x.count", "db.x.cpu"]));
    assert_eq!(other["schemas"][0]["line"], 1);
    assert!(other["warnings"][0].as_str().unwrap().contains("line 4: [db]"), "{}", other["warnings"]);
    // The raw resolution of db.x.cpu would change, which is not possible.
    assert_eq!(
        (&other["apply"]["changed"], &other["apply"]["refused"][0]["example"]),
        (&json!(10), &json!("db.x.cpu"))
    );
    let change = &other["apply"]["changes"][0];
    assert_eq!((&change["metrics"], &change["from"]), (&json!(8), &json!("1m:2d,1h:30d average 0.5")));
    assert_eq!(change["to"], "1m:1d average 0.5");
    assert!(change["loss"].as_str().unwrap().contains("points older than 1d"), "{change}");
    assert_eq!(
        explain(&daemon, "db.x.count")["metric"]["settings"]["retention"],
        "1m:1d",
        "nothing was changed"
    );

    let broken = "[a]\npattern = (\nretentions = 60s:1d\n[b]\npattern = b\nretentions = never\n";
    let body = json!({"schemas": broken}).to_string();
    let answer = http::request(daemon.api(), "POST", "/plumbago/rules", "", &body);
    assert_eq!(answer.status, 400);
    for part in [
        "storage-schemas.conf line 2: [a] error: pattern",
        "storage-schemas.conf line 6: [b] error: retentions",
    ] {
        assert!(answer.body.contains(part), "{}", answer.body);
    }
    let answer = http::request(daemon.api(), "POST", "/plumbago/rules", "", "{\"schema\": \"\"}");
    assert_eq!((answer.status, answer.body.contains("schemas")), (400, true), "{}", answer.body);
    assert!(daemon.ledger().balances());
    daemon.stop_well();
}

#[test]
fn only_those_who_may_see_the_status_may_ask() {
    let mut setup = setup();
    status::assert_open_as_the_status(&mut setup, "/plumbago/rules?name=a", "{}");
}
