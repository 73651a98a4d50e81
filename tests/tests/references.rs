//! The pages of `docs/reference`, which the tests generate from the program: settings, commands and metrics.
//! Each test fails if its page is out of date. With `PLUMBAGO_UPDATE=1` it writes the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use plumbago_cassandra_node::server;
use plumbago_tests::capture::own_address;
use plumbago_tests::daemon::{Daemon, Setup, binary};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use regex::Regex;

const KEYSPACE: &str = "references";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Compares a page with its expected text, or writes it.
fn settle(name: &str, wanted: &str) {
    let path = root().join("docs/reference").join(name);
    if std::env::var_os("PLUMBAGO_UPDATE").is_some() {
        std::fs::write(&path, wanted).unwrap();
    }
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = present.lines().zip(wanted.lines()).find(|(a, b)| a != b);
    assert!(
        present == wanted,
        "docs/reference/{name} is stale: PLUMBAGO_UPDATE=1 ./test.sh references renews it\nfirst difference: {differs:#?}"
    );
}

fn output(arguments: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.args(arguments).env_remove("PLUMBAGO_CONFIG").env("COLUMNS", "100");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn configuration() {
    const HEAD: &str = "# Settings\n\n\
        Every key of `plumbago.toml` with its default, from `plumbago config default`, which prints the same as a file.\n\
        `tests/tests/references.rs` writes this page.\n\n\
        The environment overrides the file: `PLUMBAGO__`, the section and the key in upper case, with two underscores\n\
        between them, such as `PLUMBAGO__INGEST__LINE__LISTEN=0.0.0.0:2003`. Items of lists are separated by commas.\n\
        `plumbago config check` names every mistake with its line, `plumbago config show` prints the values in effect.\n\n\
        ↻ marks keys that `kill -HUP` reads again; the others need a restart.\n";
    let mut page = HEAD.to_owned();
    let mut text: Vec<&str> = Vec::new();
    let defaults = output(&["config", "default"]);
    let mut keys = 0;
    page += "\n## At the top of the file\n\n";
    // The introduction of the file ends with an empty line.
    for line in defaults.lines().skip_while(|line| !line.is_empty()) {
        let key = line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).or(Some(line));
        let key = key.and_then(|line| line.split_once(" = ")).filter(|_| !line.starts_with("# "));
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let _ = write!(page, "\n## `[{section}]`\n\n");
            if !text.is_empty() {
                let _ = write!(page, "{}\n\n", text.join("\n"));
            }
            text.clear();
        } else if let Some((name, value)) = key {
            let explained = text.join(" ");
            let mark = if explained.contains("[reload]") { " ↻" } else { "" };
            let default = if line.starts_with('#') { "for example " } else { "" };
            let explained = explained.replace(" [reload]", "");
            let _ = writeln!(page, "* **`{name}`**{mark} ({default}`{value}`): {explained}");
            keys += 1;
            text.clear();
        } else if let Some(comment) = line.strip_prefix("# ") {
            text.push(comment);
        }
    }
    assert!(keys > 100, "{keys} keys were found");
    settle("configuration.md", &page);
}

#[test]
fn commands() {
    let mut page =
        "# Commands\n\nWhat `--help` says of each command. `tests/tests/references.rs` writes this page.\n"
            .to_owned();
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    let mut seen = 0;
    while let Some(command) = waiting.pop() {
        let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = output(&arguments);
        let title = if command.is_empty() { String::new() } else { format!(" {}", command.join(" ")) };
        let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        let _ = write!(page, "\n## plumbago{title}\n\n```text example\n{}\n```\n", lines.join("\n"));
        seen += 1;
        let names = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let names =
            names.take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
        let mut below: Vec<Vec<String>> = names
            .filter(|name| *name != "help")
            .map(|name| [command.clone(), vec![name.to_owned()]].concat())
            .collect();
        below.reverse();
        waiting.append(&mut below);
    }
    assert!(seen > 20, "{seen} commands were found");
    settle("commands.md", &page);
}

/// A family of metrics as a scrape shows it.
#[derive(Default)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
    stores: BTreeSet<&'static str>,
}

type Families = BTreeMap<String, Family>;

