//! The delivered alert rules and dashboards use only metrics that a running daemon has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use plumbago_tests::capture::Capture;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::wait::wait_until;
use regex::Regex;
use serde_json::Value;

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).unwrap()
}

/// The queries of all panels and variables of a dashboard, by the key that holds them.
fn queries(dashboard: &Value, key: &str) -> Vec<String> {
    match dashboard {
        Value::Object(fields) => {
            let here = fields.get(key).and_then(Value::as_str).map(str::to_owned);
            here.into_iter().chain(fields.values().flat_map(|value| queries(value, key))).collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| queries(item, key)).collect(),
        _ => Vec::new(),
    }
}

/// The metrics of a daemon on the embedded store and of one on Cassandra, as `/metrics` names them, and the names
/// of all conditions.
fn shown() -> (BTreeSet<String>, BTreeSet<String>) {
    let mut cassandra = Setup::new();
    cassandra.set("store.kind", "cassandra").set("store.cassandra.contact_points", "127.0.0.1:1");
    let texts = [Setup::new().start(), cassandra.start()].map(|daemon: Daemon| {
        let text = http::get(daemon.admin(), "/metrics").body;
        drop(daemon);
        text
    });
    let (mut metrics, mut conditions) = (BTreeSet::new(), BTreeSet::new());
    for line in texts.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        metrics.insert(name.to_owned());
        // The name of the whole histogram, without the suffix of its series.
        metrics.extend(name.strip_suffix("_bucket").map(str::to_owned));
        if let Some(rest) = line.strip_prefix("plumbago_condition{name=\"") {
            conditions.insert(rest.split('"').next().unwrap().to_owned());
        }
    }
    (metrics, conditions)
}

/// Every metric that an alert or a panel uses exists from the first scrape, and every condition has an alert.
#[test]
fn alerts_and_dashboards_name_what_there_is() {
    let (metrics, conditions) = shown();
    let dashboard: Value = serde_json::from_str(&read("grafana/plumbago.json")).unwrap();
    let alerts = read("prometheus/alerts.yml");
    let queries = queries(&dashboard, "expr").join("\n");
    let name = Regex::new(r"\b(?:plumbago|process)_[a-z0-9_]+").unwrap();
    for (file, text) in [("alerts.yml", &alerts), ("plumbago.json", &queries)] {
        let named: BTreeSet<&str> = name.find_iter(text).map(|found| found.as_str()).collect();
        assert!(named.len() > 10, "{file} names {named:?}");
        let missing: Vec<&&str> = named.iter().filter(|name| !metrics.contains(**name)).collect();
        assert!(missing.is_empty(), "{file} names metrics that no daemon has: {missing:?}");
    }
    let in_alerts: BTreeSet<&str> =
        Regex::new(r"[a-z_]+").unwrap().find_iter(&alerts).map(|m| m.as_str()).collect();
    // A condition that is only a hint needs no alert.
    let silent: Vec<&String> =
        conditions.iter().filter(|name| *name != "retention" && !in_alerts.contains(name.as_str())).collect();
    assert!(silent.is_empty(), "conditions without an alert: {silent:?}");
}

/// Prometheus' own tool accepts the rules, their tests pass, and it can parse every query of the dashboard.
#[test]
fn prometheus_takes_the_rules() {
    let directory = tempfile::tempdir().unwrap();
    let promtool = |arguments: &[&str]| {
        let (mut tool, _) = counterpart::debian("promtool")?;
        let output = tool.args(arguments).current_dir(directory.path()).output().unwrap();
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success(), "promtool {arguments:?}: {text}");
        Some(())
    };
    for file in ["alerts.yml", "alerts_test.yml"] {
        std::fs::copy(deploy("prometheus").join(file), directory.path().join(file)).unwrap();
    }
    let Some(()) = promtool(&["check", "rules", "alerts.yml"]) else { return };
    promtool(&["test", "rules", "alerts_test.yml"]);

    let dashboard: Value = serde_json::from_str(&read("grafana/plumbago.json")).unwrap();
    let rules: Vec<Value> = queries(&dashboard, "expr")
        .iter()
        .map(|query| query.replace("$__rate_interval", "1m").replace("$instance", "a"))
        .enumerate()
        .map(|(number, query)| serde_json::json!({ "record": format!("panel:{number}"), "expr": query }))
        .collect();
    assert!(rules.len() > 30, "{} queries", rules.len());
    // JSON is valid YAML.
    let group = serde_json::json!({ "groups": [{ "name": "panels", "rules": rules }] });
    std::fs::write(directory.path().join("panels.yml"), group.to_string()).unwrap();
    promtool(&["check", "rules", "panels.yml"]);
}

