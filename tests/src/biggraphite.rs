//! The real BigGraphite on a real server, driven through its own accessor.

use std::net::SocketAddr;
use std::process::Command;

use plumbago_cassandra_node::cql::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::counterpart;
use crate::json_lines::JsonLines;

/// The definition of a metric for BigGraphite.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Name of the metric.
    pub name: String,
    /// Retention, like `60*1s:1440*60s`.
    pub retention: String,
    /// Aggregation method in BigGraphite's spelling: `average`, `total`, `minimum`, `maximum` or `last`.
    pub aggregator: String,
    /// xFilesFactor.
    pub factor: f64,
}

/// The metadata of a metric as BigGraphite reads them.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Id of the metric.
    pub id: String,
    /// Retention, like `60*1s:1440*60s`.
    pub retention: String,
    /// Aggregation method in BigGraphite's spelling.
    pub aggregator: String,
    /// xFilesFactor as stored.
    pub factor: String,
}

/// Points of a metric: seconds since the epoch and value.
pub type Points = Vec<(i64, f64)>;

/// A row that BigGraphite's downsampler emitted: time, value, count, stage (`1440*60s_aggr`).
pub type Emitted = Vec<(i64, f64, u64, String)>;

/// A half-open range of a stage. Both ends are starts of slots.
#[derive(Debug, Clone)]
pub struct Range {
    /// Name of the metric.
    pub name: String,
    /// The stage, like `1440*60s_aggr`.
    pub stage: String,
    /// Start of the range, inclusive, in seconds since the epoch.
    pub start: i64,
    /// End of the range, exclusive, in seconds since the epoch.
    pub end: i64,
}

/// The sorted result of a glob, or the error that BigGraphite raises.
pub type Found = Result<Names, String>;

/// Names of metrics and directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Names of metrics.
    pub metrics: Vec<String>,
    /// Names of directories.
    pub directories: Vec<String>,
}

/// A running BigGraphite.
#[derive(Debug)]
pub struct BigGraphite {
    process: JsonLines,
    _directory: TempDir,
}

/// The name of the accessor in tests that need only one.
pub const ONE: &str = "one";

/// Creates both keyspaces, empty, as BigGraphite's documentation describes.
pub fn make_keyspaces(server: SocketAddr, keyspace: &str) {
    let mut cql = Connection::open(server, None).unwrap();
    for (keyspace, durable) in [(keyspace.to_owned(), false), (format!("{keyspace}_metadata"), true)] {
        cql.query(&format!("DROP KEYSPACE IF EXISTS {keyspace}")).unwrap();
        let replication = "{'class': 'SimpleStrategy', 'replication_factor': '1'}";
        let options = format!("replication = {replication} AND durable_writes = {durable}");
        cql.query(&format!("CREATE KEYSPACE {keyspace} WITH {options}")).unwrap();
    }
}

