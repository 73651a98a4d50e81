//! Real senders send to the daemon. Their points are read back through Graphite's API.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use plumbago_tests::capture::{Capture, own_address};
use plumbago_tests::child::Guarded;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http::url;
use plumbago_tests::send::{Point, lines};
use plumbago_tests::wait::{wait_for, wait_until};
use serde_json::Value;

pub(crate) const SECONDS: &str = "[all]\npattern = .*\nretentions = 1s:1h,10s:1d\n";

pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

/// Waits until the API returns every point, bit for bit. The last point of a slot replaces the earlier ones.
pub(crate) fn wait_for_points(daemon: &Daemon, points: &[Point]) {
    let mut wanted: BTreeMap<&str, BTreeMap<i64, f64>> = BTreeMap::new();
    for point in points {
        wanted.entry(&point.name).or_default().insert(point.timestamp, point.value);
    }
    for (name, slots) in wanted {
        let (first, last) = (slots.first_key_value().unwrap().0, slots.last_key_value().unwrap().0);
        let mut seen = BTreeMap::new();
        wait_until(&format!("the {} points of {name}", slots.len()), || {
            let series = daemon.render(name, first - 1, *last, now());
            seen = series.first().map(|s| s.known()).unwrap_or_default();
            slots.iter().all(|(t, v)| seen.get(t).is_some_and(|s| s.to_bits() == v.to_bits()))
        });
    }
}

