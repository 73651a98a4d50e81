//! The real OpenTSDB on a standalone HBase. Tests compare the answers to our queries with its answers.

use std::net::SocketAddr;

use plumbago_kairosdb_node::opentsdb;
use serde_json::{Value, json};

use crate::http;

/// A running OpenTSDB. It is killed and its files removed when it is dropped.
#[derive(Debug)]
pub struct OpenTsdb(opentsdb::OpenTsdb);

impl OpenTsdb {
    /// Starts OpenTSDB and waits until queries are answered. `None`, and a recorded skip, if it is not installed.
    pub fn start() -> Option<Self> {
        opentsdb::for_test().map(Self)
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.http()
    }

    /// Assigns ids to names in this order. OpenTSDB sorts series by the ids of their tags, so the order of results
    /// depends on it.
    pub fn assign(&self, kind: &str, names: &[&str]) {
        for name in names {
            let (status, answer) = self.post("/api/uid/assign", &json!({ kind: [name] }));
            assert_eq!(status, 200, "{answer}");
        }
    }

    /// Sends a request with a body of JSON, and returns status and answer.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = http::request(self.address(), "POST", path, "", &body.to_string());
        (answer.status, serde_json::from_str(&answer.body).unwrap_or(Value::String(answer.body)))
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.0.log()
    }
}
