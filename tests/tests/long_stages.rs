//! Stages of years of seconds: the memory and time of reading them depend on the points that exist, not on
//! the slots.

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;

const NOW: i64 = 1_700_000_000;
const YEAR: i64 = 31_536_000;
/// Times of points, years apart from each other but for the first two.
const TIMES: [i64; 5] = [NOW - 11 * YEAR, NOW - 11 * YEAR + 7, NOW - 5 * YEAR, NOW - YEAR, NOW];
const RULES: &str = "[short]\npattern = ^short\\.\nretentions = 1s:1d,60s:5y,1h:20y\n\
                     [tall]\npattern = ^tall\\.\nretentions = 1s:10y\n\
                     [all]\npattern = .*\nretentions = 1s:12y\n";

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.schemas(RULES).clock(NOW);
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    setup
}

fn put(daemon: &Daemon, name: &str, times: &[i64]) {
    daemon.put(&times.iter().map(|time| Point::new(name, *time, (time % 97) as f64)).collect::<Vec<_>>());
}

/// The times of the points that `read` prints.
fn read(setup: &Setup, arguments: &[&str]) -> Vec<i64> {
    let from = (NOW - 12 * YEAR).to_string();
    let text = setup.run_well(&[&["read", "--from", &from], arguments].concat());
    text.lines().filter_map(|line| line.split('\t').nth(1)?.parse().ok()).collect()
}

/// Checks the peak of memory, and how many columns were read from the store since the start. Read in pieces
/// of a million slots, twelve years of seconds would take 361 columns.
fn check(daemon: &Daemon, what: &str) {
    let peak = daemon.memory("VmHWM");
    assert!(peak < 500 << 20, "{what}: {peak} bytes");
    let counters = daemon.counters();
    let sum = |name: &str| counters.sum(&format!("plumbago_store_columns_{name}_total"));
    let columns = sum("decoded") + sum("from_memory");
    assert!(columns < 200, "{what}: {columns} columns");
}

#[test]
fn verbs_take_little_memory() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    put(&daemon, "a.m", &TIMES);
    put(&daemon, "b.m", &[NOW - 3 * YEAR]);
    put(&daemon, "tall.m", &TIMES[2..]);
    daemon.wait_names(3);
    daemon.flush();

    assert_eq!(read(&setup, &["a.m"]), TIMES);
    assert_eq!(read(&setup, &["--stage", "0", "a.m"]), TIMES);
    let info = setup.run_well(&["info", "a.m"]);
    assert!(
        info.contains("5 of 378432000 points from 2012-11-16T22:13:20Z to 2023-11-14T22:13:20Z"),
        "{info}"
    );
    check(&daemon, "read and info");

    setup.run_well(&["copy", "a.m", "c.m"]);
    assert_eq!(read(&setup, &["c.m"]), TIMES);
    setup.run_well(&["copy", "a.m", "b.m"]);
    assert_eq!(read(&setup, &["b.m"]), [TIMES[0], TIMES[1], TIMES[2], NOW - 3 * YEAR, TIMES[3], TIMES[4]]);
    check(&daemon, "copy");

    let directory = setup.path().join("whisper");
    let to = directory.to_str().unwrap();
    let refused = setup.run(&["export-whisper", to, "a.m"]);
    assert!(refused.output.contains("a whisper file has at most 4 GiB"), "{}", refused.output);
    setup.run_well(&["export-whisper", to, "tall.m"]);
    check(&daemon, "export-whisper");
    let file = std::fs::metadata(directory.join("tall/m.wsp")).unwrap();
    assert_eq!(file.len(), 28 + 12 * 10 * YEAR as u64);
    // The file has holes: blocks are counted in units of 512 bytes.
    let taken = std::os::unix::fs::MetadataExt::blocks(&file) * 512;
    assert!(taken < 1 << 20, "{taken} bytes");

    let until = (NOW - YEAR + 1).to_string();
    let range = ["--from", "1500000000", "--until", &until, "c.m"];
    let counted = setup.run_well(&[&["delete", "--dry-run"][..], &range].concat());
    assert!(counted.contains("2 points"), "{counted}");
    setup.run_well(&[&["delete"][..], &range].concat());
    assert_eq!(read(&setup, &["c.m"]), [TIMES[0], TIMES[1], TIMES[4]]);
    check(&daemon, "delete");
}

/// Applies rules that shorten the stage, and then rules that make it long again.
#[test]
fn settings_change_within_little_memory() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    put(&daemon, "a.m", &TIMES);
    put(&daemon, "short.m", &TIMES);
    daemon.wait_names(2);
    daemon.flush();
    setup.schemas("[long]\npattern = ^short\\.\nretentions = 1s:12y\n[all]\npattern = .*\nretentions = 1s:1d,60s:5y,1h:20y\n");
    drop(daemon);
    let daemon = setup.start_for_commands();
    setup.run_well(&["rules", "apply", "**"]);
    let hours: Vec<i64> =
        [TIMES[0], TIMES[2], TIMES[3], TIMES[4]].iter().map(|time| time / 3600 * 3600).collect();
    assert_eq!(read(&setup, &["a.m"]), hours);
    assert_eq!(*read(&setup, &["short.m"]).last().unwrap(), NOW);
    check(&daemon, "rules apply");
}
