//! `/plumbago/costs`: the biggest directories and tags, the newest metrics, and unused metrics, also after a
//! restart, and the access control.

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::{wait_for, wait_until};
use serde_json::{Value, json};

use crate::status;

const T0: i64 = 1_700_000_040;
const DAY: i64 = 86_400;

const SCHEMAS: &str = "\
[web]\npattern = ^web\\.\nretentions = 60s:2d,1h:2y\n
[all]\npattern = .*\nretentions = 60s:1d\n";

/// Estimated size of a full metric in the answer, in bytes.
const WEB: u64 = 93_149;
const OTHER: u64 = 2074;

fn costs(daemon: &Daemon, parameters: &[(&str, &str)]) -> Value {
    let answer = daemon.get(&http::url("/plumbago/costs", parameters));
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

fn points(names: &[&str], time: i64) -> Vec<Point> {
    names.iter().map(|name| Point::new(*name, time, 1.0)).collect()
}

/// Paths of directories with a number of each.
fn rows<'a>(rows: &'a Value, number: &str) -> Vec<(&'a str, u64)> {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| (row["path"].as_str().unwrap(), row[number].as_u64().unwrap())).collect()
}

fn sizes(tags: &Value) -> Vec<(&str, u64, u64)> {
    let tags = tags["biggest"].as_array().unwrap().iter();
    tags.map(|tag| {
        (tag["text"].as_str().unwrap(), tag["series"].as_u64().unwrap(), tag["values"].as_u64().unwrap())
    })
    .collect()
}

/// A daemon fifty days after its first points. `web.b.x` is still written, `web.a.x` was read, and
/// `web.new.x` is new.
fn used(setup: &mut Setup) -> Daemon {
    setup.schemas(SCHEMAS);
    let daemon = setup.clock(T0).start_for_commands();
    daemon.put(&points(&["web.a.x", "web.a.y", "web.b.x", "db.x"], T0));
    daemon.put(&points(&["load;host=h1", "load;host=h2", "load;dc=eu;host=h1"], T0));
    wait_until("all metrics", || costs(&daemon, &[])["total"]["metrics"] == 7);
    daemon.flush();
    daemon.set_clock(T0 + 50 * DAY);
    daemon.put(&points(&["web.b.x", "web.new.x"], T0 + 50 * DAY));
    wait_until("the new metric", || costs(&daemon, &[])["total"]["metrics"] == 8);
    daemon.flush();
    daemon.render("web.a.x", T0, T0 + 50 * DAY, T0 + 50 * DAY);
    wait_until("the read to be noted", || costs(&daemon, &[("days", "30")])["unread"]["metrics"] == 6);
    daemon
}

#[test]
fn what_is_big_and_what_is_new() {
    let mut setup = Setup::new();
    let daemon = used(&mut setup);
    let found = costs(&daemon, &[("tag", "host")]);
    assert_eq!((&found["complete"], &found["origin"]), (&json!(true), &json!("embedded")));
    assert_eq!(rows(&found["directories"]["rows"], "metrics"), [("web", 4), ("db", 1)]);
    assert_eq!(rows(&found["directories"]["rows"], "bytes"), [("web", 4 * WEB), ("db", OTHER)]);
    assert_eq!(found["total"]["bytes"], 4 * WEB + 4 * OTHER);
    assert_eq!((&found["tagged"]["metrics"], &found["tagged"]["bytes"]), (&json!(3), &json!(3 * OTHER)));
    let share = found["directories"]["rows"][0]["share"].as_f64().unwrap();
    assert!((0.97..0.99).contains(&share), "{share}");
    let measured: Value = serde_json::from_str(&setup.run_well(&["du", "--json", "web"])).unwrap();
    let stored = &found["directories"]["rows"][0]["stored_bytes"];
    assert_eq!(stored, &measured["bytes"], "as du measures it");
    assert!(stored.as_u64().unwrap() > 0);

    let newest = &found["newest"][0];
    assert_eq!(
        newest,
        &json!({
            "name": "web.new.x",
            "created_on": T0 + 50 * DAY,
            "retention": "1m:2d,1h:730d",
            "section": "web",
            "line": 1,
            "differs": false,
        })
    );
    assert!(found["schemas"].as_str().unwrap().ends_with("storage-schemas.conf"));
    assert_eq!(found["newest"].as_array().unwrap().len(), 8);

    let tags = &found["tags"];
    assert_eq!(sizes(&tags["tags"]), [("host", 3, 2), ("name", 3, 1), ("dc", 1, 1)]);
    assert_eq!((&tags["tag"], sizes(&tags["values"])), (&json!("host"), vec![("h1", 2, 0), ("h2", 1, 0)]));

    // Opening a directory, asking for deeper directories, and a limit on lists.
    let web = costs(&daemon, &[("under", "web")]);
    assert_eq!(rows(&web["directories"]["rows"], "metrics"), [("web.a", 2), ("web.b", 1), ("web.new", 1)]);
    assert_eq!((&web["total"]["metrics"], &web["tagged"]["metrics"]), (&json!(4), &json!(0)));
    let deep = costs(&daemon, &[("depth", "2"), ("limit", "1")]);
    assert_eq!(rows(&deep["directories"]["rows"], "metrics"), [("web.a", 2)]);
    assert_eq!((&deep["directories"]["total"], &deep["newest"][1]), (&json!(4), &Value::Null));
    let direct = costs(&daemon, &[("under", "web.a")]);
    assert_eq!(
        (&direct["directories"]["rows"][0]["direct"], rows(&direct["directories"]["rows"], "metrics")),
        (&json!(true), vec![("web.a", 2)])
    );
    assert_eq!(costs(&daemon, &[("under", "none")])["total"]["metrics"], 0);
    daemon.stop_well();
}

