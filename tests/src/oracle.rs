//! The real whisper and graphite-web, in one Python process.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::counterpart;
use crate::json_lines::JsonLines;
use crate::send::Point;

/// The definition of a metric for whisper.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Name of the metric.
    pub name: String,
    /// Seconds per slot and number of slots, finest first.
    pub stages: Vec<(i64, i64)>,
    /// xFilesFactor: the fraction of slots that must be known for an aggregate.
    pub factor: f64,
    /// The aggregation method.
    pub method: String,
}

/// An HTTP answer of graphite-web.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The content type.
    pub content_type: String,
    /// The body.
    pub body: String,
    /// How long graphite-web took, in seconds.
    pub seconds: f64,
}

/// A running oracle.
#[derive(Debug)]
pub struct Oracle {
    process: JsonLines,
    _directory: TempDir,
}

impl Oracle {
    /// Starts the oracle. `None`, and a recorded skip, if Python or its packages are missing.
    pub fn start() -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("plumbago-oracle-").tempdir().unwrap();
        std::fs::create_dir(directory.path().join("whisper")).unwrap();
        let log = directory.path().join("oracle.log");
        let mut command = Command::new(counterpart::python()?);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/oracle.py"));
        command.env("GRAPHITE_STORAGE_DIR", directory.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        Some(Self { process: JsonLines::start(command, &log), _directory: directory })
    }

    /// Creates whisper files.
    pub fn create<'a>(&mut self, metrics: impl IntoIterator<Item = &'a Kept>) {
        let files: Vec<Value> =
            metrics.into_iter().map(|m| json!([m.name, m.stages, m.factor, m.method])).collect();
        self.process.ask(&json!({"cmd": "create", "files": files}));
    }

    /// Writes points one by one, in this order, with the clock at `now`.
    pub fn update(&mut self, now: i64, points: &[Point]) {
        let points: Vec<Value> = points.iter().map(|p| json!([p.name, p.timestamp, p.value])).collect();
        self.process.ask(&json!({"cmd": "update", "now": now, "points": points}));
    }

    /// Writes values of a metric, `step` seconds apart from `start` on, with the clock at `now`.
    pub fn fill(&mut self, now: i64, name: &str, (start, step): (i64, i64), values: &[f64]) {
        self.process.ask(&json!({"cmd": "fill", "now": now, "series": [[name, start, step, values]]}));
    }

    /// Sets the clock.
    pub fn set_clock(&mut self, now: i64) {
        self.update(now, &[]);
    }

    /// Decodes MessagePack or pickle with Python's libraries. Returns the content as JSON.
    pub fn decode(&mut self, kind: &str, bytes: &[u8]) -> Value {
        let answer = self.process.ask(&json!({"cmd": "decode", "kind": kind, "bytes": hex(bytes)}));
        serde_json::from_str(answer["text"].as_str().unwrap()).unwrap()
    }

    /// Sends a GET request to graphite-web, with the clock at `now`. A binary body is decoded to JSON.
    pub fn get(&mut self, now: i64, path: &str) -> Answer {
        answer(&self.process.ask(&json!({"cmd": "get", "now": now, "paths": [path]})))
    }

    /// Like [`Self::get`], with an `Accept` header.
    pub fn get_accepting(&mut self, now: i64, path: &str, accept: &str) -> Answer {
        answer(&self.process.ask(&json!({"cmd": "get", "now": now, "paths": [path], "accept": accept})))
    }

    /// Sends a POST request with a form, or any other body, to graphite-web.
    pub fn post(&mut self, now: i64, path: &str, form: &str) -> Answer {
        answer(&self.process.ask(&json!({"cmd": "post", "now": now, "path": path, "form": form})))
    }

    /// The points that carbon's own receiver (`line`, `udp` or `pickle`) accepts from the bytes of a connection.
    pub fn parse(&mut self, kind: &str, bytes: &[u8]) -> Vec<Point> {
        let answer = self.process.ask(&json!({"cmd": "parse", "kind": kind, "bytes": hex(bytes)}));
        let point = |p: &Value| {
            let value = p[2].as_str()?.parse().ok()?;
            Some(Point::new(p[0].as_str()?, p[1].as_i64()?, value))
        };
        answer["points"].as_array().unwrap().iter().map(|p| point(p).unwrap()).collect()
    }

    /// Pickle frames as Python's senders write them, each with a description.
    pub fn pickles(&mut self) -> Vec<(String, Vec<u8>)> {
        let answer = self.process.ask(&json!({"cmd": "pickles"}));
        let frames = answer["frames"].as_array().unwrap();
        frames.iter().map(|f| (f[0].as_str().unwrap().to_owned(), unhex(f[1].as_str().unwrap()))).collect()
    }
}

fn answer(answers: &Value) -> Answer {
    let answer = &answers["answers"][0];
    Answer {
        status: answer["status"].as_u64().unwrap() as u16,
        content_type: answer["type"].as_str().unwrap().to_owned(),
        body: answer["body"].as_str().unwrap().to_owned(),
        seconds: answer["seconds"].as_f64().unwrap(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}
