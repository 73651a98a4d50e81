//! The port of OpenTSDB's lines: points, answers, and requests on the same port.

use std::io::{Read, Write};
use std::net::TcpStream;

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::wait::HANG;

const NOW: i64 = 1_700_000_000;

/// Starts a daemon. Returns it with its setup.
fn start() -> (Setup, Daemon) {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1h,60s:1d\n").clock(NOW);
    setup.set("ingest.opentsdb.listen", "127.0.0.1:0").set("api.point_writes", "true");
    let daemon = setup.start();
    (setup, daemon)
}

fn connect(daemon: &Daemon) -> TcpStream {
    let stream = TcpStream::connect(daemon.address("opentsdb tcp")).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream
}

/// Sends lines and `exit`, and returns the answer.
fn talk(daemon: &Daemon, lines: &str) -> Vec<String> {
    let mut stream = connect(daemon);
    stream.write_all(format!("{lines}exit\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().map(str::to_owned).collect()
}

fn points(daemon: &Daemon, name: &str) -> Vec<(i64, f64)> {
    daemon.wait_points(name, NOW - 100, NOW)
}

#[test]
fn good_lines_are_taken_in_silence() {
    let (_setup, daemon) = start();
    let lines = format!(
        "put m {NOW} 1 h=a\r\nputm m {NOW}000 2 h=b\nput  m\t{NOW}123 .5 h=c kairos_opt.ttl=60\nput plain {NOW} 1e3\n\
         put m {}.250 7 h=é\n",
        NOW - 1
    );
    assert_eq!(talk(&daemon, &lines), Vec::<String>::new());
    daemon.applied_at(5);
    for (name, time, value) in [
        ("m;h=a", NOW, 1.0),
        ("m;h=b", NOW, 2.0),
        ("m;h=c", NOW, 0.5),
        ("plain", NOW, 1000.0),
        ("m;h=é", NOW - 1, 7.0),
    ] {
        assert_eq!(points(&daemon, name), [(time, value)], "{name}");
    }
    let counters = daemon.counters();
    assert_eq!(counters.sum("plumbago_ingest_cut_milliseconds_total"), 2);
    assert_eq!(counters.sum("plumbago_ingest_ignored_ttl_total"), 1);
    daemon.stop_well();
}

#[test]
fn bad_lines_are_answered_and_the_rest_is_taken() {
    let (_setup, daemon) = start();
    let lines =
        format!("put m {NOW} x h=a\nputs m {NOW} text h=a\nfoo\nput m {NOW} 1 h=a h=b\nput m {NOW} 3 h=a\n");
    let answers = talk(&daemon, &lines);
    let starts =
        ["put: invalid value: x", "puts: ", "unknown command: foo.", "put: illegal argument: duplicate tag"];
    assert_eq!(answers.len(), starts.len(), "{answers:?}");
    for (answer, start) in answers.iter().zip(starts) {
        assert!(answer.starts_with(start), "{answer}");
    }
    assert!(talk(&daemon, "version\n")[0].starts_with("KairosDB"));
    assert_eq!(points(&daemon, "m;h=a"), [(NOW, 3.0)]);
    let ledger = daemon.ledger_at(5);
    assert_eq!(ledger.rejected, 4);
    daemon.stop_well();
}

#[test]
fn a_client_that_never_reads_keeps_nobody_waiting() {
    let (_setup, daemon) = start();
    let mut silent = connect(&daemon);
    // Each line has an answer; all answers together are far more than socket buffers hold.
    let bad = format!("{}\n", "x".repeat(60)).repeat(10_000);
    let before = daemon.memory("VmRSS");
    for _ in 0..20 {
        silent.write_all(bad.as_bytes()).unwrap();
    }
    silent.write_all(format!("put last {NOW} 1 h=a\n").as_bytes()).unwrap();
    assert_eq!(points(&daemon, "last;h=a"), [(NOW, 1.0)]);
    // A line that never ends is not kept in memory either.
    let mut endless = connect(&daemon);
    for _ in 0..20 {
        endless.write_all(&[b'a'; 1 << 20]).unwrap();
    }
    assert_eq!(talk(&daemon, &format!("put other {NOW} 1 h=a\n")), Vec::<String>::new());
    let grown = daemon.memory("VmRSS").saturating_sub(before);
    assert!(grown < 64 << 20, "{grown}");
    daemon.stop_well();
}

#[test]
fn requests_are_served_on_the_same_port() {
    let (_setup, daemon) = start();
    let address = daemon.address("opentsdb tcp");
    let body = format!(r#"[{{"metric":"m","timestamp":{NOW},"value":"7","tags":{{"h":"a"}}}}]"#);
    assert_eq!(http::request(address, "POST", "/api/put", "", &body).status, 204);
    assert_eq!(points(&daemon, "m;h=a"), [(NOW, 7.0)]);
    let version = http::get(address, "/api/v1/version");
    assert!(version.body.contains("KairosDB"), "{}", version.body);
    // A connection that stays open does not prevent the daemon from stopping.
    let mut open = connect(&daemon);
    open.write_all(b"GET /api/v1/version HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut first = [0; 12];
    open.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    daemon.stop_well();
}
