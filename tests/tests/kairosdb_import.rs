//! Imports the history of a real KairosDB: every point must equal the one that KairosDB returns.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use plumbago_cassandra_node::server::{self, Server};
use plumbago_kairosdb_node::kairosdb::{Backend, KairosDb};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::wait::{wait_for, wait_until};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// About 2023-09-01 UTC.
const START: i64 = 1_693_526_400;
/// Nine weeks in seconds: each series has at least three storage rows.
const LENGTH: i64 = 63 * 86_400;

const SCHEMAS: &str = "[coarse]\npattern = ^coarse\nretentions = 60s:7d,1h:30y\n\
    [all]\npattern = .*\nretentions = 1s:30y\n";
const AGGREGATION: &str = "[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = average\n";

/// Metrics with numbers.
const METRICS: [&str; 3] = ["temp", "odd metric;~", "coarse"];
const TAGS: [&str; 3] = ["host", "a:b", "dc"];

const QUERY: &str = "/api/v1/datapoints/query";

/// The points of a series by time: milliseconds since the epoch, and value.
type Points = Vec<(i64, f64)>;

/// The series of a metric, by its tags as text.
type Answer = BTreeMap<String, Points>;

/// The bodies that are written to KairosDB: whole numbers and fractions in one series, several points in a
/// second, text, and a time to live.
fn bodies() -> Vec<Value> {
    let mut random = SmallRng::seed_from_u64(7);
    let tags = [
        json!({"host": "a"}),
        json!({"host": "b", "dc": "x y"}),
        json!({"host": "c=d:e", "a:b": "c=d"}),
        json!({"dc": "ü;~", "host": "a"}),
    ];
    let mut bodies = Vec::new();
    for metric in METRICS {
        for tags in &tags {
            let mut points: Vec<Value> = (0..400)
                .map(|_| {
                    let time = match metric {
                        "coarse" => (START + random.random_range(0..LENGTH / 60) * 60) * 1000,
                        _ => START * 1000 + random.random_range(0..LENGTH * 1000),
                    };
                    // In `coarse`, several points have the same minute. If they had two types, it would be
                    // undefined in KairosDB which of them counts, so all have one type.
                    let kind = if metric == "coarse" { 2 } else { random.random_range(0..4) };
                    match kind {
                        0 => json!([time, random.random_range(-1000..1000)]),
                        1 => json!([time, random.random_range(0..1_i64 << 53)]),
                        _ => json!([time, f64::from(random.random_range(-100_000..100_000)) / 64.0 + 0.001]),
                    }
                })
                .collect();
            if metric != "coarse" {
                let burst = START * 1000 + 1_000_000;
                points.extend((0..40).map(|i| json!([burst + i * 130, i as f64 + 0.5])));
            }
            bodies.push(json!([{"name": metric, "tags": tags, "datapoints": points}]));
        }
    }
    bodies.push(json!([{"name": "words", "tags": {"host": "a"}, "type": "string",
        "datapoints": [[START * 1000, "one"], [START * 1000 + 5, "two"]]}]));
    bodies.push(json!([{"name": "mortal", "tags": {"host": "a"}, "ttl": 400_000_000,
        "datapoints": [[START * 1000, 1], [START * 1000 + 86_400_000, 2]]}]));
    bodies
}

/// The points of all series of a metric, queried week by week, because nine weeks of seconds exceed the limit of one
/// query.
fn ask(address: SocketAddr, metric: &str) -> Answer {
    let mut all = Answer::new();
    for week in (START..=START + LENGTH).step_by(7 * 86_400) {
        let query = json!({"start_absolute": week * 1000, "end_absolute": (week + 7 * 86_400) * 1000 - 1,
            "metrics": [{"name": metric, "group_by": [{"name": "tag", "tags": TAGS}]}]});
        ask_once(address, &query).into_iter().for_each(|(tags, mut points)| {
            all.entry(tags).or_default().append(&mut points);
        });
    }
    all
}