impl BigGraphite {
    /// Starts BigGraphite on a keyspace. `None`, and a recorded skip, if its Python environment is missing.
    pub fn start(server: SocketAddr, keyspace: &str, components: u32) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("plumbago-biggraphite-").tempdir().unwrap();
        let mut command = Command::new(counterpart::python_biggraphite()?);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/biggraphite_driver.py"));
        command.args([server.ip().to_string(), server.port().to_string(), keyspace.to_owned()]);
        command.env("BG_COMPONENTS_MAX_LEN", components.to_string()).env("PYTHONDONTWRITEBYTECODE", "1");
        let process = JsonLines::start(command, &directory.path().join("biggraphite.log"));
        Some(Self { process, _directory: directory })
    }

    /// Creates its tables, including those for these retentions.
    pub fn syncdb(&mut self, retentions: &[&str]) {
        self.process.ask(&json!({"cmd": "syncdb", "retentions": retentions}));
    }

    /// Opens an accessor, which is a writer, or restarts the open one of this name. Returns its number: the
    /// column `shard` of its rows.
    pub fn open(&mut self, accessor: &str, replica: u8, writer: Option<u16>) -> i16 {
        let question = json!({"cmd": "accessor", "accessor": accessor, "replica": replica, "writer": writer});
        self.process.ask(&question)["shard"].as_i64().unwrap() as i16
    }

    /// Creates metrics.
    pub fn create<'a>(&mut self, accessor: &str, metrics: impl IntoIterator<Item = &'a Metric>) {
        let metrics: Vec<Value> =
            metrics.into_iter().map(|m| json!([m.name, m.retention, m.aggregator, m.factor])).collect();
        self.process.ask(&json!({"cmd": "create", "accessor": accessor, "metrics": metrics}));
    }

    /// Makes one call of the writer per element, in order. Returns the rows that the downsampler emitted.
    pub fn insert(&mut self, accessor: &str, calls: &[(&str, Points)]) -> Vec<Emitted> {
        let text = |(t, v): &(i64, f64)| json!([t, format!("{v:?}")]);
        let points: Vec<Value> = calls
            .iter()
            .map(|(name, points)| json!([name, points.iter().map(text).collect::<Vec<_>>()]))
            .collect();
        let answer = self.process.ask(&json!({"cmd": "insert", "accessor": accessor, "points": points}));
        array(&answer["emitted"]).iter().map(|call| array(call).iter().map(emitted).collect()).collect()
    }

    /// Writes points at `times` (first, step, number) to each metric, with a fixed number of points in each
    /// call. Returns the wall time and the processor time, in seconds, until all were acknowledged.
    pub fn load(
        &mut self,
        accessor: &str,
        names: &[String],
        times: (i64, i64, u32),
        per_call: usize,
    ) -> (f64, f64) {
        let question = json!({
            "cmd": "load", "accessor": accessor, "names": names, "times": times, "per_call": per_call,
        });
        let answer = self.process.ask(&question);
        (answer["seconds"].as_f64().unwrap(), answer["cpu"].as_f64().unwrap())
    }

    /// The number of metrics that it finds for each glob, and the milliseconds that each attempt took.
    pub fn time_globs(&mut self, accessor: &str, globs: &[&str], tries: usize) -> Vec<(usize, Vec<f64>)> {
        let question = json!({"cmd": "time_globs", "accessor": accessor, "globs": globs, "tries": tries});
        let timed = |one: &Value| {
            let tries = array(&one["ms"]).iter().map(|ms| ms.as_f64().unwrap()).collect();
            (one["found"].as_u64().unwrap() as usize, tries)
        };
        array(&self.process.ask(&question)["timed"]).iter().map(timed).collect()
    }

    /// Writes what its delayed writer has queued: hourly and coarser windows.
    pub fn flush(&mut self, accessor: &str) {
        self.process.ask(&json!({"cmd": "flush", "accessor": accessor}));
    }

    /// Reads a range. `None` if the metric does not exist.
    pub fn fetch(&mut self, accessor: &str, ranges: &[Range]) -> Vec<Option<Points>> {
        let point = |p: &Value| (p[0].as_i64().unwrap(), float(&p[1]));
        let series = self.fetch_series(accessor, ranges, true);
        series.iter().map(|s| Some(s.as_array()?.iter().map(point).collect())).collect()
    }

    /// Reads a range without the last step of a read: returns values and counts merged over writers, where
    /// averages are still sums.
    pub fn fetch_counted(&mut self, accessor: &str, ranges: &[Range]) -> Vec<Option<Vec<(i64, f64, u64)>>> {
        let point = |p: &Value| (p[0].as_i64().unwrap(), float(&p[1]), p[2].as_u64().unwrap());
        let series = self.fetch_series(accessor, ranges, false);
        series.iter().map(|s| Some(s.as_array()?.iter().map(point).collect())).collect()
    }

    fn fetch_series(&mut self, accessor: &str, ranges: &[Range], aggregated: bool) -> Vec<Value> {
        let ranges: Vec<Value> = ranges.iter().map(|r| json!([r.name, r.stage, r.start, r.end])).collect();
        let question =
            json!({"cmd": "fetch", "accessor": accessor, "ranges": ranges, "aggregated": aggregated});
        array(&self.process.ask(&question)["series"]).clone()
    }

    /// Metadata of names, in the given order. `None` for a name that is not a metric.
    pub fn get(&mut self, accessor: &str, names: &[&str]) -> Vec<Option<Known>> {
        let answer = self.process.ask(&json!({"cmd": "get", "accessor": accessor, "names": names}));
        let known = |m: &Value| {
            m.as_object()?;
            let text = |key: &str| m[key].as_str().unwrap().to_owned();
            Some(Known {
                id: text("id"),
                retention: text("retention"),
                aggregator: text("aggregator"),
                factor: text("carbon_xfilesfactor"),
            })
        };
        array(&answer["metrics"]).iter().map(known).collect()
    }

    /// The result of each glob.
    pub fn glob(&mut self, accessor: &str, globs: &[&str]) -> Vec<Found> {
        let answer = self.process.ask(&json!({"cmd": "glob", "accessor": accessor, "globs": globs}));
        let found = |f: &Value| match f["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(Names { metrics: texts(&f["metrics"]), directories: texts(&f["directories"]) }),
        };
        array(&answer["found"]).iter().map(found).collect()
    }

    /// Deletes metrics. Their points stay.
    pub fn delete(&mut self, accessor: &str, names: &[&str]) {
        self.process.ask(&json!({"cmd": "delete", "accessor": accessor, "names": names}));
    }
}

fn emitted(e: &Value) -> (i64, f64, u64, String) {
    (e[0].as_i64().unwrap(), float(&e[1]), e[2].as_u64().unwrap(), e[3].as_str().unwrap().to_owned())
}

fn float(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

fn texts(value: &Value) -> Vec<String> {
    array(value).iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}
