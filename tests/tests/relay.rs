//! `[relay]`: accepted points also arrive at real carbons and at other daemons.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use plumbago_tests::capture::{Capture, own_address};
use plumbago_tests::child::Guarded;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::Value;

use crate::senders::{SECONDS, connect, now, python_carbon, relayed, wait_for_points, whisper_fetch};

/// The ledger of the only destination, or of the one at `address`.
pub(crate) fn balance(daemon: &Daemon, address: &str) -> BTreeMap<String, u64> {
    let response = http::get(daemon.admin(), "/admin/ledger");
    let ledger: Value = serde_json::from_str(&response.body).unwrap();
    let lanes = ledger["relay"].as_array().unwrap();
    let lane = lanes.iter().find(|lane| lane["destination"] == address).unwrap();
    let numbers = lane.as_object().unwrap().iter().filter_map(|(key, n)| Some((key.clone(), n.as_u64()?)));
    numbers.collect()
}

/// Waits until everything was sent, and the ledger balances.
pub(crate) fn wait_sent(daemon: &Daemon, address: &str) -> BTreeMap<String, u64> {
    let mut seen = BTreeMap::new();
    wait_until("the relay to have sent everything", || {
        seen = balance(daemon, address);
        seen["waiting"] == 0
    });
    assert_eq!(seen["accepted"] + seen["recovered"], seen["sent"] + seen["dropped"], "{seen:?}");
    seen
}

/// A carbon-cache that accepts lines and pickles.
pub(crate) struct Carbon {
    directory: PathBuf,
    process: Guarded,
}

impl Carbon {
    /// Starts carbon-cache with its files in `directory`, and waits until it listens. `None` if carbon is not
    /// installed.
    pub(crate) fn start(directory: PathBuf, line: SocketAddr, pickle: SocketAddr) -> Option<Self> {
        let section = format!(
            "[cache]\nUSER =\nLINE_RECEIVER_INTERFACE = {}\nLINE_RECEIVER_PORT = {}\nPICKLE_RECEIVER_INTERFACE = {}\n\
             PICKLE_RECEIVER_PORT = {}\nENABLE_UDP_LISTENER = False\nCACHE_QUERY_PORT = 0\n\
             CARBON_METRIC_INTERVAL = 0\nENABLE_TAGS = False\nMAX_UPDATES_PER_SECOND = inf\n\
             MAX_CREATES_PER_MINUTE = inf\nWHISPER_AUTOFLUSH = True\n",
            line.ip(),
            line.port(),
            pickle.ip(),
            pickle.port()
        );
        let mut process = python_carbon(&directory, "carbon-cache", &section)?;
        connect(line, &mut process);
        Some(Self { directory, process })
    }

    /// The directory with its whisper files.
    pub(crate) fn whisper(&self) -> PathBuf {
        self.directory.join("storage/whisper")
    }

    /// Sends SIGTERM and waits until carbon-cache has ended.
    pub(crate) fn stop(mut self) {
        self.process.signal(Signal::SIGTERM);
        self.process.wait();
    }

    /// Waits until carbon has written exactly the numbers that the daemon has.
    fn wait_same(&self, daemon: &Daemon, prefix: &str, points: &[Point]) {
        let (from, until) = (points[0].timestamp - 20, points[0].timestamp + 60);
        for metric in 0..12 {
            let path = format!("storage/whisper/{prefix}/m{metric}/value.wsp");
            let name = format!("{prefix}.m{metric}.value");
            wait_until(&format!("carbon to write {name}"), || {
                let ours = daemon.render(&name, from, until, now());
                let ours = ours.first().map(|series| series.known()).unwrap_or_default();
                ours.len() == 40 && ours == whisper_fetch(&self.directory.join(&path), from, until)
            });
        }
    }
}

#[test]
fn carbon_caches_get_every_point_as_lines_and_as_pickles() {
    let mut setup = Setup::new();
    let ports = [own_address(), own_address(), own_address(), own_address()];
    let directory = |name: &str| setup.path().join(name);
    let Some(lines) = Carbon::start(directory("lines"), ports[0], ports[1]) else { return };
    let Some(pickles) = Carbon::start(directory("pickles"), ports[2], ports[3]) else { return };
    let destinations = format!("line://{},pickle://{}", ports[0], ports[3]);
    let daemon = setup.schemas(SECONDS).set("relay.destinations", &destinations).start();
    let points = relayed("relayed");
    daemon.sender().send(&points);
    wait_for_points(&daemon, &points);
    lines.wait_same(&daemon, "relayed", &points);
    pickles.wait_same(&daemon, "relayed", &points);
    for address in [ports[0], ports[3]] {
        let balance = wait_sent(&daemon, &address.to_string());
        assert_eq!((balance["accepted"], balance["dropped"]), (points.len() as u64, 0));
    }
    daemon.stop_well();
}

