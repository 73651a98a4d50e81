//! The real BigGraphite on a real server, through its own accessor.

use std::net::SocketAddr;
use std::process::Command;

use plumbago_cassandra_node::cql::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::counterpart;
use crate::json_lines::JsonLines;

/// A metric as BigGraphite is told to keep it.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Like `60*1s:1440*60s`.
    pub retention: String,
    /// BigGraphite's word: `average`, `total`, `minimum`, `maximum`, `last`.
    pub aggregator: String,
    /// xFilesFactor.
    pub factor: f64,
}

/// A metric's metadata, as BigGraphite reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// The id.
    pub id: String,
    /// Retention.
    pub retention: String,
    /// Aggregator.
    pub aggregator: String,
    /// xFilesFactor as stored.
    pub factor: String,
}

/// Points of one metric: Unix time and value.
pub type Points = Vec<(i64, f64)>;

/// What BigGraphite's downsampler made of a call: time, value, count, stage (`1440*60s_aggr`).
pub type Emitted = Vec<(i64, f64, u64, String)>;

/// A stretch of a stage, half open, both ends on its slots.
#[derive(Debug, Clone)]
pub struct Range {
    /// The metric.
    pub name: String,
    /// Like `1440*60s_aggr`.
    pub stage: String,
    /// Unix time.
    pub start: i64,
    /// Unix time.
    pub end: i64,
}

/// What a glob finds, sorted; or why BigGraphite fails on it.
pub type Found = Result<Names, String>;

/// Names of both kinds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Of metrics.
    pub metrics: Vec<String>,
    /// Of directories.
    pub directories: Vec<String>,
}

/// The running BigGraphite.
#[derive(Debug)]
pub struct BigGraphite {
    process: JsonLines,
    _directory: TempDir,
}

/// The name of the accessor when a test needs only one.
pub const ONE: &str = "one";

/// Makes both keyspaces as BigGraphite's documentation says, empty ones.
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
    /// Starts it for a keyspace; `None` (a recorded skip) where its Python environment is missing.
    pub fn start(server: SocketAddr, keyspace: &str, components: u32) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("plumbago-biggraphite-").tempdir().unwrap();
        let mut command = Command::new(counterpart::python_biggraphite()?);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/biggraphite_driver.py"));
        command.args([server.ip().to_string(), server.port().to_string(), keyspace.to_owned()]);
        command.env("BG_COMPONENTS_MAX_LEN", components.to_string()).env("PYTHONDONTWRITEBYTECODE", "1");
        let process = JsonLines::start(command, &directory.path().join("biggraphite.log"));
        Some(Self { process, _directory: directory })
    }

    /// Makes its tables, with those of these retentions.
    pub fn syncdb(&mut self, retentions: &[&str]) {
        self.process.ask(&json!({"cmd": "syncdb", "retentions": retentions}));
    }

    /// Opens an accessor, which is a writer; a name that is open already is restarted. Gives its shard.
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

    /// One call of its writer for each element, in this order; gives what the downsampler emitted.
    pub fn insert(&mut self, accessor: &str, calls: &[(&str, Points)]) -> Vec<Emitted> {
        let text = |(t, v): &(i64, f64)| json!([t, format!("{v:?}")]);
        let points: Vec<Value> = calls
            .iter()
            .map(|(name, points)| json!([name, points.iter().map(text).collect::<Vec<_>>()]))
            .collect();
        let answer = self.process.ask(&json!({"cmd": "insert", "accessor": accessor, "points": points}));
        array(&answer["emitted"]).iter().map(|call| array(call).iter().map(emitted).collect()).collect()
    }

    /// Feeds each metric points at `times` (first, step, how many), so many of them in a call, and gives
    /// the seconds and the processor seconds that it took until all were acknowledged.
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

    /// How many metrics it finds for each glob, and how many milliseconds each try took.
    pub fn time_globs(&mut self, accessor: &str, globs: &[&str], tries: usize) -> Vec<(usize, Vec<f64>)> {
        let question = json!({"cmd": "time_globs", "accessor": accessor, "globs": globs, "tries": tries});
        let timed = |one: &Value| {
            let tries = array(&one["ms"]).iter().map(|ms| ms.as_f64().unwrap()).collect();
            (one["found"].as_u64().unwrap() as usize, tries)
        };
        array(&self.process.ask(&question)["timed"]).iter().map(timed).collect()
    }

    /// Writes what the delayed writer holds back: hourly and coarser windows.
    pub fn flush(&mut self, accessor: &str) {
        self.process.ask(&json!({"cmd": "flush", "accessor": accessor}));
    }

    /// Reads; `None` for a metric that it does not know.
    pub fn fetch(&mut self, accessor: &str, ranges: &[Range]) -> Vec<Option<Points>> {
        let point = |p: &Value| (p[0].as_i64().unwrap(), float(&p[1]));
        let series = self.fetch_series(accessor, ranges, true);
        series.iter().map(|s| Some(s.as_array()?.iter().map(point).collect())).collect()
    }

    /// Reads without the last step: values merged over writers, with their counts; sums for averages.
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

    /// Metadata by name, in the order asked; `None` for what BigGraphite takes for no metric.
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

    /// What it finds for each glob.
    pub fn glob(&mut self, accessor: &str, globs: &[&str]) -> Vec<Found> {
        let answer = self.process.ask(&json!({"cmd": "glob", "accessor": accessor, "globs": globs}));
        let found = |f: &Value| match f["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(Names { metrics: texts(&f["metrics"]), directories: texts(&f["directories"]) }),
        };
        array(&answer["found"]).iter().map(found).collect()
    }

    /// Deletes metrics; their points stay.
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
