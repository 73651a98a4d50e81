//! BigGraphite alone on the test server reproduces the rows, reads and names of a recorded fixture. This shows that
//! the other tests here compare with an unchanged BigGraphite.

use std::collections::BTreeMap;

use plumbago_cassandra_node::cql::Connection;
use plumbago_cassandra_node::server;
use plumbago_tests::biggraphite::{BigGraphite, Found, Metric, Names, Range, make_keyspaces};
use serde_json::{Value, json};

use super::beside::{Beside, range, retention};

const KEYSPACE: &str = "bg_fixture";

pub(super) fn fixture() -> Value {
    serde_json::from_str(include_str!("../../fixtures/biggraphite-rows.json")).unwrap()
}

#[test]
fn biggraphite_does_again_what_was_recorded() {
    let Some(server) = server::for_tests() else { return };
    let Some(mut beside) = Beside::empty(server.socket(), KEYSPACE, 64) else { return };
    let biggraphite = &mut beside.biggraphite;
    let fixture = fixture();
    let metrics: Vec<Metric> = array(&fixture["metrics"]).iter().map(metric).collect();
    make_keyspaces(server.socket(), KEYSPACE);
    let mut retentions: Vec<&str> = metrics.iter().map(|m| m.retention.as_str()).collect();
    retentions.sort_unstable();
    retentions.dedup();
    biggraphite.syncdb(&retentions);

    for (name, ids) in fixture["accessors"].as_object().unwrap() {
        let (replica, writer) = (ids["replica"].as_u64().unwrap(), ids["writer"].as_u64().unwrap());
        let shard = biggraphite.open(name, replica as u8, Some(writer as u16));
        assert_eq!(i64::from(shard), (replica << 14 | writer) as i64);
    }
    biggraphite.create("A", &metrics);
    for feed in array(&fixture["feeds"]) {
        let metric = &metrics[feed["metric"].as_u64().unwrap() as usize];
        let points = array(&feed["points"]).iter().map(|p| (p[0].as_i64().unwrap(), float(&p[1]))).collect();
        let emitted = biggraphite.insert(text(&feed["accessor"]), &[(metric.name.as_str(), points)]);
        let emitted: Vec<Value> =
            emitted[0].iter().map(|(t, v, count, stage)| json!([t, bits(*v), count, stage])).collect();
        assert_eq!(emitted, with_bits(&feed["downsampled"]), "{feed}");
    }
    for name in fixture["accessors"].as_object().unwrap().keys() {
        biggraphite.flush(name);
    }

    for (keyspace, tables) in fixture["tables"].as_object().unwrap() {
        let ours = keyspace.replace("biggraphite", KEYSPACE);
        for (table, rows) in tables.as_object().unwrap() {
            let recorded = array(rows).iter().map(recorded_row).collect();
            assert_eq!(sorted(stored_rows(server, &ours, table)), sorted(recorded), "{table}");
        }
    }
    reads(biggraphite, &fixture, &metrics);
    globs(biggraphite, &fixture);
    our_reads(&beside, &fixture, &metrics);
}

/// Our store reads the recorded rows like BigGraphite.
fn our_reads(beside: &Beside, fixture: &Value, metrics: &[Metric]) {
    let store = beside.store(0, 16_000);
    for read in array(&fixture["reads"]) {
        let metric = &metrics[read["metric"].as_u64().unwrap() as usize];
        let metric = Metric { name: sanitised(&metric.name), ..metric.clone() };
        let (start, end) = (read["start"].as_i64().unwrap(), read["end"].as_i64().unwrap());
        let stages = retention(&metric.retention).stages().len();
        let of = |stage: &usize| range(&metric, *stage, start, end).stage == text(&read["stage"]);
        let stage = (0..stages).find(of).unwrap();
        let range = range(&metric, stage, start, end);
        let ours: Vec<Value> = beside
            .read(&store, &metric, stage, &range)
            .into_iter()
            .map(|(time, value, count)| json!([time, bits(value), count]))
            .collect();
        let mut recorded = with_bits(&read["unaggregated"]);
        recorded.retain(|point| point[1] != "NaN");
        assert_eq!(ours, recorded, "{range:?}");
    }
}

fn sanitised(name: &str) -> String {
    name.split('.').filter(|part| !part.is_empty()).collect::<Vec<_>>().join(".")
}

