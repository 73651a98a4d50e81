//! Measures the cost of rules and quotas that match nothing.

use std::fmt::Write as _;

use plumbago_tests::daemon::Setup;
use serde_json::Value;

use super::super::amount;
use super::{at_most, columns, median};
use crate::aggregation::line;
use crate::relay::balance;

/// Number of rules or quotas of a kind.
const COUNT: usize = 100;
/// A destination that never gets a point, so nothing has to listen there.
const NOWHERE: &str = "127.0.0.1:1";
const METRICS: usize = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Aggregation,
    Relay,
    Quotas,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Nothing, "no rules and no quotas"),
    (Kind::Aggregation, "100 aggregation rules"),
    (Kind::Relay, "100 relay rules"),
    (Kind::Quotas, "100 quotas"),
];

/// Rules that begin like the names of `bench load`, so that the first letters alone do not rule out a match.
fn rules(kind: Kind) -> String {
    let mut text = String::new();
    for n in 0..COUNT {
        let _ = match kind {
            Kind::Nothing => Ok(()),
            Kind::Aggregation if n % 2 == 0 => {
                writeln!(text, "<region>.absent{n} (60) = sum servers.<region>.*.*.absent{n}.*")
            }
            Kind::Aggregation => writeln!(text, "<app>.absent{n} (10) = avg apps.<app>.*.absent{n}.*"),
            Kind::Relay => writeln!(
                text,
                "[absent{n}]\npattern = ^(servers|apps)\\..*\\.absent{n}$\ndestinations = {NOWHERE}"
            ),
            Kind::Quotas => {
                writeln!(
                    text,
                    "[absent{n}]\npattern = servers.*.absent{n}\nmetrics = 1\npoints_per_minute = 1"
                )
            }
        };
    }
    if kind == Kind::Relay {
        // carbon requires a default rule. This one has no destination.
        text += "[default]\ndefault = true\ndestinations =\n";
    }
    text
}

fn setup_of(kind: Kind) -> Setup {
    let mut setup = Setup::new();
    setup.set("log.level", "warn").schemas("[all]\npattern = .*\nretentions = 1m:7d,1h:1y\n");
    let file = setup.file("rules.conf", &rules(kind));
    let file = file.to_str().unwrap();
    match kind {
        Kind::Nothing => &mut setup,
        Kind::Aggregation => setup.set("aggregation.rules", file),
        Kind::Relay => setup.set("relay.destinations", &format!("line://{NOWHERE}")).set("relay.rules", file),
        Kind::Quotas => setup.set("quotas.rules", file),
    };
    setup
}

/// Processor seconds for a million points until the daemon is idle again. The daemon starts with an empty data
/// directory, and its metrics are created before the measurement.
fn cpu_per_million(kind: Kind, points: usize) -> f64 {
    let setup = setup_of(kind);
    let daemon = setup.start();
    let (address, admin, id) =
        (daemon.line().to_string(), daemon.admin().to_string(), daemon.id().to_string());
    let (metrics, each) = (METRICS.to_string(), (points / METRICS).max(1).to_string());
    let server = ["--addr", &address, "--admin", &admin, "--pid", &id];
    let load = ["--metrics", &metrics, "--points", &each, "--connections", "2"];
    let output =
        setup.command(&[&["bench", "load", "--json"][..], &server[..], &load[..]].concat()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("no {key} in {report}"));
    assert!((number("received_of_those_sent_percent") - 100.0).abs() < 1e-6, "{report}");
    let ledger = daemon.ledger();
    assert!(ledger.balances() && ledger.rejected == 0, "{ledger:?}");
    match kind {
        Kind::Nothing => {}
        Kind::Aggregation => assert_eq!(line(&daemon, "fed"), 0),
        Kind::Relay => assert_eq!(balance(&daemon, NOWHERE)["accepted"], 0),
        Kind::Quotas => assert_eq!(daemon.counters().sum("plumbago_quota_refused_points_total"), 0),
    }
    daemon.stop_well();
    number("server_until_idle_CPU_s_M_points")
}

#[test]
#[ignore = "a figure"]
fn rules_that_match_nothing() {
    let (rounds, points) = (amount("UNMATCHED_ROUNDS", 5), amount("UNMATCHED_POINTS", 4_000_000));
    let mut all = KINDS.map(|_| Vec::new());
    println!("\nCPU s a million points, {points} points to {METRICS} metrics, in turn");
    for round in 1..=rounds {
        for ((kind, what), times) in KINDS.iter().zip(&mut all) {
            let cpu = cpu_per_million(*kind, points);
            println!("round {round}: {what:<28} {cpu:.4}");
            times.push(cpu);
        }
    }
    let medians = all.map(median);
    columns();
    for ((_, what), cpu) in KINDS.iter().zip(medians).skip(1) {
        let what =
            format!("CPU a point with {what} that match nothing, to none ({:.4} s a million)", medians[0]);
        at_most(&what, 1.05, cpu / medians[0]);
    }
}