/// Checks the list of metrics that were not used for thirty days. A kill and a restart do not change the
/// list.
fn check_unused(daemon: &Daemon, setup: &Setup) {
    let found = costs(daemon, &[("days", "30")]);
    let number = |group: &str| found[group]["metrics"].as_u64().unwrap();
    assert_eq!((number("unwritten"), number("unread"), number("both")), (6, 6, 5), "{found}");
    assert_eq!(found["since"], T0 + 20 * DAY);
    assert_eq!(rows(&found["both"]["directories"], "both"), [("db", 1), ("web", 1)]);
    assert_eq!(rows(&found["unread"]["directories"], "unread"), [("web", 2), ("db", 1)]);
    assert_eq!(rows(&found["directories"]["rows"], "unwritten"), [("web", 2), ("db", 1)]);
    // The commands that the page offers list the same metrics, except for the tagged ones.
    let list = |options: &[&str]| -> Vec<String> {
        let arguments = [&["list"][..], options, &["**"][..]].concat();
        setup.run_well(&arguments).lines().map(str::to_owned).collect()
    };
    assert_eq!(list(&["--unread", "30d"]), ["db.x", "web.a.y", "web.b.x"]);
    assert_eq!(list(&["--silent", "30d"]), ["db.x", "web.a.x", "web.a.y"]);
    assert_eq!(list(&["--silent", "30d", "--unread", "30d"]), ["db.x", "web.a.y"]);
    let examples: Vec<&str> =
        found["both"]["examples"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(examples.contains(&"db.x") && examples.contains(&"web.a.y"), "{examples:?}");
}

#[test]
fn what_nobody_uses_is_known_after_a_kill() {
    let mut setup = Setup::new();
    let daemon = used(&mut setup);
    check_unused(&daemon, &setup);
    // Reads have not been recorded for 90 days yet.
    let early = costs(&daemon, &[("days", "90")]);
    assert_eq!(
        (&early["unread"], &early["total"]["unread"], &early["both"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    let why = early["missing"][0].as_str().unwrap();
    assert!(why.contains("reads have been recorded for 50 days only"), "{why}");
    daemon.kill();
    let daemon = setup.clock(T0 + 50 * DAY).start_for_commands();
    check_unused(&daemon, &setup);
    daemon.stop_well();
    let daemon = setup.start_for_commands();
    check_unused(&daemon, &setup);
    daemon.stop_well();
}

#[test]
fn without_names_in_memory_the_rest_is_answered() {
    const KEYSPACE: &str = "costs_sasi";
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", KEYSPACE);
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.components", "16").set("store.cassandra.request_timeout", "60s");
    setup.set("spool.linger", "100ms").set("engine.flush_interval", "1s").set("index.mode", "sasi");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    setup.schemas(SCHEMAS).clock(now);
    setup.run_well(&["syncdb"]);
    let daemon = setup.start();
    daemon.put(&points(&["web.a.x", "web.b.x", "db.x"], now));
    let found =
        wait_for("all metrics", || Some(costs(&daemon, &[])).filter(|found| found["total"]["metrics"] == 3));
    assert_eq!((&found["tags"], &found["origin"]), (&Value::Null, &json!("cassandra")));
    assert_eq!(found["missing"], json!(["tags need index.mode = \"memory\""]));
    assert_eq!(found["total"]["stored_bytes"], Value::Null);
    assert_eq!(rows(&found["directories"]["rows"], "metrics"), [("web", 2), ("db", 1)]);
    assert_eq!((&found["unread"]["metrics"], &found["unwritten"]["metrics"]), (&json!(0), &json!(0)));
    wait_until("the directory by the indexes of Cassandra", || {
        costs(&daemon, &[("under", "web")])["total"]["metrics"] == 2
    });
    daemon.stop_well();
    server.clean_up(KEYSPACE).unwrap();
}

#[test]
fn only_those_who_may_see_the_status_may_ask() {
    let mut setup = Setup::new();
    setup.clock(T0);
    let daemon = setup.start();
    for wrong in ["days=0", "depth=x", "limit=1000"] {
        assert_eq!(daemon.get(&format!("/plumbago/costs?{wrong}")).status, 400, "{wrong}");
    }
    daemon.stop_well();
    status::assert_open_as_the_status(&mut setup, "/plumbago/costs?days=1", "");
}
