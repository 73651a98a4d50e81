//! `index.mode = "sasi"`: a daemon that loads no names answers like one that has all names in memory.

use std::time::{SystemTime, UNIX_EPOCH};

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::{wait_ok, wait_until};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::{Value, json};

use crate::interop::globs::{Globs, names};

pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 / 60 * 60
}

pub(crate) fn setup(keyspace: &str, mode: &str, now: i64) -> Setup {
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.keyspace", keyspace);
    setup.set("store.cassandra.contact_points", &server::for_tests().unwrap().contact_point());
    setup.set("store.cassandra.components", "16").set("store.cassandra.request_timeout", "60s");
    setup.set("spool.linger", "100ms").set("engine.flush_interval", "1s").set("index.mode", mode);
    setup.schemas("[all]\npattern = .*\nretentions = 60s:1d,10m:30d\n").clock(now);
    setup
}

pub(crate) fn syncdb(setup: &Setup) {
    let ended = setup.run(&["syncdb"]);
    assert!(ended.status.success(), "{}", ended.output);
}

pub(crate) fn sent(daemon: &Daemon) {
    daemon.flush();
    wait_until("the spool to be empty", || daemon.counters().sum("plumbago_spool_pending_rows") == 0);
}

/// Waits until both answers are equal. A busy server silently leaves out index files that it could not search
/// in time, so an incomplete answer is requested again.
fn assert_alike(memory: &Daemon, sasi: &Daemon, path: &str) -> String {
    let expected = memory.get(path);
    wait_ok(path, || {
        let found = sasi.get(path);
        let alike = (found.status, &found.body) == (expected.status, &expected.body);
        if alike { Ok(()) } else { Err(format!("{found:?} instead of {expected:?}")) }
    });
    expected.body
}

#[test]
fn both_modes_answer_alike() {
    const KEYSPACE: &str = "sasi_daemon";
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let now = now();
    let (in_memory, by_sasi) = (setup(KEYSPACE, "memory", now), setup(KEYSPACE, "sasi", now));
    syncdb(&in_memory);
    let memory = in_memory.start();
    let mut random = SmallRng::seed_from_u64(71);
    let names: Vec<String> = names(&mut random).into_iter().step_by(5).collect();
    let points: Vec<Point> =
        (1..4).flat_map(|age| names.iter().map(move |n| Point::new(n, now - 60 * age, age as f64))).collect();
    memory.put(&points);
    let refused = memory.ledger().rejected / 3;
    memory.wait_names(names.len() - refused as usize);
    sent(&memory);
    let sasi = by_sasi.start();

    let all: Vec<String> =
        serde_json::from_str(&assert_alike(&memory, &sasi, "/metrics/index.json")).unwrap();
    assert_eq!(all.len(), names.len() - refused as usize);
    let mut globs = Globs { random, names: &all, plain: false };
    let mut hits = 0;
    for turn in 0..250 {
        let glob = globs.next();
        let find =
            http::url("/metrics/find", &[("query", &glob), ("format", "json"), ("now", &now.to_string())]);
        hits += usize::from(assert_alike(&memory, &sasi, &find).contains("true"));
        let leaves = if turn % 2 == 0 { "1" } else { "0" };
        assert_alike(
            &memory,
            &sasi,
            &http::url("/metrics/expand", &[("query", &glob), ("leavesOnly", leaves)]),
        );
        if turn % 10 == 0 {
            let (from, until) = ((now - 600).to_string(), now.to_string());
            let times = [("from", from.as_str()), ("until", &until), ("now", &until), ("format", "raw")];
            let target = [("target", glob.as_str())];
            assert_alike(&memory, &sasi, &http::url("/render", &[&target[..], &times[..]].concat()));
        }
    }
    assert!(hits > 80, "{hits} globs found a metric");
    let series = sasi.render(&all[0], now - 600, now, now);
    assert_eq!(series[0].known().len(), 3, "{series:?}");

    // The daemon loads no names, but both daemons find a metric that it creates.
    assert_eq!(sasi.counters().sum("plumbago_engine_metrics"), 0);
    sasi.put(&[Point::new("late.comer", now, 5.0)]);
    for daemon in [&memory, &sasi] {
        wait_until("the new metric", || {
            daemon.get("/metrics/expand?query=late.*").body.contains("late.comer")
        });
    }
    assert_eq!(sasi.render("late.*", now - 600, now, now)[0].known().values().copied().sum::<f64>(), 5.0);
    let refused = sasi.get("/tags");
    assert!(refused.status == 403 && refused.body.contains("index.mode"), "{refused:?}");
    let refused = sasi.get("/render?target=seriesByTag('a=b')");
    assert!(refused.status == 403 && refused.body.contains("index.mode"), "{refused:?}");
    the_page_is_served(&sasi);

    sasi.stop_well();
    let sasi = by_sasi.start();
    assert_alike(&memory, &sasi, "/metrics/index.json");
    // The gauge is updated once a second.
    wait_until("its own metric", || sasi.counters().sum("plumbago_engine_metrics") == 1);
    sasi.stop_well();
    memory.stop_well();
    server.clean_up(KEYSPACE).unwrap();
}

/// The page's tree works without counts, and its search reports which setting it needs.
fn the_page_is_served(sasi: &Daemon) {
    let browse = |query: &str| -> Value {
        let answer = sasi.get(&format!("/plumbago/browse?{query}"));
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    };
    let comer = json!([{"name": "comer", "leaf": true, "branch": false, "metrics": 0}]);
    wait_until("the children", || {
        let found = browse("path=late");
        (&found["total"], &found["children"]) == (&json!(1), &comer)
    });
    wait_until("the directories", || {
        let found = browse("filter=LAT");
        found["children"] == json!([{"name": "late", "leaf": false, "branch": true, "metrics": null}])
    });
    let refused = sasi.get("/plumbago/search?query=comer");
    assert!(refused.status == 403 && refused.body.contains("index.mode = \"memory\""), "{refused:?}");
}

#[test]
fn without_sasi_indexes_it_says_what_to_set() {
    const KEYSPACE: &str = "sasi_none";
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let mut setup = setup(KEYSPACE, "sasi", now());
    setup.set("store.cassandra.indexes", "none").set("store.cassandra.components", "4");
    syncdb(&setup);
    let daemon = setup.start();
    let ready = || http::get(daemon.admin(), "/readyz");
    for text in ["sasi_indexes_enabled", "syncdb", "index.mode"] {
        wait_until("the problem to be reported", || ready().status == 503 && ready().body.contains(text));
    }
    let refused = daemon.get("/metrics/find?query=*");
    assert!(refused.status == 503 && refused.body.contains("index.mode"), "{refused:?}");

    setup.set("store.cassandra.indexes", "sasi");
    syncdb(&setup);
    wait_until("the indexes to be used", || ready().status == 200);
    assert_eq!(daemon.get("/metrics/find?query=*").body, "[]");
    daemon.stop_well();
    server.clean_up(KEYSPACE).unwrap();
}

#[test]
fn only_cassandra_has_sasi() {
    let mut setup = Setup::new();
    setup.set("index.mode", "sasi");
    let ended = setup.run(&["config", "check"]);
    assert!(!ended.status.success() && ended.output.contains("index.mode"), "{}", ended.output);
}