/// The answer of a server to a query, by the tags of each series.
fn ask_once(address: SocketAddr, query: &Value) -> Answer {
    let (status, answer) = http::post_json(address, QUERY, query);
    assert_eq!(status, 200, "{answer}");
    let results = answer["queries"][0]["results"].as_array().unwrap();
    let filled = results.iter().filter(|result| !result["values"].as_array().unwrap().is_empty());
    let series = |result: &Value| {
        let point = |pair: &Value| (pair[0].as_i64().unwrap(), pair[1].as_f64().unwrap());
        (result["tags"].to_string(), result["values"].as_array().unwrap().iter().map(point).collect())
    };
    filled.map(series).collect()
}

/// The last point of each second, with the start of the second as its time.
fn last_of_seconds(answer: Answer) -> Answer {
    let cut = |points: Points| {
        let by_second: BTreeMap<i64, f64> =
            points.into_iter().map(|(ms, value)| (ms / 1000, value)).collect();
        by_second.into_iter().map(|(second, value)| (second * 1000, value)).collect()
    };
    answer.into_iter().map(|(tags, points)| (tags, cut(points))).collect()
}

/// The mean of the last points of each minute in every hour.
fn means_of_hours(answer: &Answer) -> Answer {
    let fold = |points: &Points| {
        let minutes: BTreeMap<i64, f64> = points.iter().map(|(ms, value)| (ms / 60_000, *value)).collect();
        let mut hours: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for (minute, value) in minutes {
            let (sum, count) = hours.entry(minute / 60).or_default();
            (*sum, *count) = (*sum + value, *count + 1.0);
        }
        hours.into_iter().map(|(hour, (sum, count))| (hour * 3_600_000, sum / count)).collect()
    };
    answer.iter().map(|(tags, points)| (tags.clone(), fold(points))).collect()
}

fn assert_same(what: &str, ours: &Answer, expected: &Answer) {
    assert_eq!(ours.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{what}");
    for (tags, points) in expected {
        let ours = &ours[tags];
        assert_eq!(ours.len(), points.len(), "{what} {tags}");
        for (ours, theirs) in ours.iter().zip(points) {
            let is_same = ours.0 == theirs.0 && (ours.1 - theirs.1).abs() <= theirs.1.abs() * 1e-12;
            assert!(is_same, "{what} {tags}: ours {ours:?}, expected {theirs:?}");
        }
    }
}

/// The points that a KairosDB returns for each metric.
fn asked(real: &KairosDb) -> BTreeMap<&'static str, Answer> {
    METRICS.into_iter().chain(["mortal"]).map(|metric| (metric, ask(real.http(), metric))).collect()
}

/// Writes points to a KairosDB and waits until it returns all of them.
fn fill(real: &KairosDb) -> BTreeMap<&'static str, Answer> {
    for body in bodies() {
        let answer = http::request(real.http(), "POST", "/api/v1/datapoints", "", &body.to_string());
        assert_eq!(answer.status, 204, "{}", answer.body);
    }
    let whole = |answers: &BTreeMap<&str, Answer>| {
        let least = |metric: &str| if metric == "mortal" { 1 } else { 4 };
        answers.iter().all(|(metric, answer)| {
            answer.len() == least(metric) && answer.values().all(|points| points.len() > 1)
        })
    };
    // Points with equal times make the number of points that KairosDB keeps uncertain, so wait until the number stays
    // the same.
    let mut before = asked(real);
    wait_for("KairosDB to have all points", || {
        std::thread::sleep(std::time::Duration::from_secs(2));
        let answers = asked(real);
        let is_unchanged = answers == before;
        before = answers;
        (is_unchanged && whole(&before)).then(|| before.clone())
    })
}

fn on_cassandra(server: &Server, keyspace: &str, row_time_unit: &str) -> KairosDb {
    KairosDb::start(Backend::Cassandra { server: server.socket(), keyspace, row_time_unit }).unwrap()
}

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.schemas(SCHEMAS).aggregation(AGGREGATION);
    setup
}

fn import(setup: &Setup, arguments: &[&str]) -> Value {
    let ended = setup.run(&[&["import-kairosdb", "--json"], arguments].concat());
    let line = ended.output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{}", ended.output))).unwrap()
}