fn scrape(daemon: &Daemon, store: &'static str, families: &mut Families) {
    let label = Regex::new(r#"([a-z_]+)="(?:[^"\\]|\\.)*""#).unwrap();
    let text = http::get(daemon.admin(), "/metrics").body;
    let mut last = String::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let family = families.entry(name.to_owned()).or_default();
            family.kind = kind.to_owned();
            family.stores.insert(store);
            last = name.to_owned();
        } else if let Some(family) = families.get_mut(&last).filter(|_| line.starts_with(&last)) {
            let names = label.captures_iter(line).map(|found| found[1].to_owned());
            family.labels.extend(names.filter(|name| name != "le"));
        }
    }
}

/// A daemon with every listener and feature on, so that all of its metrics are registered.
fn everything() -> Setup {
    let mut setup = Setup::new();
    let relay = own_address();
    setup.set("relay.destinations", &format!("line://{relay}")).set("ingest.http.listen", "127.0.0.1:0");
    setup.set("carbonlink.listen", "127.0.0.1:0").set("self_metrics.interval", "1s");
    let rules = setup.file("aggregation-rules.conf", "references.all (60) = sum references.x.*\n");
    setup.set("aggregation.rules", rules.to_str().unwrap());
    setup
}

/// Uses every feature whose metrics appear only with its first use.
fn use_it(daemon: &Daemon) {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed();
    daemon.put(&[Point::new("references.x.a", now, 1.0), Point::new("references.a;host=b", now, 1.0)]);
    daemon.wait_names(1);
    for path in ["/render?target=references.x.a&format=json", "/metrics/find?query=*", "/tags", "/nothing"] {
        daemon.get(path);
    }
    daemon.flush();
    run_jobs(daemon);
}

fn back_up(setup: &mut Setup, daemon: &Daemon) {
    let dir = setup.path().join("backup");
    setup.set("admin.listen", &daemon.admin().to_string());
    let ended = setup.run(&["backup", dir.to_str().unwrap()]);
    assert!(ended.status.success(), "{}", ended.output);
}

fn run_jobs(daemon: &Daemon) {
    for job in ["clean_rows", "clean_directories", "repair_directories", "repair_windows"] {
        daemon.post_admin(&format!("/admin/maintenance?job={job}"));
    }
    wait_until("the jobs to end", || daemon.counters().sum("plumbago_maintenance_running") == 0);
}

fn all_families() -> Option<(Families, BTreeSet<String>)> {
    let server = server::for_tests()?;
    let mut families = Families::new();
    let mut setup = everything();
    let embedded = setup.start();
    use_it(&embedded);
    back_up(&mut setup, &embedded);
    let mut carbon = BTreeSet::new();
    wait_until("the metrics as points", || {
        let plain = |name: &String| {
            let (program, rest) = name.strip_prefix("carbon.")?.split_once('.')?;
            let own = rest.split_once("-a.")?.1;
            let of_any = |parts: &str, any: &str| {
                let (_, of_one) = own.strip_prefix(parts)?.split_once('.')?;
                Some(format!("{parts}{any}.{of_one}"))
            };
            let of_any = of_any("listeners.", "LISTENER").or_else(|| of_any("destinations.", "DESTINATION"));
            let own = of_any.unwrap_or_else(|| own.to_owned());
            Some(format!("carbon.{program}.HOST-a.{own}"))
        };
        carbon = embedded.names().iter().filter_map(plain).collect();
        // All metrics of `serve/self_metrics`: those of carbon-cache, of a listener, of carbon-aggregator, of
        // carbon-relay and of a destination.
        carbon.len() >= 19 + 2 + 9 + 7 + 4
    });
    scrape(&embedded, "embedded", &mut families);
    let mut setup = everything();
    setup.set("store.kind", "cassandra").set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.keyspace", KEYSPACE).set("store.cassandra.components", "8");
    setup.set("store.cassandra.indexes", "none").set("store.cassandra.request_timeout", "60s");
    setup.set("cluster.peers", &embedded.admin().to_string()).set("cluster.token", "none of any use");
    server.drop_keyspaces(KEYSPACE).unwrap();
    assert!(setup.run(&["syncdb"]).status.success());
    setup.set("maintenance.grace", "0s").set("maintenance.settle", "0s");
    let cassandra = setup.start();
    // A missing directory, so that a job has something to repair.
    use_it(&cassandra);
    back_up(&mut setup, &cassandra);
    server.connect().unwrap().query(&format!("TRUNCATE {KEYSPACE}_metadata.directories")).unwrap();
    run_jobs(&cassandra);
    wait_until("a repair", || cassandra.counters().sum("plumbago_maintenance_done_total") > 0);
    scrape(&cassandra, "Cassandra", &mut families);
    drop(cassandra);
    server.clean_up(KEYSPACE).unwrap();
    Some((families, carbon))
}

