//! Data directories that older versions left (`fixtures/data-directory`) open with every point and name.

use std::path::Path;
use std::process::Command;

use plumbago_tests::daemon::{Daemon, Setup};

const START: i64 = 1_763_900_100;
const SLOTS: i64 = 240;
/// Number of slots in a window of the coarser stage.
const WINDOW: i64 = 15;

/// The names to which `make.py` sends points, in the order of its numbers.
fn targets() -> Vec<(String, bool)> {
    let values = (0..8).map(|i| (format!("fixture.m{i}.value"), false));
    let sums = (0..2).map(|i| (format!("fixture.count{i}.sum"), true));
    let tagged = ["a", "b"].map(|host| (format!("seriesByTag('name=fixture.cpu','host={host}')"), false));
    values.chain(sums).chain(tagged).collect()
}

fn open(archive: &str) -> (Setup, Daemon) {
    let mut setup = Setup::new();
    setup.schemas("[fixture]\npattern = .*\nretentions = 60s:1d,15m:30d\n");
    setup.aggregation("[sum]\npattern = \\.sum$\nxFilesFactor = 0\naggregationMethod = sum\n");
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/data-directory").join(archive);
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(archive).arg("-C").arg(setup.path());
    assert!(unpack.status().unwrap().success());
    let daemon = setup.clock(START + 60 * (SLOTS - 1)).start();
    (setup, daemon)
}

fn check(daemon: &Daemon) {
    let now = START + 60 * (SLOTS - 1);
    let plain: Vec<String> =
        targets().into_iter().map(|(name, _)| name).filter(|n| n.starts_with("fixture")).collect();
    assert!(daemon.names().iter().filter(|name| plain.contains(name)).count() == plain.len());
    for (i, (target, is_sum)) in targets().iter().enumerate() {
        let found = daemon.render(target, START - 60, now, now);
        assert_eq!(found.len(), 1, "{target}");
        let known = found[0].known();
        for slot in 0..SLOTS {
            let value = (1000 * i as i64 + slot) as f64;
            assert_eq!(known.get(&(START + 60 * slot)), Some(&value), "{target}, slot {slot}");
        }
        // A range that begins before the raw stage does returns windows.
        let found = daemon.render(target, now - 2 * 86_400, now, now);
        let known = found[0].known();
        for window in 0..SLOTS / WINDOW {
            let first = (1000 * i as i64 + window * WINDOW) as f64;
            let value = if *is_sum { 15.0 * first + 105.0 } else { first + 7.0 };
            assert_eq!(known.get(&(START + 900 * window)), Some(&value), "{target}, window {window}");
        }
    }
}

#[test]
fn a_data_directory_of_november_2026_opens() {
    opens("embedded-2026-11.tar.gz");
}

#[test]
fn a_data_directory_of_0_1_0_opens() {
    opens("embedded-0.1.0.tar.gz");
}

fn opens(archive: &str) {
    let (setup, daemon) = open(archive);
    check(&daemon);
    daemon.stop_well();
    let daemon = setup.start();
    check(&daemon);
    daemon.stop_well();
}
