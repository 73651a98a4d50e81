//! Events with `cluster.peers`: the answer of each daemon contains the events of all.

use std::collections::BTreeSet;

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http::{self, url};
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

use crate::peers::{counter, setups};

const NOW: i64 = 1_700_000_100;

fn post(daemon: &Daemon, what: &str, when: i64, tags: &[&str]) {
    let event = json!({ "what": what, "when": when, "tags": tags, "data": format!("data of {what}") });
    let (status, answer) = http::post_json(daemon.api(), "/events/", &event);
    assert_eq!(status, 200, "{answer}");
}

/// The answer of `/events/get_data`.
fn events(daemon: &Daemon, parameters: &[(&str, &str)]) -> Vec<Value> {
    let answer = daemon.get(&url("/events/get_data", parameters));
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

/// The titles in that answer, sorted.
fn titles(daemon: &Daemon, parameters: &[(&str, &str)]) -> Vec<String> {
    let found = events(daemon, parameters);
    let mut titles: Vec<String> =
        found.iter().map(|event| event["what"].as_str().unwrap().to_owned()).collect();
    titles.sort_unstable();
    titles
}

fn ready(daemon: &Daemon) -> String {
    let response = http::get(daemon.admin(), "/readyz");
    assert_eq!(response.status, 200, "{response:?}");
    response.body
}

/// Checks the answers of three daemons, which must all have all events.
fn check_all(daemons: &[&Daemon]) {
    let all = events(daemons[0], &[]);
    let ids: BTreeSet<u64> = all.iter().map(|event| event["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), all.len(), "{all:?}");
    for daemon in daemons {
        let (from, until) = ((NOW - 60).to_string(), (NOW - 30).to_string());
        assert_eq!(events(daemon, &[]), all);
        let everything = ["both", "both", "deploy", "no tags", "old one", "old two", "restart"];
        assert_eq!(titles(daemon, &[]), everything);
        let range = [("from", from.as_str()), ("until", until.as_str())];
        assert_eq!(titles(daemon, &range), ["deploy", "no tags", "restart"]);
        assert_eq!(titles(daemon, &[range[0]]), ["both", "both", "deploy", "no tags", "restart"]);
        assert_eq!(
            titles(daemon, &[("tags", "web")]),
            ["both", "both", "deploy", "old one", "old two", "restart"]
        );
        assert_eq!(titles(daemon, &[("tags", "web db")]), ["restart"]);
        assert_eq!(titles(daemon, &[("tags", "prod db"), ("set", "union")]), ["deploy", "restart"]);
        assert_eq!(titles(daemon, &[("tags", "web prod"), ("set", "intersection")]), ["deploy"]);
        assert_eq!(titles(daemon, &[("tags", "nobody")]), [""; 0]);
        for event in &all {
            let one = daemon.get(&format!("/events/{}", event["id"]));
            let one: Value = serde_json::from_str(&one.body).unwrap();
            for field in ["id", "what", "data", "tags"] {
                assert_eq!(one[field], event[field]);
            }
        }
        assert_eq!(daemon.get("/events/1").status, 404);
        let series = daemon.render("events('web')", NOW - 90, NOW, NOW);
        let counts = series[0].known().into_iter().collect::<Vec<_>>();
        assert_eq!(counts, [(NOW - 60, 1.0), (NOW - 30, 1.0), (NOW - 10, 2.0)]);
    }
}

/// Writes an event into the file in the format of the version whose events had no origin.
fn old_event(setup: &Setup, what: &str) {
    std::fs::create_dir_all(setup.data()).unwrap();
    let event = json!({ "id": 1, "when": NOW - 7200, "what": what, "data": "", "tags": ["web"] });
    std::fs::write(setup.data().join("events.jsonl"), format!("{event}\n")).unwrap();
}

#[test]
fn events_of_all_daemons() {
    const KEYSPACE: &str = "peers_events";
    let Some(mut setups) = setups(KEYSPACE, &[0, 1, 0], NOW) else { return };
    old_event(&setups[0], "old one");
    old_event(&setups[1], "old two");
    // This daemon accepts no events itself.
    setups[2].set("api.events_bytes", "0B");
    let [one, two, reader] = [&setups[0], &setups[1], &setups[2]].map(Setup::start);
    post(&one, "deploy", NOW - 60, &["web", "prod"]);
    post(&two, "restart", NOW - 30, &["web", "db"]);
    post(&one, "no tags", NOW - 30, &[]);
    // A sender that posts an event to two daemons creates two events.
    post(&one, "both", NOW - 10, &["web"]);
    post(&two, "both", NOW - 10, &["web"]);
    check_all(&[&one, &two, &reader]);
    assert!(!ready(&reader).contains("peer "), "{}", ready(&reader));
    let all = events(&reader, &[]);

    // Requests of an unknown version are refused, and so are requests without the token.
    let unknown = http::request(one.admin(), "POST", "/admin/heads", &one.authorization(), "PEQ9");
    assert_eq!(unknown.status, 503, "{unknown:?}");
    assert!(unknown.body.contains("protocol version"), "{unknown:?}");
    assert_eq!(http::post(one.admin(), "/admin/heads", "PEQ1").status, 401);

    // If one daemon is missing, the others answer with the events that they know, and name the missing
    // daemon.
    let address = two.admin().to_string();
    two.kill();
    for daemon in [&one, &reader] {
        assert_eq!(titles(daemon, &[]), ["both", "deploy", "no tags", "old one"]);
        assert!(counter(daemon, "plumbago_peer_failed_requests_total") > 0);
        let ready = ready(daemon);
        assert!(ready.contains(&format!("peer {address}")) && ready.contains("its events"), "{ready}");
        let restart = all.iter().find(|event| event["what"] == "restart").unwrap();
        assert_eq!(daemon.get(&format!("/events/{}", restart["id"])).status, 404);
    }
    let two = setups[1].start();
    check_all(&[&one, &two, &reader]);
    assert_eq!(events(&reader, &[]), all, "ids outlive a restart");
    for daemon in [&one, &reader] {
        assert!(!ready(daemon).contains("peer "), "{}", ready(daemon));
    }

    // Peers refuse a daemon that has another token.
    reader.stop_well();
    let stranger = setups[2].set("cluster.token", "a token that nobody else has").start();
    assert_eq!(titles(&stranger, &[]), [""; 0]);
    wait_until("the refusal to be reported", || ready(&stranger).contains("401"));
    for daemon in [one, two, stranger] {
        daemon.stop_well();
    }
    server::for_tests().unwrap().clean_up(KEYSPACE).unwrap();
}
