//! `/readyz`, the gauges of conditions, and the self-metrics of the process.

use std::collections::BTreeSet;
use std::time::SystemTime;

use nix::sys::signal::Signal;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::{wait_for, wait_until};
use serde_json::Value;

fn readiness(daemon: &Daemon) -> Value {
    serde_json::from_str(&http::get(daemon.admin(), "/readyz").body).unwrap()
}

fn metrics(daemon: &Daemon) -> String {
    http::get(daemon.admin(), "/metrics").body
}

fn now() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

/// The names of the conditions that the documentation describes, with their severities.
fn described() -> Vec<(String, String)> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/conditions.md");
    let text = std::fs::read_to_string(page).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (name, rest) = row.split_once("` | ").unwrap();
        (name.to_owned(), rest.split(" | ").next().unwrap().to_owned())
    })
    .collect()
}

/// The names whose gauge a daemon shows.
fn shown(daemon: &Daemon) -> BTreeSet<String> {
    let text = metrics(daemon);
    let names = text.lines().filter_map(|line| line.strip_prefix("plumbago_condition{name=\""));
    names.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// The page describes exactly the conditions that exist. A daemon that cannot reach Cassandra shows those of
/// Cassandra.
#[test]
fn every_condition_is_described() {
    let described: BTreeSet<String> = described().into_iter().map(|(name, _)| name).collect();
    let mut setup = Setup::new();
    let embedded = shown(&setup.start());
    setup.set("store.kind", "cassandra").set("store.cassandra.contact_points", "[\"127.0.0.1:1\"]");
    let starting = setup.launch();
    wait_until("the admin port", || starting.stdout().iter().any(|line| line.starts_with("listening admin")));
    let all: BTreeSet<String> = shown(&starting).union(&embedded).cloned().collect();
    assert_eq!(all, described);
}

/// A problem is shown by the health page and by the gauges, and logged once. So is its end.
#[test]
fn an_absent_server_is_said_at_once() {
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.contact_points", "[\"127.0.0.1:1\"]");
    let daemon = setup.launch();
    wait_until("the admin port", || daemon.stdout().iter().any(|line| line.starts_with("listening admin")));
    let page = wait_for("the condition", || {
        let response = http::get(daemon.admin(), "/readyz");
        (response.status == 503 && response.body.contains("store_down")).then_some(response.body)
    });
    let page: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(page["ready"], false);
    let reasons = page["reasons"].to_string();
    assert!(reasons.contains("127.0.0.1:1"), "{reasons}");
    assert!(metrics(&daemon).contains("plumbago_condition{name=\"store_down\"} 1"));
    wait_until("the log", || daemon.log().contains("store_down"));
    let lines = daemon.log().lines().filter(|line| line.contains("condition=\"store_down\"")).count();
    assert_eq!(lines, 1, "{}", daemon.log());
}

/// One refused metric is enough, because nothing else shows that it is missing.
#[test]
fn a_metric_that_is_not_created_is_a_warning() {
    let mut setup = Setup::new();
    setup.set("engine.max_creates_per_minute", "5").set("engine.shards", "1");
    let daemon = setup.start();
    let points: Vec<Point> = (0..6).map(|n| Point::new(format!("a.m{n}"), now(), 1.0)).collect();
    daemon.put(&points);
    let page = wait_for("the warning", || {
        let page = readiness(&daemon);
        (page["conditions"][0]["name"] == "create_limited").then_some(page)
    });
    assert_eq!(page["ready"], true);
    assert!(page["warnings"][0].as_str().unwrap().contains("engine.max_creates_per_minute"), "{page}");
    assert!(daemon.log().contains("create_limited"), "{}", daemon.log());
}

/// A point that is refused because of its time must not create a metric.
#[test]
fn a_refused_point_creates_no_metric() {
    let setup = Setup::new();
    let daemon = setup.start();
    daemon.put(&[
        Point::new("a.future".to_owned(), now() + 40 * 86_400, 1.0),
        Point::new("a.old".to_owned(), now() - 20 * 365 * 86_400, 1.0),
        Point::new("a.right".to_owned(), now(), 1.0),
    ]);
    daemon.wait_names(1);
    daemon.flush();
    assert_eq!(daemon.names(), ["a.right"]);
    let counters = daemon.counters();
    for reason in ["future", "too_old"] {
        let label = format!("stage=\"engine\",reason=\"{reason}\"");
        assert_eq!(counters.with("plumbago_rejected_points_total", &label), 1, "{reason}");
    }
    assert_eq!(counters.sum("plumbago_engine_created_metrics_total"), 1);
}

/// The first scrape has the figures of the disk and of the process, in names that OpenMetrics accepts too.
#[test]
fn figures_are_there_from_the_first_scrape() {
    let setup = Setup::new();
    let daemon = setup.start();
    let text = wait_for("the free space", || {
        let text = metrics(&daemon);
        let free = text.lines().find_map(|line| line.strip_prefix("plumbago_store_free_bytes "))?;
        (free.parse::<f64>().unwrap() > 0.0).then_some(text)
    });
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(value("plumbago_store_log_bytes ") > 0.0);
    assert!(value("process_resident_memory_bytes ") > 1e6);
    assert!((value("process_start_time_seconds ") - now() as f64).abs() < 600.0);
    assert_eq!(value("plumbago_build_info{"), 1.0);

    let mut families = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let family = if kind == "counter" { name.strip_suffix("_total").unwrap_or(name) } else { name };
        assert!(families.insert(family.to_owned()), "two families are called {family}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no HELP");
    }
    for family in &families {
        for suffix in ["_count", "_sum", "_bucket", "_created", "_info"] {
            let base = family.strip_suffix(suffix).unwrap_or_default();
            assert!(!families.contains(base), "{family} clashes with {base}");
        }
    }
    assert!(families.len() > 60, "{}", families.len());
}