fn tls(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ingest/testdata/tls").join(file);
    path.to_str().unwrap().to_owned()
}

#[test]
fn points_go_on_over_tls() {
    let mut second = Setup::new();
    second.set("ingest.pickle.tls.cert", &tls("server.pem")).set("ingest.pickle.tls.key", &tls("server.key"));
    let second = second.schemas(SECONDS).start();
    let address = second.address("pickle tcp");
    let mut setup = Setup::new();
    setup.set("relay.destinations", &format!("pickle+tls://{address}")).set("relay.ca", &tls("ca.pem"));
    let daemon = setup.schemas(SECONDS).start();
    let points = relayed("secret");
    daemon.sender().send(&points);
    wait_for_points(&second, &points);
    wait_sent(&daemon, &address.to_string());
    daemon.stop_well();
    second.stop_well();
}

/// The names of the points that a destination has received.
fn names(capture: &Capture) -> Vec<String> {
    let mut names: Vec<String> = capture.points().into_iter().map(|point| point.name).collect();
    names.sort();
    names
}

#[test]
fn rules_choose_the_destinations_and_are_reloaded() {
    let (a, b) = (Capture::start(), Capture::start());
    let mut setup = Setup::new();
    let rules = |first: SocketAddr, second: SocketAddr| {
        format!(
            "[web]\npattern = ^WEB\\.\ndestinations = {first}:a\n[other]\ndefault = true\ndestinations = {second}\n"
        )
    };
    let file = setup.file("relay-rules.conf", &rules(a.address(), b.address()));
    setup.set("relay.destinations", &format!("line://{},line://{}", a.address(), b.address()));
    let daemon = setup.set("relay.rules", file.to_str().unwrap()).schemas(SECONDS).start();
    let send = |names: &[&str]| {
        let points: Vec<Point> = names.iter().map(|name| Point::new(*name, now(), 1.0)).collect();
        daemon.sender().send(&points);
    };
    send(&["web.1", "db.1"]);
    wait_until("both points", || names(&a) == ["web.1"] && names(&b) == ["db.1"]);

    // A file that cannot be used leaves the old rules in effect.
    std::fs::write(&file, "[web]\npattern = (\ndestinations = nowhere:1\n").unwrap();
    daemon.signal(Signal::SIGHUP);
    wait_until("the refusal in the log", || {
        daemon.log().contains("the old rules of the relay stay in effect")
    });
    assert!(daemon.log().contains("nowhere:1 is not in relay.destinations"), "{}", daemon.log());
    send(&["web.2", "db.2"]);
    wait_until("both points", || names(&a).len() == 2 && names(&b).len() == 2);

    std::fs::write(&file, rules(b.address(), a.address())).unwrap();
    daemon.signal(Signal::SIGHUP);
    wait_until("the new rules in the log", || {
        daemon.log().contains("the file of relay.rules was read again")
    });
    send(&["web.3", "db.3"]);
    wait_until("both points", || {
        names(&a) == ["db.3", "web.1", "web.2"] && names(&b) == ["db.1", "db.2", "web.3"]
    });
    daemon.stop_well();
}

#[test]
fn rules_that_cannot_be_used_are_refused_at_the_start_with_all_lines() {
    let mut setup = Setup::new();
    let file = setup
        .file("relay-rules.conf", "[web]\npattern = (\ndestinations = nowhere:1\n[x]\ndefault = maybe\n");
    setup.set("relay.destinations", "line://127.0.0.1:1").set("relay.rules", file.to_str().unwrap());
    for command in [&["config", "check"][..], &["serve"]] {
        let ended = setup.run(command);
        assert_eq!(ended.status.code(), Some(3), "{}", ended.output);
        for part in [
            "relay-rules.conf:2: [web] ",
            "nowhere:1 is not in relay.destinations",
            "[x] no destinations",
            "maybe",
            "relay-rules.conf: no section has",
        ] {
            assert!(ended.output.contains(part), "{part} in {}", ended.output);
        }
    }
}
