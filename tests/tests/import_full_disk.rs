//! An import that meets a full disk. The import reports what is full and the remedy, and leaves the daemon
//! the space that it needs. The same command continues when there is space again.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use plumbago_tests::child::Guarded;
use plumbago_tests::daemon::{Ended, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::small_disk::{SmallDisk, with_small_disk};
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

use crate::graphite_import::{assert_stages_equal, folded_by, source_folded_by};

/// About 2023-09-01 UTC, at the beginning of an hour.
const START: i64 = 1_693_526_400;
const NOW: i64 = START + 40 * 86_400;
/// The space that the settings below keep free, in MiB.
const KEPT_FREE: usize = 8;

fn on(disk: &SmallDisk, setup: &mut Setup) {
    setup.set("data_dir", disk.path().join("data").to_str().unwrap());
    setup.set("journal.min_free_bytes", "4MiB");
    setup.set("store.embedded.min_free_bytes", &format!("{KEPT_FREE}MiB"));
}

/// A metric in KairosDB's export lines. `points` are the points of each series, `step` seconds apart. The lines of
/// one series are far apart in the file.
struct Metric {
    name: &'static str,
    series: i64,
    step: i64,
    points: i64,
}

/// A metric that needs 1 MB of temporary files. The rules keep only its hours.
const COARSE: Metric = Metric { name: "coarse", series: 40, step: 60, points: 1500 };
/// A metric that needs 16 MB of temporary files.
const FINE: Metric = Metric { name: "fine", series: 200, step: 1, points: 5000 };

impl Metric {
    fn value(series: i64, at: i64) -> i64 {
        (series * 7919 + at * 104_729) % 1000
    }

    fn lines(&self) -> String {
        const PIECE: i64 = 500;
        let mut lines = String::new();
        for from in (0..self.points).step_by(PIECE as usize) {
            for series in 0..self.series {
                let point = |at: i64| {
                    let (time, value) = ((START + at * self.step) * 1000, Self::value(series, at));
                    format!("[{time},{value},\"long\"]")
                };
                let points: Vec<String> = (from..from + PIECE).map(point).collect();
                lines.push_str(&format!(
                    "{{\"name\":\"{}\",\"tags\":{{\"host\":\"h{series}\"}},\"datapoints\":[{}]}}\n",
                    self.name,
                    points.join(",")
                ));
            }
        }
        lines
    }

    /// The sum of each series. A point that is missing or counted twice changes the sum.
    fn sums(&self) -> BTreeMap<String, f64> {
        let sum = |series: i64| (0..self.points).map(|at| Self::value(series, at) as f64).sum::<f64>();
        (0..self.series).map(|series| (format!("h{series}"), sum(series))).collect()
    }

    /// The sum of each series, as a daemon returns it.
    fn sums_of(&self, address: SocketAddr) -> BTreeMap<String, f64> {
        let query = json!({
            "start_absolute": START * 1000,
            "end_absolute": (START + self.points * self.step) * 1000 - 1,
            "metrics": [{
                "name": self.name,
                "group_by": [{"name": "tag", "tags": ["host"]}],
                "aggregators": [{"name": "sum", "sampling": {"value": 1, "unit": "years"}}],
            }],
        });
        let (status, answer) = http::post_json(address, "/api/v1/datapoints/query", &query);
        assert_eq!(status, 200, "{answer}");
        let results = answer["queries"][0]["results"].as_array().unwrap();
        let sum = |result: &Value| {
            let host = result["tags"]["host"][0].as_str().unwrap().to_owned();
            let values = result["values"].as_array().unwrap();
            (host, values.iter().map(|pair| pair[1].as_f64().unwrap()).sum::<f64>())
        };
        results.iter().map(sum).collect()
    }
}

/// Checks how an import on a full disk ends.
fn assert_full(ended: &Ended, parts: &[&str]) {
    assert_eq!(ended.status.code(), Some(4), "{}", ended.output);
    for part in parts.iter().chain(&["run the same command again"]) {
        assert!(ended.output.contains(part), "{part}: {}", ended.output);
    }
}

/// Runs an import that succeeds.
fn report(setup: &Setup, arguments: &[&str]) -> Value {
    let output = setup.run_well(arguments);
    let line = output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{output}"))).unwrap()
}

#[test]
fn an_import_from_kairosdb_goes_on_after_a_full_disk() {
    with_small_disk("import_full_disk::child_imports_from_kairosdb", 128);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_imports_from_kairosdb() {
    let Some(disk) = SmallDisk::here() else { return };
    let mut setup = Setup::new();
    on(&disk, setup.clock(NOW));
    setup.schemas(
        "[coarse]\npattern = ^coarse\nretentions = 60s:7d,1h:30y\n\
         [all]\npattern = .*\nretentions = 1s:30y\n",
    );
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    let files = [COARSE, FINE].map(|metric| setup.file(&format!("{}.txt", metric.name), &metric.lines()));
    let files = files.each_ref().map(|file| file.to_str().unwrap());
    let command = ["import-kairosdb", "--json", "--workers", "1"];
    let scratch = setup.data().join("maintenance/import-kairosdb");
    let state =
        || -> Option<Value> { serde_json::from_slice(&std::fs::read(scratch.join("state.json")).ok()?).ok() };

    // The temporary files would use the space that the daemon needs, so the import ends and the journal
    // continues.
    let daemon = setup.start_for_commands();
    disk.leave(KEPT_FREE + 12);
    let arguments = [&command[..], &files].concat();
    let ended = setup.run(&arguments);
    assert_full(&ended, &[&format!("the disk of {} is full", scratch.display()), "min_free_bytes"]);
    let reached = state().unwrap();
    assert_eq!((&reached["position"]["source"], &reached["is_split"]), (&json!(1), &json!(false)));
    daemon.put(&[Point::new("live.metric", NOW - 10, 5.0)]);
    assert_eq!(daemon.wait_points("live.metric", NOW - 100, NOW), [(NOW - 10, 5.0)]);
    daemon.flush();
    disk.empty();
    daemon.stop_well();

    // The disk becomes full in the middle of the import.
    let slowly = [&command[..], &["--rate", "20000"], &files].concat();
    let mut importing = Guarded::start(setup.command(&slowly), &setup.path().join("import.log"));
    wait_until("parts to be stored", || {
        assert!(importing.runs(), "{}", importing.output());
        state().is_some_and(|state| state["stored"].as_array().is_some_and(|parts| parts.len() >= 20))
    });
    disk.leave(KEPT_FREE / 2);
    let status = importing.wait();
    let ended = Ended { status, output: importing.output() };
    assert_full(&ended, &[disk.path().to_str().unwrap(), "store.embedded.min_free_bytes"]);
    assert!(!state().unwrap()["stored"].as_array().unwrap().is_empty());
    disk.empty();

    let report = report(&setup, &arguments);
    let count = COARSE.series * COARSE.points + FINE.series * FINE.points;
    for (key, expected) in
        [("points", count), ("slots", count), ("same_slot", 0), ("series", COARSE.series + FINE.series)]
    {
        assert_eq!(report[key], json!(expected), "{key}: {report}");
    }
    assert_eq!(report["skipped"], json!({}), "{report}");
    assert!(!scratch.exists());
    let daemon = setup.start_for_commands();
    for metric in [COARSE, FINE] {
        assert_eq!(metric.sums_of(daemon.api()), metric.sums(), "{}", metric.name);
    }
    daemon.stop_well();
}

#[test]
fn an_import_from_graphite_goes_on_after_a_full_disk() {
    with_small_disk("import_full_disk::child_imports_from_graphite", 96);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_imports_from_graphite() {
    let Some(disk) = SmallDisk::here() else { return };
    let names: Vec<String> = (0..100).map(|i| format!("servers.a{i}.load")).collect();
    let (_kept, source) = source_folded_by("sum", &names);
    let mut setup = folded_by("sum");
    on(&disk, &mut setup);
    let list = setup.data().join("maintenance/import-graphite.list");
    let url = format!("http://{}", source.api());
    let command = ["import-graphite", "--json", "--workers", "1"];
    let slowly = [&command[..], &["--rate", "1", url.as_str(), "servers.**"]].concat();
    let mut importing = Guarded::start(setup.command(&slowly), &setup.path().join("import.log"));
    wait_until("metrics to be stored", || {
        assert!(importing.runs(), "{}", importing.output());
        std::fs::read_to_string(&list).is_ok_and(|text| text.contains(".load"))
    });
    disk.leave(KEPT_FREE / 2);
    let status = importing.wait();
    let ended = Ended { status, output: importing.output() };
    assert_full(&ended, &[disk.path().to_str().unwrap(), "store.embedded.min_free_bytes"]);
    disk.empty();

    let report = report(&setup, &[&command[..], &[url.as_str(), "servers.**"]].concat());
    assert_eq!((&report["metrics"], &report["skipped"]), (&json!(100), &json!({})), "{report}");
    let before = report["stored_before"].as_u64().unwrap();
    assert!(before > 0 && before < 100, "{report}");
    assert!(!list.exists());
    let daemon = setup.start();
    assert_stages_equal(&daemon, &source, 100);
    daemon.stop_well();
    source.stop_well();
}

#[test]
fn an_import_of_whisper_files_goes_on_after_a_full_disk() {
    with_small_disk("import_full_disk::child_imports_whisper_files", 96);
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_imports_whisper_files() {
    let Some(disk) = SmallDisk::here() else { return };
    let names: Vec<String> = (0..100).map(|i| format!("servers.a{i}.load")).collect();
    let (kept, source) = source_folded_by("sum", &names);
    source.stop_well();
    let mut setup = folded_by("sum");
    let tree = setup.path().join("whisper").to_str().unwrap().to_owned();
    kept.run_well(&["export-whisper", &tree, "servers.**"]);
    on(&disk, &mut setup);
    let daemon = setup.start_for_commands();
    let command = ["import-whisper", "--json", tree.as_str()];
    disk.leave(KEPT_FREE / 2);
    let ended = setup.run(&command);
    assert_full(&ended, &[disk.path().to_str().unwrap(), "store.embedded.min_free_bytes"]);
    disk.empty();

    let report = report(&setup, &command);
    assert_eq!((&report["metrics"], &report["skipped"]), (&json!(100), &json!({})), "{report}");
    let source = kept.start();
    assert_stages_equal(&daemon, &source, 100);
    daemon.stop_well();
    source.stop_well();
}