/// A sender with an interval of 10 seconds and a retention of one minute loses five of six points. A hint
/// reports this.
#[test]
fn points_that_the_retention_drops_are_told() {
    let mut setup = Setup::new();
    let start = 1_700_000_040;
    setup.clock(start).schemas("[everything]\npattern = .*\nretentions = 60s:7d\n");
    let daemon = setup.start();
    for step in 0..42 {
        let at = start + step * 10;
        daemon.set_clock(at);
        let mut points = vec![Point::new("collectd.host.load".to_owned(), at, step as f64)];
        if step % 6 == 0 {
            // The same point twice, as two relays would send it: that counts as one point.
            points.extend([0, 1].map(|_| Point::new("relayed.twice".to_owned(), at, 1.0)));
        }
        daemon.put(&points);
    }
    let hint = wait_for("the hint", || readiness(&daemon)["hints"][0].as_str().map(str::to_owned));
    for part in
        ["1 or more metrics", "collectd.host.load gets a point every 10s", "[everything]", "storage_schemas"]
    {
        assert!(hint.contains(part), "{part}: {hint}");
    }
    assert_eq!(daemon.counters().sum("plumbago_engine_crowded_metrics"), 1);
    assert_eq!(readiness(&daemon)["ready"], true);
    let lines = daemon.log().lines().filter(|line| line.contains("condition=\"retention\"")).count();
    assert_eq!(lines, 1, "{}", daemon.log());
}

/// A stop that waits for the store reports the wait and the problem of the store.
#[test]
fn a_stop_says_what_it_waits_for() {
    let mut setup = Setup::new();
    let points: Vec<Point> = (0..5).map(|n| Point::new(format!("a.m{n}"), now(), 1.0)).collect();
    let daemon = setup.start();
    daemon.put(&points);
    daemon.stop_well();
    setup.set("store.embedded.min_free_bytes", "1000TiB");
    let daemon = setup.start();
    daemon.put(&points);
    daemon.signal(Signal::SIGTERM);
    wait_until("the log to say it", || {
        let log = daemon.log();
        log.lines()
            .any(|line| line.contains("stopping: storing") && line.contains("store.embedded.min_free_bytes"))
    });
    daemon.kill();
}

/// Others on this machine can reach the port, but cannot read the secret.
#[test]
fn only_the_owner_stops_the_daemon() {
    let setup = Setup::new();
    let daemon = setup.start();
    for path in ["/admin/shutdown", "/admin/flush", "/admin/maintenance?job=clean_rows"] {
        let refused = http::post(daemon.admin(), path, "");
        assert!(refused.status == 401 && refused.body.contains("admin-secret"), "{path}: {refused:?}");
    }
    let secret = setup.data().join("admin-secret");
    let mode = std::os::unix::fs::PermissionsExt::mode(&secret.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let ended = setup.run(&["clean", "--dry-run"]);
    assert_ne!(ended.status.code(), Some(0), "the admin port has another address than the settings say");
    assert_eq!(daemon.post_admin("/admin/shutdown").status, 200);
    wait_until("the end", || daemon.stdout().iter().any(|line| line.starts_with("ledger:")));
}

/// Idle connections do not keep the health page from answering.
#[test]
fn idle_connections_hide_no_trouble() {
    let daemon = Setup::new().start();
    let idle: Vec<std::net::TcpStream> =
        (0..64).map(|_| std::net::TcpStream::connect(daemon.admin()).unwrap()).collect();
    // For a second, the daemon expects a request on each idle connection, so it refuses a new connection.
    let ask = || http::try_request(daemon.admin(), "GET", "/readyz", "", "");
    wait_until("an answer", || ask().is_ok_and(|response| response.status == 200));
    drop(idle);
}