/// For each listener in use the daemon stores the listener's own metrics as points.
#[test]
fn listeners_have_a_history_of_their_own() {
    let mut setup = Setup::new();
    setup.set("self_metrics.interval", "1s").schemas("[carbon]\npattern = .*\nretentions = 1s:1h\n");
    let daemon = setup.start();
    let sum = |name: &str| -> f64 {
        let target = http::encode(&format!("carbon.agents.*.listeners.line.{name}"));
        let answer = daemon.get(&format!("/render?format=json&from=-5min&target={target}"));
        let series: Value = serde_json::from_str(&answer.body).unwrap();
        let points = series.as_array().unwrap().iter().flat_map(|one| one["datapoints"].as_array().unwrap());
        points.filter_map(|point| point[0].as_f64()).sum()
    };
    wait_until("the points of the line listener", || {
        daemon.sender().try_bytes(b"a.b 1 -1\na.b one -1\n").unwrap();
        sum("metricsReceived") > 0.0 && sum("errors") > 0.0
    });
    let names = daemon.names();
    assert!(names.iter().any(|name| name.ends_with("-a.listeners.line.metricsReceived")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains(".listeners.pickle.")), "{names:?}");
}

/// Each destination of the relay has the metrics that carbon-relay reports for its destinations.
#[test]
fn destinations_of_the_relay_have_a_history_under_carbons_names() {
    let carbon = Capture::start();
    let mut setup = Setup::new();
    setup.set("self_metrics.interval", "1s").schemas("[carbon]\npattern = .*\nretentions = 1s:1h\n");
    setup.set("relay.destinations", &format!("line://{}", carbon.address()));
    let daemon = setup.start();
    let sum = |target: &str| -> f64 {
        let answer = daemon.get(&format!("/render?format=json&from=-5min&target={}", http::encode(target)));
        let series: Value = serde_json::from_str(&answer.body).unwrap();
        let points = series.as_array().unwrap().iter().flat_map(|one| one["datapoints"].as_array().unwrap());
        points.filter_map(|point| point[0].as_f64()).sum()
    };
    let destination = format!("{}:None", carbon.address().to_string().replace('.', "_"));
    let target = |name: &str| format!("carbon.relays.*.destinations.{destination}.{name}");
    wait_until("the points of the destination", || {
        daemon.sender().try_bytes(b"a.b 1 -1\n").unwrap();
        sum(&target("sent")) > 0.0 && sum(&target("attemptedRelays")) > 0.0
    });
    wait_until("the sum of all destinations", || sum("carbon.relays.*.metricsForwarded") > 0.0);
    assert_eq!(sum(&target("fullQueueDrops")), 0.0);
    assert!(daemon.names().contains(&format!("{}relayMaxQueueLength", prefix(&daemon, &destination))));
}

/// The prefix of the names of a destination's metrics.
fn prefix(daemon: &Daemon, destination: &str) -> String {
    let names = daemon.names();
    let name = names.iter().find(|name| name.contains(destination)).unwrap();
    name.rsplit_once('.').map(|(prefix, _)| format!("{prefix}.")).unwrap()
}

/// Every target of the dashboard for Graphite returns a series, if the daemon stores its own metrics.
#[test]
fn the_dashboard_by_carbon_agents_draws() {
    let mut setup = Setup::new();
    setup.set("self_metrics.interval", "1s").schemas("[carbon]\npattern = .*\nretentions = 1s:1h\n");
    let daemon = setup.start();
    let dashboard: Value = serde_json::from_str(&read("grafana/plumbago-carbon.json")).unwrap();
    let targets = queries(&dashboard, "target");
    assert!(targets.len() > 10, "{targets:?}");
    for target in targets.iter().map(|target| target.replace("$host", "*")) {
        let path = format!("/render?format=json&from=-5min&target={}", http::encode(&target));
        let drawn = || {
            let series: Value = serde_json::from_str(&daemon.get(&path).body).unwrap();
            series.as_array().is_some_and(|all| {
                all.iter()
                    .any(|one| one["datapoints"].as_array().unwrap().iter().any(|point| !point[0].is_null()))
            })
        };
        wait_until(&format!("values of {target}"), drawn);
    }
}