/// The unit at the end of a metric's name.
fn unit(name: &str) -> &str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    let units = ["seconds", "bytes", "points", "rows", "metrics", "connections", "files", "requests"];
    units.into_iter().find(|unit| name.ends_with(&format!("_{unit}"))).unwrap_or("")
}

/// The part of the program that is named at the beginning of a metric's name.
fn part(name: &str) -> &str {
    let rest = name.strip_prefix("plumbago_").unwrap_or(name);
    let known = [
        "aggregation",
        "api",
        "backup",
        "backups",
        "carbonlink",
        "cassandra",
        "cluster",
        "config",
        "engine",
        "http",
        "index",
        "ingest",
        "journal",
        "maintenance",
        "peer",
        "process",
        "relay",
        "sender",
        "spool",
        "store",
    ];
    known.into_iter().find(|part| rest == *part || rest.starts_with(&format!("{part}_"))).unwrap_or("other")
}

#[test]
fn metrics() {
    let Some((families, carbon)) = all_families() else { return };
    const HEAD: &str = "# Metrics\n\n\
        Every metric of `/metrics` on the admin port, in the format of Prometheus. `tests/tests/references.rs` writes this page\n\
        from what a daemon on each store exports with every feature on; those of a feature are there while it is on. The alerts\n\
        of `deploy/prometheus/alerts.yml` use them.\n\n\
        *Store* is empty for metrics of both stores. Counters only grow; a histogram has `_bucket`, `_sum` and `_count`.\n";
    let mut page = HEAD.to_owned();
    let mut parts: BTreeMap<&str, Vec<(&String, &Family)>> = BTreeMap::new();
    for (name, family) in &families {
        parts.entry(part(name)).or_default().push((name, family));
    }
    for (part, families) in parts {
        let _ = write!(
            page,
            "\n## {part}\n\n| metric | type | unit | labels | store | meaning |\n|---|---|---|---|---|---|\n"
        );
        for (name, family) in families {
            let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
            let store = if family.stores.len() == 2 { "" } else { family.stores.first().unwrap() };
            let help = family.help.replace('|', "\\|");
            let (kind, unit, labels) = (&family.kind, unit(name), labels.join(", "));
            let _ = writeln!(page, "| `{name}` | {kind} | {unit} | {labels} | {store} | {help} |");
        }
    }
    page += "\n## Metrics as points\n\n\
        Every `self_metrics.interval` the daemon stores these as points, with carbon's names and units:\n\n";
    for name in carbon {
        let _ = writeln!(page, "* `{name}`");
    }
    assert_registered(&families);
    settle("metrics.md", &page);
}

/// Checks that a scrape has every metric that the code registers by a literal name, so that the page is
/// complete.
fn assert_registered(families: &Families) {
    let call = Regex::new(r#"(?:counter|gauge|histogram)\(\s*"((?:plumbago|process)_[a-z0-9_]+)""#).unwrap();
    let mut missing = BTreeSet::new();
    let mut files = vec![root().join("crates")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            // The registry's own tests register other names.
            let entries = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
            files.extend(entries.filter(|path| !path.ends_with("telemetry") && !path.ends_with("tests")));
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let names = call.captures_iter(text).map(|found| found[1].to_owned());
            missing.extend(names.filter(|name| !families.contains_key(name)));
        }
    }
    assert!(missing.is_empty(), "no daemon of this test has {missing:?}: switch on what exports them");
}