/// The names of the nodes that `/metrics/find` returns.
fn find(daemon: &Daemon, query: &str) -> Vec<String> {
    let answer = daemon.get(&url("/metrics/find", &[("query", query)]));
    let nodes: Vec<Value> = serde_json::from_str(&answer.body).unwrap();
    nodes.iter().map(|n| n["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn collectd() {
    let Some((mut command, root)) = counterpart::debian("collectd") else { return };
    let mut setup = Setup::new();
    let daemon = setup.schemas(SECONDS).start();
    let capture = Capture::start();
    let node = |name: &str, address: SocketAddr| {
        format!(
            "  <Node \"{name}\">\n    Host \"127.0.0.1\"\n    Port \"{}\"\n    Protocol \"tcp\"\n    Prefix \"collectd.\"\n  </Node>\n",
            address.port()
        )
    };
    let base = setup.path().join("collectd");
    std::fs::create_dir(&base).unwrap();
    let configuration = setup.file(
        "collectd.conf",
        &format!(
            "Hostname \"host.example\"\nFQDNLookup false\nInterval 1\nBaseDir \"{0}\"\nPIDFile \"{0}/pid\"\n\
             PluginDir \"{1}/usr/lib/collectd\"\nTypesDB \"{1}/usr/share/collectd/types.db\"\n\
             LoadPlugin load\nLoadPlugin memory\nLoadPlugin cpu\nLoadPlugin uptime\nLoadPlugin write_graphite\n\
             <Plugin write_graphite>\n{2}{3}</Plugin>\n",
            base.display(),
            root.display(),
            node("plumbago", daemon.line()),
            node("capture", capture.address()),
        ),
    );
    command.arg("-f").arg("-C").arg(configuration);
    let mut collectd = Guarded::start(command, &base.join("log"));
    wait_until("four seconds of collectd's points", || {
        let points = capture.points();
        points.iter().filter(|p| p.name.ends_with("load.load.shortterm")).count() >= 4
    });
    collectd.signal(Signal::SIGTERM);
    collectd.wait();

    let points = capture.points();
    wait_for_points(&daemon, &points);
    assert_eq!(find(&daemon, "collectd.*"), ["host_example"]);
    let plugins = find(&daemon, "collectd.host_example.*");
    for plugin in ["load", "memory", "cpu-0", "uptime"] {
        assert!(plugins.iter().any(|p| p == plugin), "{plugin} is not among {plugins:?}");
    }
    assert!(find(&daemon, "collectd.host_example.memory.*").contains(&"memory-free".to_owned()));
    daemon.stop_well();
}

/// Points for a relay: several metrics, recent timestamps, integers and fractions of every size.
pub(crate) fn relayed(prefix: &str) -> Vec<Point> {
    let start = now() - 100;
    let value = |m: i64, s: i64| match m % 4 {
        0 => (m * 100 + s) as f64,
        1 => (m + s) as f64 / 8.0,
        2 => -1.0 / (s + 3) as f64,
        _ => 1e12 + s as f64,
    };
    let metrics = 0..12;
    metrics
        .flat_map(|m| (0..40).map(move |s| (m, s)))
        .map(|(m, s)| Point::new(format!("{prefix}.m{m}.value"), start + s, value(m, s)))
        .collect()
}

/// Rounds values to ten decimals, as a carbon relay does when it sends lines.
fn ten_decimals(points: &[Point]) -> Vec<Point> {
    points.iter().map(|p| Point { value: format!("{:.10}", p.value).parse().unwrap(), ..p.clone() }).collect()
}

/// Connects to a program that is still starting.
pub(crate) fn connect(address: SocketAddr, program: &mut Guarded) -> TcpStream {
    wait_for("a relay to listen", || {
        assert!(program.runs(), "it ended: {}", program.output());
        TcpStream::connect(address).ok()
    })
}

/// Starts a daemon of the Python carbon in a directory of its own. Uses the storage-aggregation.conf in the
/// directory, if there is one.
pub(crate) fn python_carbon(directory: &Path, program: &str, section: &str) -> Option<Guarded> {
    let mut command = counterpart::python_script(&format!("{program}.py"))?;
    let conf = directory.join("conf");
    std::fs::create_dir_all(&conf).unwrap();
    std::fs::write(conf.join("carbon.conf"), section).unwrap();
    std::fs::write(conf.join("storage-schemas.conf"), SECONDS).unwrap();
    let aggregation = conf.join("storage-aggregation.conf");
    if !aggregation.exists() {
        std::fs::write(aggregation, "").unwrap();
    }
    command.arg("--config").arg(conf.join("carbon.conf"));
    command.arg("--nodaemon").arg("--pidfile").arg(directory.join("pid")).arg("start");
    command.env("GRAPHITE_ROOT", directory).env("PYTHONDONTWRITEBYTECODE", "1");
    Some(Guarded::start(command, &directory.join("log")))
}

fn relay_section(address: SocketAddr, destination: SocketAddr, protocol: &str) -> String {
    let (host, port) = (address.ip(), address.port());
    format!(
        "[relay]\nUSER =\nLINE_RECEIVER_INTERFACE = {host}\nLINE_RECEIVER_PORT = {port}\nPICKLE_RECEIVER_PORT = 0\n\
         RELAY_METHOD = consistent-hashing\nREPLICATION_FACTOR = 1\nDESTINATIONS = {destination}:a\n\
         DESTINATION_PROTOCOL = {protocol}\nCARBON_METRIC_INTERVAL = 1\n"
    )
}

fn python_relay(protocol: &str, listener: &str) {
    let mut setup = Setup::new();
    let daemon = setup.schemas(SECONDS).start();
    let address = own_address();
    let section = relay_section(address, daemon.address(listener), protocol);
    let Some(mut relay) = python_carbon(&setup.path().join("relay"), "carbon-relay", &section) else {
        return;
    };
    let points = relayed("relayed");
    connect(address, &mut relay).write_all(lines(&points).as_bytes()).unwrap();
    wait_for_points(&daemon, &if protocol == "line" { ten_decimals(&points) } else { points });
    // The relay sends its own metrics too.
    wait_until("the relay's own metrics", || {
        find(&daemon, "carbon.relays.*.*").contains(&"metricsReceived".to_owned())
    });
    let counters = daemon.counters();
    assert_eq!(counters.with("plumbago_rejected_points_total", "stage=\"engine\""), 0, "{counters:?}");
    daemon.stop_well();
}

#[test]
fn carbon_relay_with_pickle() {
    python_relay("pickle", "pickle tcp");
}

#[test]
fn carbon_relay_with_lines() {
    python_relay("line", "line tcp");
}

#[test]
fn carbon_relay_reaches_a_daemon_that_was_restarted() {
    let mut setup = Setup::new();
    let line = own_address().to_string();
    let daemon = setup.schemas(SECONDS).set("ingest.pickle.listen", &line).start();
    let address = own_address();
    let section = relay_section(address, line.parse().unwrap(), "pickle");
    let Some(mut relay) = python_carbon(&setup.path().join("relay"), "carbon-relay", &section) else {
        return;
    };
    let points = relayed("restarted");
    let (before, after) = points.split_at(points.len() / 2);
    let mut connection = connect(address, &mut relay);
    connection.write_all(lines(before).as_bytes()).unwrap();
    wait_for_points(&daemon, before);
    daemon.stop_well();
    // The relay queues these points until the daemon is running again.
    connection.write_all(lines(after).as_bytes()).unwrap();
    let daemon = setup.start();
    wait_for_points(&daemon, &points);
    daemon.stop_well();
}

#[test]
fn carbon_c_relay() {
    let Some((mut command, _)) = counterpart::debian("carbon-c-relay") else { return };
    let mut setup = Setup::new();
    let daemon = setup.schemas(SECONDS).start();
    let address = own_address();
    let configuration = setup.file(
        "relay.conf",
        &format!(
            "listen type linemode {address} proto tcp;\ncluster plumbago forward {};\nmatch * send to plumbago stop;\n",
            daemon.line()
        ),
    );
    command.arg("-f").arg(configuration).args(["-H", "tests"]);
    let mut relay = Guarded::start(command, &setup.path().join("relay.log"));
    let points = relayed("c");
    let mut connection = connect(address, &mut relay);
    connection.write_all(lines(&points).as_bytes()).unwrap();
    wait_for_points(&daemon, &points);
    daemon.stop_well();
}

/// Sends the same lines to a real carbon-cache and to the daemon. The whisper file and the answer of the daemon
/// have the same numbers.
#[test]
fn carbon_cache_keeps_the_same_points() {
    let mut setup = Setup::new();
    let daemon = setup.schemas(SECONDS).start();
    let directory = setup.path().join("carbon");
    let address = own_address();
    let (host, port) = (address.ip(), address.port());
    let section = format!(
        "[cache]\nUSER =\nLINE_RECEIVER_INTERFACE = {host}\nLINE_RECEIVER_PORT = {port}\nPICKLE_RECEIVER_PORT = 0\n\
         ENABLE_UDP_LISTENER = False\nCACHE_QUERY_PORT = 0\nCARBON_METRIC_INTERVAL = 0\nENABLE_TAGS = False\n\
         MAX_UPDATES_PER_SECOND = inf\nMAX_CREATES_PER_MINUTE = inf\nWHISPER_AUTOFLUSH = True\n"
    );
    let Some(mut carbon) = python_carbon(&directory, "carbon-cache", &section) else { return };
    let points = relayed("cached");
    let text = lines(&points);
    connect(address, &mut carbon).write_all(text.as_bytes()).unwrap();
    TcpStream::connect(daemon.line()).unwrap().write_all(text.as_bytes()).unwrap();
    wait_for_points(&daemon, &points);

    let (from, until) = (points[0].timestamp - 20, points[0].timestamp + 60);
    for metric in 0..12 {
        let file = directory.join(format!("storage/whisper/cached/m{metric}/value.wsp"));
        let name = format!("cached.m{metric}.value");
        let mut seen = (BTreeMap::new(), BTreeMap::new());
        wait_until(&format!("carbon to write {name}"), || {
            let ours = daemon.render(&name, from, until, now());
            seen = (ours.first().map(|s| s.known()).unwrap_or_default(), whisper_fetch(&file, from, until));
            seen.0.len() == 40 && seen.0 == seen.1
        });
    }
    daemon.stop_well();
}

/// The known slots of a whisper file, read with whisper's own program.
pub(crate) fn whisper_fetch(file: &Path, from: i64, until: i64) -> BTreeMap<i64, f64> {
    let mut command = counterpart::python_script("whisper-fetch.py").unwrap();
    command.args(["--json", "--from", &from.to_string(), "--until", &until.to_string()]).arg(file);
    let output = command.output().unwrap();
    // Parsed manually, because serde_json may round the last bit.
    let text = String::from_utf8_lossy(&output.stdout).replace(char::is_whitespace, "");
    let field = |name: &str| -> Option<i64> {
        text.split_once(&format!("\"{name}\":"))?.1.split(',').next()?.parse().ok()
    };
    let (Some(start), Some(step)) = (field("start"), field("step")) else { return BTreeMap::new() };
    let values = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or("", |(v, _)| v);
    let slot = |(i, value): (usize, &str)| Some((start + i as i64 * step, value.parse().ok()?));
    values.split(',').enumerate().filter_map(slot).collect()
}
