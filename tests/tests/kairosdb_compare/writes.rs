//! Compares writes: the status of the answer, and the stored points.

use std::io::Write as _;
use std::net::SocketAddr;

use flate2::Compression;
use flate2::write::GzEncoder;
use plumbago_tests::http::{self, Response};
use plumbago_tests::wait::wait_for;
use serde_json::{Value, json};

use super::answers::Verdict;
use super::{Both, QUERY};

/// 2023-10-29 00:00 UTC, in milliseconds, as text for bodies.
const T: &str = "1698537600000";

/// A body that is sent to both servers.
pub(super) struct Write {
    /// The metric, which is different for each body.
    metric: String,
    /// The body, in which `$M` stands for the metric and `$T` for a time.
    body: String,
    headers: String,
    path: &'static str,
    gzip: bool,
    /// The reason why the answer differs on purpose, if it does.
    on_purpose: Option<&'static str>,
}

const TEXT: &str = "text is refused: every point is a number";

/// The parts of a body that describe its points, each for one metric with one tag, and why the answers may differ.
fn points() -> Vec<(&'static str, Option<&'static str>)> {
    let beyond = Some("KairosDB overflows beyond 2^63, we keep the nearest double");
    let negative = Some("times before 1970 are refused");
    vec![
        (r#""datapoints":[[$T,1]]"#, None),
        (r#""datapoints":[[$T,2.5]]"#, None),
        (r#""datapoints":[[$T,"3"]]"#, None),
        (r#""datapoints":[[$T,"4.0"]]"#, None),
        (r#""datapoints":[[$T,"12.3"]]"#, None),
        (r#""datapoints":[[$T,-7],[1698537601000,0]]"#, None),
        (r#""datapoints":[[$T,1e3]]"#, None),
        (r#""datapoints":[[$T,1.5e3]]"#, None),
        (r#""datapoints":[[$T,5],[$T,6]]"#, None),
        (r#""datapoints":[["$T",5]]"#, None),
        (r#""datapoints":[[1698537600000.9,5]]"#, None),
        (r#""datapoints":[[$T,5,"long"]]"#, None),
        (r#""datapoints":[[$T,5,"double"]]"#, None),
        (r#""type":"double","datapoints":[[$T,5]]"#, None),
        (r#""datapoints":[]"#, None),
        (r#""datapoints":null"#, None),
        (r#""timestamp":$T,"value":5"#, None),
        (r#""time":$T,"value":5"#, None),
        (r#""timestamp":$T,"value":"5""#, None),
        (r#""timestamp":$T,"value":5,"datapoints":[[1698537601000,6]]"#, None),
        (r#""time":$T,"timestamp":1698537601000,"value":5"#, None),
        (r#""timestamp":$T,"time":1698537601000,"value":5"#, None),
        (r#""datapoints":[[$T,5]],"datapoints":[[1698537601000,6]]"#, Some("both lists count")),
        (r#""datapoints":[[$T,5]],"ttl":"x""#, Some("a time to live is ignored")),
        (r#""datapoints":[[$T,5]],"ttl":0"#, None),
        (r#""datapoints":[[$T,5]],"ttl":-1"#, None),
        (r#""datapoints":[[$T,5]],"ttl":"5000000""#, None),
        (r#""datapoints":[[$T,5]],"unknown":{"a":[1]}"#, None),
        (r#""datapoints":[[$T,5]],"skip_validate":true"#, None),
        (r#""datapoints":[[0,5]]"#, Some("older than every stage of the storage rule")),
        (r#""datapoints":[[$T,"hello"]]"#, Some(TEXT)),
        (r#""datapoints":[[$T,true]]"#, Some(TEXT)),
        (r#""datapoints":[[$T,NaN]]"#, Some(TEXT)),
        (r#""datapoints":[[$T,"NaN"]]"#, Some(TEXT)),
        (r#""type":"string","datapoints":[[$T,"x"]]"#, Some(TEXT)),
        (r#""datapoints":[[$T,9223372036854775808]]"#, beyond),
        (r#""datapoints":[[-1000,5]]"#, negative),
        (r#""datapoints":[[]]"#, None),
        (r#""datapoints":[[$T]]"#, None),
        (r#""datapoints":[[$T,null]]"#, None),
        (r#""datapoints":[[$T,null],[1698537601000,6]]"#, None),
        (r#""datapoints":[[null,5]]"#, None),
        (r#""timestamp":$T"#, None),
        (r#""value":5"#, None),
        (r#""type":"nothing","datapoints":[[$T,5]]"#, None),
        (r#""type":"nothing","timestamp":$T,"value":5"#, None),
    ]
}

/// Complete bodies, with the reason why the answers may differ.
fn bodies() -> Vec<(&'static str, Option<&'static str>)> {
    vec![
        (r#"[{"name":"$M","tags":{"h":"a"},"datapoints":[[$T,5]]}]"#, None),
        (r#"{"name":"$M","tags":{"h":1},"datapoints":[[$T,5]]}"#, None),
        (r#"{"name":"$M","tags":{"h":1.0,"i":2.5},"datapoints":[[$T,5]]}"#, None),
        (r#"{"name":"$M","tags":{"h":true},"datapoints":[[$T,5]]}"#, None),
        (
            r#"{"name":"$M","tags":{"h":"a","h":"b"},"datapoints":[[$T,5]]}"#,
            Some("a tag with two values is refused"),
        ),
        (
            r#"{"name":"$M","tags":{"h":"a","h":"a"},"datapoints":[[$T,5]]}"#,
            Some("the same tag twice is one tag"),
        ),
        ("\u{feff}{\"name\":\"$M\",\"tags\":{\"h\":\"a\"},\"datapoints\":[[$T,5]]}", None),
        (
            r#"[{"name":"$M","tags":{"h":"a"},"datapoints":[[$T,5]]},null]"#,
            Some("an entry that is null is refused alone"),
        ),
        (r#"{"name":"$M","tags":{"h":"a","name":"n"},"datapoints":[[$T,5]]}"#, None),
        (r#"{"name":"$M","tags":{"h h":"a b;=~:é"},"datapoints":[[$T,5]]}"#, None),
        (r#"{"name":"$M ;=~:é","tags":{"h":"a"},"datapoints":[[$T,5]]}"#, None),
        (r#"{"name":"$M","datapoints":[[$T,5]]}"#, None),
        (r#"{"name":"$M","tags":{},"datapoints":[[$T,5]]}"#, None),
        (r#"{"name":"","tags":{"h":"a"},"datapoints":[[$T,5]]}"#, None),
        (r#"{"tags":{"h":"a"},"datapoints":[[$T,5]]}"#, None),
        (r#"{"name":"$M","tags":{"":"a"},"datapoints":[[$T,5]]}"#, None),
        (r#"{"name":"$M","tags":{"h":""},"datapoints":[[$T,5]]}"#, None),
        (r#"{"name":"$M","tags":{"h":null},"datapoints":[[$T,5]]}"#, None),
        (
            r#"[{"name":"$M","tags":{"h":"a"},"datapoints":[[$T,5]]},{"name":"$M","tags":{},"datapoints":[[$T,6]]},{"name":"$M","tags":{"h":"c"},"datapoints":[[$T,7]]}]"#,
            None,
        ),
        ("[]", None),
        (r#"{"name":"$M","tags":{"h":"a"},"datapoints":[[$T,5]]} text"#, None),
        ("", None),
        ("null", None),
        (r#""x""#, None),
        (r#"{"name":"$M","tags":{"h":"a"},"datapoints":[[$T,5]"#, None),
    ]
}

/// All bodies.
pub(super) fn all() -> Vec<Write> {
    let of_points = points()
        .into_iter()
        .map(|(points, on_purpose)| (format!(r#"{{"name":"$M","tags":{{"h":"a"}},{points}}}"#), on_purpose));
    let whole = bodies().into_iter().map(|(body, on_purpose)| (body.to_owned(), on_purpose));
    let plain =
        of_points.chain(whole).map(|(body, on_purpose)| (body, "", "/api/v1/datapoints", false, on_purpose));
    let good = r#"[{"name":"$M","tags":{"h":"a"},"datapoints":[[$T,5]]}]"#;
    let sent = [
        ("Content-Type: text/plain\r\n", "/api/v1/datapoints", false),
        ("Content-Type: applicaton/json\r\n", "/api/v1/datapoints/", false),
        ("Content-Encoding: gzip\r\n", "/api/v1/datapoints", true),
        ("Content-Type: application/gzip\r\n", "/api/v1/datapoints", true),
        ("", "/api/v1/datapoints", true),
    ];
    let sent = sent.map(|(headers, path, gzip)| (good.to_owned(), headers, path, gzip, None));
    let numbered = plain.chain(sent).enumerate();
    let write = numbered.map(|(number, (body, headers, path, gzip, on_purpose))| {
        let metric = format!("w{number}");
        Write { body, headers: headers.to_owned(), path, gzip, on_purpose, metric }
    });
    write.collect()
}

impl Write {
    pub(super) fn shown(&self) -> String {
        format!("{} {}{}", self.text(), self.headers.trim(), if self.gzip { " gzip" } else { "" })
    }

    fn text(&self) -> String {
        self.body.replace("$M", &self.metric).replace("$T", T)
    }

    /// Sends the body to both servers, and compares the statuses and the answers to a query of the metric.
    pub(super) fn compare(&self, both: &Both) -> Verdict {
        let (real, ours) = (self.send(both.real.http()), self.send(both.ours.api()));
        let statuses = (real.status, ours.status);
        let stored = if statuses.0 == statuses.1 { self.stored(both, statuses.0) } else { Ok(()) };
        match (statuses.0 == statuses.1, stored, self.on_purpose) {
            (true, Ok(()), _) => Verdict::Equal,
            (_, _, Some(reason)) => Verdict::OnPurpose(reason),
            (false, ..) => {
                Verdict::Different(format!("{} {} / {} {}", real.status, real.body, ours.status, ours.body))
            }
            (true, Err(what), None) => Verdict::Different(what),
        }
    }

    fn send(&self, address: SocketAddr) -> Response {
        let bytes = if self.gzip { gzip(self.text().as_bytes()) } else { self.text().into_bytes() };
        http::post_bytes(address, self.path, &self.headers, &bytes)
    }

    fn ask(&self, address: SocketAddr, metric: &str) -> Value {
        ask(address, metric, if self.body.contains("[[0,") { (0, 1_000_000) } else { MIDST })
    }

    /// Waits until a point that was sent afterwards is found, and compares the stored points.
    fn stored(&self, both: &Both, status: u16) -> Result<(), String> {
        let name = if self.body.contains("$M ;=~:é") {
            format!("{} ;=~:é", self.metric)
        } else {
            self.metric.clone()
        };
        let last = format!("{}.last", self.metric);
        let body = json!([{"name": last, "tags": {"h": "a"}, "datapoints": [[1_698_537_600_000_i64, 1]]}]);
        both.fill(&[body]);
        let found = |address| {
            wait_for("the point that was sent last", || {
                let answer = ask(address, &last, MIDST);
                (answer["queries"][0]["sample_size"] == 1).then_some(())
            });
            self.ask(address, &name)["queries"][0]["results"].clone()
        };
        let (real, ours) = (found(both.real.http()), found(both.ours.api()));
        if real == ours { Ok(()) } else { Err(format!("{status}, but stored are {real} / {ours}")) }
    }
}

/// A range that contains the times of all points.
const MIDST: (i64, i64) = (1_698_537_000_000, 1_698_538_000_000);

fn ask(address: SocketAddr, metric: &str, times: (i64, i64)) -> Value {
    let query = super::queries::within(metric, times.0, times.1);
    let answer = http::request(address, "POST", QUERY, "", &query.to_string());
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.body))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