fn reads(biggraphite: &mut BigGraphite, fixture: &Value, metrics: &[Metric]) {
    for read in array(&fixture["reads"]) {
        let name = metrics[read["metric"].as_u64().unwrap() as usize].name.clone();
        let (start, end) = (read["start"].as_i64().unwrap(), read["end"].as_i64().unwrap());
        let range = [Range { name, stage: text(&read["stage"]).to_owned(), start, end }];
        let points = biggraphite.fetch("A", &range).remove(0).unwrap();
        let points: Vec<Value> = points.iter().map(|(t, v)| json!([t, bits(*v)])).collect();
        assert_eq!(points, with_bits(&read["points"]), "{range:?}");
        let counted = biggraphite.fetch_counted("A", &range).remove(0).unwrap();
        let counted: Vec<Value> = counted.iter().map(|(t, v, count)| json!([t, bits(*v), count])).collect();
        assert_eq!(counted, with_bits(&read["unaggregated"]), "{range:?}");
    }
}

fn globs(biggraphite: &mut BigGraphite, fixture: &Value) {
    let names = |value: &Value| array(value).iter().map(|v| text(v).to_owned()).collect();
    for glob in array(&fixture["globs"]) {
        let expected: Found =
            Ok(Names { metrics: names(&glob["metrics"]), directories: names(&glob["directories"]) });
        assert_eq!(biggraphite.glob("A", &[text(&glob["glob"])]), [expected], "{glob}");
    }
}

/// The columns of a row, each as text. Absent ones are left out.
pub(super) type Row = BTreeMap<String, String>;

pub(super) fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows
}

pub(super) fn recorded_row(row: &Value) -> Row {
    let cell = |value: &Value| match value {
        Value::Object(map) => map.iter().map(|(k, v)| format!("{k}={};", text(v))).collect(),
        Value::String(text) => text.clone(),
        number => number.to_string(),
    };
    let value = |(name, cell_value): (&String, &Value)| {
        let shown = if name == "value" { bits(float(cell_value)) } else { cell(cell_value) };
        (name.clone(), shown)
    };
    row.as_object().unwrap().iter().map(value).collect()
}

pub(super) fn stored_rows(server: &server::Server, keyspace: &str, table: &str) -> Vec<Row> {
    let mut cql: Connection = server.connect().unwrap();
    let rows = cql.query(&format!("SELECT * FROM {keyspace}.{table}")).unwrap();
    let cell = |name: &str, row: &plumbago_cassandra_node::cql::Row, column: usize| {
        let bytes = row.bytes(column)?;
        Some(match name {
            "metric" | "id" => uuid(bytes),
            "created_on" | "updated_on" | "read_on" => "timeuuid".to_owned(),
            "value" => bits(row.double(column)?),
            "config" => map(bytes),
            "time_start_ms" | "offset" | "shard" | "count" => row.integer(column)?.to_string(),
            _ => row.text(column)?.to_owned(),
        })
    };
    let row = |row| {
        let cells = rows.columns().iter().enumerate();
        cells.filter_map(|(i, name)| Some((name.clone(), cell(name, row, i)?))).collect()
    };
    rows.iter().map(row).collect()
}

/// Decodes a `map<text, text>`: a count, then keys and values, each preceded by its length.
fn map(bytes: &[u8]) -> String {
    let number = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut texts) = (4, Vec::new());
    for _ in 0..2 * number(0) {
        let end = at + 4 + number(at);
        texts.push(std::str::from_utf8(&bytes[at + 4..end]).unwrap());
        at = end;
    }
    texts.chunks(2).map(|pair| format!("{}={};", pair[0], pair[1])).collect()
}

pub(super) fn uuid(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

pub(super) fn metric(value: &Value) -> Metric {
    Metric {
        name: text(&value["given"]).to_owned(),
        retention: text(&value["retention"]).to_owned(),
        aggregator: text(&value["aggregator"]).to_owned(),
        factor: float(&value["carbon_xfilesfactor"]),
    }
}

pub(super) fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

pub(super) fn float(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| text(value).parse().unwrap())
}

/// A text that is equal for numbers with equal bits. All NaN are equal.
pub(super) fn bits(value: f64) -> String {
    if value.is_nan() { "NaN".to_owned() } else { format!("{value:?}") }
}

/// The lists with their second element, the value, as [`bits`].
fn with_bits(list: &Value) -> Vec<Value> {
    let mut list = array(list).clone();
    for element in &mut list {
        let value = float(&element[1]);
        element[1] = json!(bits(value));
    }
    list
}