/// Compares the daemon's points with those that KairosDB returned.
fn compare(what: &str, daemon: &Daemon, expected: &BTreeMap<&'static str, Answer>) {
    for (metric, answer) in expected {
        let expected = match *metric {
            "coarse" => means_of_hours(answer),
            _ => last_of_seconds(answer.clone()),
        };
        assert_same(&format!("{what}: {metric}"), &ask(daemon.api(), metric), &expected);
    }
}

fn points_of(answers: &BTreeMap<&str, Answer>) -> usize {
    answers.values().flat_map(Answer::values).map(Vec::len).sum()
}

#[test]
fn keyspaces_of_all_forms_are_imported() {
    let Some(server) = server::for_tests() else { return };
    let forms = [("MILLISECONDS", "kairos_ms"), ("SECONDS", "kairos_s"), ("LEGACY", "kairos_old")];
    for (form, keyspace) in forms {
        let mut cql = server.connect().unwrap();
        cql.query(&format!("DROP KEYSPACE IF EXISTS {keyspace}")).unwrap();
        if form == "LEGACY" {
            make_old_tables(server, keyspace);
        }
        let unit = if form == "LEGACY" { "MILLISECONDS" } else { form };
        let real = on_cassandra(server, keyspace, unit);
        let expected = fill(&real);
        compare_import(form, server, keyspace, &expected);
        if form == "MILLISECONDS" {
            compare_by_index(server, keyspace, &expected);
            compare_killed(server, keyspace, &expected);
            compare_exported(&real, &expected);
        }
        if form == "LEGACY" {
            drop(real);
            compare_before_1_2(server, keyspace);
        }
    }
}

/// Imports a whole keyspace, after a dry run that must change nothing.
fn compare_import(what: &str, server: &Server, keyspace: &str, expected: &BTreeMap<&'static str, Answer>) {
    let setup = setup();
    let contact = server.contact_point();
    let from = ["--keyspace", keyspace, "--contact-points", &contact];
    let dry = import(&setup, &[&from[..], &["--dry-run", "--suggest-rules"]].concat());
    // KairosDB keeps writing its own metrics, so only those of the test are compared.
    let coarse = dry["rules"].as_array().unwrap().iter().find(|rule| rule["section"] == "coarse").unwrap();
    assert_eq!(coarse["unlisted_rows"], 0, "{what} {dry}");
    assert!(dry["listed_rows"].as_u64() > Some(0), "{what} {dry}");
    assert!(dry["suggested_rules"].as_str().unwrap().contains("[kairosdb_1s]"), "{dry}");
    // In a keyspace whose times are in seconds, two of the texts have the same time.
    assert!(dry["not_kept"]["string"].as_u64() > Some(0), "{what} {dry}");
    assert_eq!(dry["stored"], 0, "{what} {dry}");
    assert_eq!(dry["with_ttl"], 2, "{what} {dry}");
    let report = import(&setup, &from);
    assert!(report["points"].as_u64() >= dry["points"].as_u64(), "{what} {report}");
    assert!(report["points"].as_u64().unwrap() >= points_of(expected) as u64, "{what} {report}");
    assert!(report["skipped"].as_object().unwrap().is_empty(), "{what} {report}");
    assert!(!setup.data().join("maintenance/import-kairosdb").exists(), "{what}");
    let daemon = setup.start();
    compare(what, &daemon, expected);
    // The daemon imports the keyspace too, and finds that it already has every point.
    drop(daemon);
    let again = import(&setup, &from);
    assert!(again["created"].as_u64() < report["created"].as_u64(), "{what} {again}");
    assert!(again["kept"].as_u64() > Some(0), "{what} {again}");
}

/// Imports one metric in a time range, which is found by the indexes.
fn compare_by_index(server: &Server, keyspace: &str, expected: &BTreeMap<&'static str, Answer>) {
    let setup = setup();
    let contact = server.contact_point();
    let (from, until) = (START + LENGTH / 3, START + LENGTH / 2);
    let times = ["--from", &from.to_string(), "--until", &until.to_string()].map(str::to_owned);
    let times: Vec<&str> = times.iter().map(String::as_str).collect();
    let which = ["--keyspace", keyspace, "--contact-points", &contact, "--metric", "odd metric;~"];
    import(&setup, &[&which[..], &times].concat());
    let daemon = setup.start();
    let mut wanted = last_of_seconds(expected["odd metric;~"].clone());
    wanted.values_mut().for_each(|points| points.retain(|(ms, _)| (from..until).contains(&(ms / 1000))));
    assert_same("by index", &ask(daemon.api(), "odd metric;~"), &wanted);
    assert!(ask(daemon.api(), "temp").is_empty());
}

