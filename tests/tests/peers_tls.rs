//! `cluster.ca`: peers with encrypted admin ports, and the messages about a wrong certificate, a wrong name or
//! missing encryption.

use std::path::{Path, PathBuf};

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

use crate::peers::setups;

const KEYSPACE: &str = "peers_tls";
const NOW: i64 = 1_700_000_400;

fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(path)
}

/// The value that the reader returns.
fn seen(reader: &Daemon) -> Option<f64> {
    let series = reader.render("load.a.sum.x0.m", NOW - 60, NOW, NOW);
    series.first().and_then(|series| series.known().into_values().next())
}

fn ready(reader: &Daemon) -> String {
    let response = http::get(reader.admin(), "/readyz");
    assert_eq!(response.status, 200, "{response:?}");
    response.body
}

/// With these settings the reader gets no answer from its peer. `/readyz` and the log contain `wanted`.
fn complains(setup: &Setup, wanted: &[&str]) {
    let reader = setup.start();
    reader.wait_names(1);
    assert_eq!(seen(&reader), None, "{wanted:?}");
    let ready = ready(&reader);
    for text in wanted {
        assert!(ready.contains(text), "{text:?} is not in {ready}");
        assert!(reader.log().contains(text), "{text:?} is not in {}", reader.log());
    }
    reader.stop_well();
}

#[test]
fn peers_are_asked_over_tls() {
    let Some(setups) = setups(KEYSPACE, &[0, 0, 0], NOW) else { return };
    let [mut reader, mut writer, plain] = <[Setup; 3]>::try_from(setups).unwrap();
    // The peer also listens on an address that is not in its certificate.
    writer.set("admin.listen", "0.0.0.0:0");
    writer.set("admin.tls.cert", data("ingest/testdata/tls/server.pem").to_str().unwrap());
    writer.set("admin.tls.key", data("ingest/testdata/tls/server.key").to_str().unwrap());
    let writer = writer.start();
    let port = writer.admin().port();
    writer.sender().send(&[Point::new("load.a.sum.x0.m", NOW, 42.0)]);
    writer.wait_names(1);

    let (ours, other) = (data("ingest/testdata/tls/ca.pem"), data("api/testdata/localhost.pem"));
    let (ours, other) = (ours.to_str().unwrap(), other.to_str().unwrap());
    let peer = format!("127.0.0.1:{port}");
    let good = reader.set("cluster.peers", &peer).set("cluster.ca", ours).start();
    wait_until("the point of the peer", || seen(&good) == Some(42.0));
    assert!(!ready(&good).contains("peer "), "{}", ready(&good));
    good.stop_well();

    // Another authority signed the certificate.
    complains(reader.set("cluster.ca", other), &[&peer, "cluster.ca", other, "UnknownIssuer"]);
    // The certificate is for another address.
    let misnamed = format!("127.0.0.2:{port}");
    reader.set("cluster.peers", &misnamed).set("cluster.ca", ours);
    complains(&reader, &[&misnamed, "cluster.ca", "not valid for name", "127.0.0.2"]);
    // The reader connects without encryption.
    complains(reader.set("cluster.peers", &peer).unset("cluster.ca"), &[&peer, "encrypted", "cluster.ca"]);
    // The writer is killed, so that its points do not reach the server.
    writer.kill();

    // The peer does not use encryption.
    let plain = plain.start();
    let peer = plain.admin().to_string();
    complains(reader.set("cluster.peers", &peer).set("cluster.ca", ours), &[&peer, "cluster.ca", "TLS"]);
    plain.stop_well();

    // With a missing file the daemon does not start.
    let ended = reader.set("cluster.ca", "/nowhere/ca.pem").run(&["serve"]);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.output);
    assert!(
        ended.output.contains("cluster.ca") && ended.output.contains("/nowhere/ca.pem"),
        "{}",
        ended.output
    );
    server::for_tests().unwrap().clean_up(KEYSPACE).unwrap();
}
