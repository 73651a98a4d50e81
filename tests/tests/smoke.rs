//! `plumbago test`: sends a point to each listener, finds it, reads it back and deletes it.

use std::net::TcpListener;

use plumbago_tests::capture::own_address;
use plumbago_tests::daemon::Setup;
use plumbago_tests::wait::wait_until;
use serde_json::Value;

fn listening() -> Setup {
    let mut setup = Setup::new();
    for listener in ["ingest.line", "ingest.udp", "ingest.pickle", "ingest.protobuf", "ingest.http", "api"] {
        setup.set(&format!("{listener}.listen"), &own_address().to_string());
    }
    // The command also finds the admin port by this setting.
    setup.set("admin.listen", &own_address().to_string());
    setup
}

#[test]
fn every_listener_is_tested_and_nothing_is_left() {
    let mut setup = listening();
    let daemon = setup.set("api.url_prefix", "/graphite").start();
    let ended = setup.run(&["test"]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    for listener in ["line", "udp", "pickle", "protobuf", "http"] {
        let line = ended.output.lines().find(|line| line.starts_with(listener)).unwrap();
        assert!(line.contains("ok: found after"), "{line}");
    }
    let names = || daemon.get("/graphite/metrics/index.json").body;
    wait_until("the metrics to be gone", || !names().contains("plumbago.test"));

    let ended = setup.run(&["test", "--json", "--keep"]);
    let results: Value = serde_json::from_str(&ended.output).unwrap();
    assert!(results.as_array().unwrap().iter().all(|result| result["state"] == "ok"), "{results}");
    assert_eq!(names().matches("plumbago.test").count(), 5);
    daemon.stop_well();
    let ended = setup.run(&["test"]);
    assert_eq!(ended.status.code(), Some(4), "{}", ended.output);
    assert!(ended.output.contains("no daemon uses"), "{}", ended.output);
}

#[test]
fn a_listener_that_loses_its_points_is_named() {
    let mut setup = listening();
    let blacklist = setup.file("blacklist.conf", "^plumbago\\.test\\..*\\.pickle_\n");
    setup.set("ingest.blacklist", blacklist.to_str().unwrap());
    let carbon = TcpListener::bind("127.0.0.1:0").unwrap();
    setup.set("relay.destinations", &format!("line://{}", carbon.local_addr().unwrap()));
    // With users, the command sends the credentials of the operator.
    let users = setup.file("users", "ada:$2y$04$abcdefghijklmnopqrstuuPp7HPfoAs8I2dCQCQ/fW7zEJv8I8C8e\n");
    setup.set("api.users.file", users.to_str().unwrap());
    let daemon = setup.start();
    let ended = setup.run(&["test", "--patience", "8s"]);
    assert_eq!(ended.status.code(), Some(5), "{}", ended.output);
    let failed: Vec<&str> = ended.output.lines().filter(|line| line.contains("FAILED")).collect();
    assert_eq!(failed.len(), 1, "{}", ended.output);
    assert!(failed[0].starts_with("pickle") && failed[0].contains("/metrics/find"), "{}", failed[0]);
    assert!(ended.output.contains("the relay passed the points on to line://"), "{}", ended.output);
    daemon.stop_well();
}