/// Imports a keyspace in runs that are killed.
fn compare_killed(server: &Server, keyspace: &str, expected: &BTreeMap<&'static str, Answer>) {
    let setup = setup();
    kill_and_go_on(&setup, &["--keyspace", keyspace, "--contact-points", &server.contact_point()]);
    let daemon = setup.start();
    compare("a keyspace, killed", &daemon, expected);
}

/// Imports KairosDB's own export: compressed, killed and repeated, in a process of its own and in a daemon.
fn compare_exported(real: &KairosDb, expected: &BTreeMap<&'static str, Answer>) {
    let setup = setup();
    let lines = setup.path().join("export.txt");
    real.export(&lines).unwrap();
    let zipped = setup.path().join("export.txt.gz");
    let mut encoder = GzEncoder::new(std::fs::File::create(&zipped).unwrap(), Compression::fast());
    encoder.write_all(&std::fs::read(&lines).unwrap()).unwrap();
    encoder.finish().unwrap();
    kill_and_go_on(&setup, &[zipped.to_str().unwrap()]);
    let daemon = setup.start();
    compare("export, killed", &daemon, expected);
    drop(daemon);

    let mut setup = self::setup();
    let daemon = setup.start_for_commands();
    let report = import(&setup, &[lines.to_str().unwrap()]);
    assert!(report["skipped"].as_object().unwrap().is_empty(), "{report}");
    compare("export, in a daemon", &daemon, expected);
}

/// Kills the import ten times, each time after more parts were stored, and then lets it end.
fn kill_and_go_on(setup: &Setup, source: &[&str]) {
    let state = setup.data().join("maintenance/import-kairosdb/state.json");
    let stored = || {
        let state: Value = serde_json::from_slice(&std::fs::read(&state).ok()?).ok()?;
        Some(state["stored"].as_array()?.len())
    };
    let slowly = [&["--workers", "1", "--rate", "4000"], source].concat();
    let arguments = [&["import-kairosdb"], &slowly[..]].concat();
    for kill in 1..=10 {
        let mut command = setup.command(&arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("parts to be stored", || {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended before kill {kill}: {ended:?}");
            stored().is_some_and(|stored| stored >= kill * 15)
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let report = import(setup, &slowly);
    // Most points were stored by runs that were killed. The last report counts all of them.
    assert!(report["series"].as_u64().unwrap() >= 13, "{report}");
    assert!(report["skipped"].as_object().unwrap().is_empty(), "{report}");
}

/// The tables of the versions before 1.2. They contain a metric name, by which version 1.3 recognises an old
/// keyspace.
fn make_old_tables(server: &Server, keyspace: &str) {
    let mut cql = server.connect().unwrap();
    cql.query(&format!(
        "CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    ))
    .unwrap();
    for (table, column) in [("data_points", "blob"), ("row_key_index", "blob"), ("string_index", "text")] {
        let columns = format!("key blob, column1 {column}, value blob, PRIMARY KEY (key, column1)");
        cql.query(&format!("CREATE TABLE {keyspace}.{table} ({columns}) WITH COMPACT STORAGE")).unwrap();
    }
    let name = "textAsBlob('metric_names'), 'temp', 0x00";
    cql.query(&format!("INSERT INTO {keyspace}.string_index (key, column1, value) VALUES ({name})")).unwrap();
}

/// Copies a keyspace to one that has only the oldest tables, with rows of the oldest type. KairosDB can still answer
/// from such a keyspace.
fn compare_before_1_2(server: &Server, from: &str) {
    let keyspace = "kairos_oldest";
    let mut cql = server.connect().unwrap();
    cql.query(&format!("DROP KEYSPACE IF EXISTS {keyspace}")).unwrap();
    make_old_tables(server, keyspace);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let rows = cql.query(&format!("SELECT key, column1, value FROM {from}.data_points")).unwrap();
    let mut cells: Vec<[Vec<u8>; 3]> = rows
        .iter()
        .map(|row| [0, 1, 2].map(|column| row.bytes(column).unwrap_or_default().to_vec()))
        .collect();
    // A row without a type: whole numbers, where zero has no bytes, and floating point numbers of both
    // lengths.
    let row_time = (START * 1000 / 1_814_400_000 + 1) * 1_814_400_000;
    let key = [b"temp\0".as_slice(), &row_time.to_be_bytes(), b"host=legacy:"].concat();
    let values: [&[u8]; 6] = [
        b"",
        b"\x21",
        b"\xff\xff\xff\xff\xff\xff\xff\xfe",
        b"\x01\x42\x04\x00\x00",
        b"\x02\x40\x40\x80\x00\x00\x00\x00\x00",
        b"\x01\x00",
    ];
    for (at, value) in values.iter().enumerate() {
        let is_double = u32::from(matches!(at, 3 | 4));
        let column = ((at as u32 + 1) * 10_000) << 1 | is_double;
        cells.push([key.clone(), column.to_be_bytes().to_vec(), value.to_vec()]);
    }
    for [key, column, value] in &cells {
        let metric = hex(key.split(|byte| *byte == 0).next().unwrap());
        let (key, column, value) = (hex(key), hex(column), hex(value));
        cql.query(&format!(
            "INSERT INTO {keyspace}.data_points (key, column1, value) VALUES (0x{key}, 0x{column}, 0x{value})"
        ))
        .unwrap();
        cql.query(&format!(
            "INSERT INTO {keyspace}.row_key_index (key, column1, value) VALUES (0x{metric}, 0x{key}, 0x00)"
        ))
        .unwrap();
    }
    // The import runs before KairosDB opens the keyspace, so it has to find out the form of the keyspace by itself.
    let setup = setup();
    let contact = server.contact_point();
    import(&setup, &["--keyspace", keyspace, "--contact-points", &contact]);
    let real = on_cassandra(server, keyspace, "MILLISECONDS");
    let expected = asked(&real);
    assert_eq!(expected["temp"].len(), 5, "{:?}", expected["temp"].keys());
    assert_eq!(expected["temp"][r#"{"host":["legacy"]}"#].len(), 6);
    let daemon = setup.start();
    compare("the oldest tables", &daemon, &expected);
    drop(daemon);
    // A scan finds rows that no index lists, and the dry run names them.
    cql.query(&format!("TRUNCATE {keyspace}.row_key_index")).unwrap();
    let dry = import(&setup, &["--keyspace", keyspace, "--contact-points", &contact, "--dry-run"]);
    // Meanwhile KairosDB has added the rows of its own metrics to the index of its version.
    let ours: BTreeSet<&[u8]> =
        cells.iter().map(|[key, ..]| key.as_slice()).filter(|key| !key.starts_with(b"kairosdb.")).collect();
    let count = |field: &str| dry[field].as_u64().unwrap();
    assert!(ours.len() > 10 && count("unlisted_rows") >= ours.len() as u64, "{} {dry}", ours.len());
    assert_eq!(count("unlisted_rows") + count("listed_rows"), count("rows"), "{dry}");
    assert!(
        dry["rules"].as_array().unwrap().iter().all(|rule| rule["unlisted_rows"].as_u64() > Some(0)),
        "{dry}"
    );
}

#[test]
fn a_keyspace_that_is_none_is_refused() {
    let Some(server) = server::for_tests() else { return };
    let mut cql = server.connect().unwrap();
    cql.query("DROP KEYSPACE IF EXISTS kairos_foreign").unwrap();
    cql.query(
        "CREATE KEYSPACE kairos_foreign WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    )
    .unwrap();
    let setup = setup();
    let contact = server.contact_point();
    for keyspace in ["kairos_nowhere", "kairos_foreign"] {
        let ended = setup.run(&["import-kairosdb", "--keyspace", keyspace, "--contact-points", &contact]);
        assert!(
            !ended.status.success() && ended.output.contains("there is no such keyspace"),
            "{}",
            ended.output
        );
    }
    cql.query("CREATE TABLE kairos_foreign.people (name text PRIMARY KEY)").unwrap();
    let ended = setup.run(&["import-kairosdb", "--keyspace", "kairos_foreign", "--contact-points", &contact]);
    assert!(ended.output.contains("it has no table data_points"), "{}", ended.output);
    // Rows that cannot be read are named, and the others are imported.
    make_old_tables_in_place(server);
    let report = import(&setup, &["--keyspace", "kairos_damaged", "--contact-points", &contact]);
    assert_eq!((&report["points"], &report["slots"]), (&json!(1), &json!(1)), "{report}");
    assert_eq!(report["skipped"], json!({"unreadable_row": 1, "unreadable_cells": 1}), "{report}");
    assert_eq!(report["refused"], json!({"value": 1}), "{report}");
}

/// A keyspace with one good cell, an invalid row key, an invalid column name and an invalid value.
fn make_old_tables_in_place(server: &Server) {
    let mut cql = server.connect().unwrap();
    cql.query("DROP KEYSPACE IF EXISTS kairos_damaged").unwrap();
    make_old_tables(server, "kairos_damaged");
    let key = concat!("6d00", "0000015d5d4b4400", "000b", "6b6169726f735f6c6f6e67", "613d623a");
    for (key, column, value) in
        [(key, "00000002", "42"), (key, "00000004", "80"), (key, "0000", "42"), ("6d", "00000002", "42")]
    {
        cql.query(&format!(
            "INSERT INTO kairos_damaged.data_points (key, column1, value) VALUES (0x{key}, 0x{column}, 0x{value})"
        ))
        .unwrap();
    }
}

#[test]
fn lines_that_cannot_be_read_are_named() {
    let setup = setup();
    let good =
        r#"{"name":"m","tags":{"a":"b"},"datapoints":[[1693526400000,1,"long"],[1693526400500,2,"long"]]}"#;
    let lines = format!(
        "{good}\n{{\"name\":\n\nn 1693526400 5 a=b\nn 1693526400\n{}\n",
        r#"{"name":"far","tags":{"a":"b"},"datapoints":[[4102444800000,1,"long"],[-5,1,"long"],[1000,1,"long"]]}"#
    );
    let mut cut = GzEncoder::new(Vec::new(), Compression::fast());
    cut.write_all(good.replace("\"m\"", "\"cut\"").as_bytes()).unwrap();
    cut.write_all(b"\n").unwrap();
    let mut cut = cut.finish().unwrap();
    cut.truncate(cut.len() - 8);
    let cut_path = setup.path().join("cut.gz");
    std::fs::write(&cut_path, cut).unwrap();
    let (file, skipped) = (setup.file("lines.txt", &lines), setup.path().join("skipped.txt"));
    let arguments = ["import-kairosdb", "--json", "--skipped", skipped.to_str().unwrap()];
    let paths = [file.to_str().unwrap(), cut_path.to_str().unwrap()];
    let ended = setup.run(&[&arguments[..], &paths].concat());
    assert_eq!(ended.status.code(), Some(5), "{}", ended.output);
    let line = ended.output.lines().find(|line| line.starts_with('{')).unwrap();
    let report: Value = serde_json::from_str(line).unwrap();
    assert_eq!(report["skipped"], json!({"unreadable_line": 2, "unreadable": 1}), "{report}");
    assert_eq!(report["refused"], json!({"timestamp": 1}), "{report}");
    let counts =
        ["same_slot", "future", "too_old", "slots", "cut"].map(|name| report[name].as_u64().unwrap());
    assert_eq!(counts, [2, 1, 1, 3, 2], "{report}");
    let listed = std::fs::read_to_string(skipped).unwrap();
    assert!(listed.contains(&format!("unreadable_line\t{}:2\t", file.display())), "{listed}");
    let directory = setup.run(&["import-kairosdb", setup.path().to_str().unwrap()]);
    assert!(directory.output.contains("it is a directory; name the files in it"), "{}", directory.output);
    assert_eq!(directory.status.code(), Some(2), "{}", directory.output);
}
