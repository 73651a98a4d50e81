//! carbonapi's protobuf messages. Responses are encoded without a library because series are streamed; requests are
//! decoded by `prost`.

use plumbago_render::{Points, TimeRange, TimeSeries};
use prost::Message;

use super::SeriesFormat;
use crate::carbonapi::Version;
use crate::stream::Pieces;

/// `MultiFetchRequest` of protocol 3.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MultiFetchRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) metrics: Vec<FetchRequest>,
}

/// `FetchRequest` of protocol 3. Its filter functions are ignored. `/_internal/capabilities` does not offer
/// them, so the client applies them itself.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FetchRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(int64, tag = "2")]
    pub(crate) start_time: i64,
    #[prost(int64, tag = "3")]
    pub(crate) stop_time: i64,
    #[prost(string, tag = "5")]
    pub(crate) path_expression: String,
}

/// `MultiGlobRequest` of protocol 3.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MultiGlobRequest {
    #[prost(string, repeated, tag = "1")]
    pub(crate) metrics: Vec<String>,
}

/// `InfoResponse` of protocol 2 and `MetricsInfoResponse` of protocol 3, which are the same on the wire.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct InfoResponse {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) aggregation_method: String,
    #[prost(int64, tag = "3")]
    pub(crate) max_retention: i64,
    #[prost(float, tag = "4")]
    pub(crate) x_files_factor: f32,
    #[prost(message, repeated, tag = "5")]
    pub(crate) retentions: Vec<Retention>,
}

/// `Retention` of both protocols.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Retention {
    #[prost(int64, tag = "1")]
    pub(crate) seconds_per_point: i64,
    #[prost(int64, tag = "2")]
    pub(crate) number_of_points: i64,
}

/// `MultiMetricsInfoResponse` of protocol 3.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct MultiInfoResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) metrics: Vec<InfoResponse>,
}

/// `CapabilityResponse` of protocol 3.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CapabilityResponse {
    #[prost(string, repeated, tag = "1")]
    pub(crate) supported_protocols: Vec<String>,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(bool, tag = "3")]
    pub(crate) high_precision_timestamps: bool,
    #[prost(bool, tag = "4")]
    pub(crate) support_filtering_functions: bool,
    #[prost(bool, tag = "5")]
    pub(crate) like_splitted_requests: bool,
    #[prost(bool, tag = "6")]
    pub(crate) support_streaming: bool,
}

/// Wire type of a variable-length integer.
const VARINT: u32 = 0;
/// The number of bytes of a double.
const FIXED64: usize = 8;
/// Wire type of a field that begins with its length.
const LENGTH: u32 = 2;
/// Wire type of a float.
const FIXED32: u32 = 5;

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the number and wire type of a field.
fn key(out: &mut Vec<u8>, field: u32, kind: u32) {
    varint(out, u64::from(field << 3 | kind));
}

/// Appends the header of a field whose content takes `length` bytes.
fn sized(out: &mut Vec<u8>, field: u32, length: usize) {
    key(out, field, LENGTH);
    varint(out, length as u64);
}

fn text(out: &mut Vec<u8>, field: u32, text: &str) {
    sized(out, field, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// Appends an integer field. A negative number takes ten bytes, as the format requires.
fn integer(out: &mut Vec<u8>, field: u32, value: i64) {
    key(out, field, VARINT);
    varint(out, value as u64);
}

fn boolean(out: &mut Vec<u8>, field: u32, value: bool) {
    integer(out, field, i64::from(value));
}

/// Writes series as a `MultiFetchResponse`.
#[derive(Debug)]
pub(crate) struct Protobuf {
    pub(crate) version: Version,
    /// The requested time range, which responses of protocol 3 repeat.
    pub(crate) range: TimeRange,
}

impl Protobuf {
    /// Encodes the fields of a series except its values.
    fn fields(&self, series: &TimeSeries, values: &[f64]) -> Vec<u8> {
        let mut fields = Vec::with_capacity(256);
        text(&mut fields, 1, &series.name);
        match self.version {
            Version::V2 => {
                for (field, number) in [(2, series.start), (3, series.end), (4, series.step)] {
                    let number = i32::try_from(number).unwrap_or(i32::MAX);
                    integer(&mut fields, field, i64::from(number));
                }
                sized(&mut fields, 6, values.len());
                fields.extend(values.iter().map(|value| u8::from(value.is_nan())));
            }
            Version::V3 => {
                text(&mut fields, 2, &series.path_expression);
                text(&mut fields, 3, series.consolidation.name());
                for (field, number) in [
                    (4, series.start),
                    (5, series.end),
                    (6, series.step),
                    (11, self.range.from),
                    (12, self.range.until),
                ] {
                    integer(&mut fields, field, number);
                }
                key(&mut fields, 7, FIXED32);
                fields.extend_from_slice(&(series.x_files_factor as f32).to_le_bytes());
            }
        }
        fields
    }

    /// Number of the field that contains the values.
    fn values_field(&self) -> u32 {
        match self.version {
            Version::V2 => 5,
            Version::V3 => 9,
        }
    }
}

impl SeriesFormat for Protobuf {
    const THINS: bool = false;

    fn open(&mut self, _: &mut Vec<u8>) {}

    fn head(&mut self, out: &mut Vec<u8>, series: &TimeSeries, points: &Points<'_>) -> bool {
        let mut message = self.fields(series, &points.values);
        let values = points.values.len() * FIXED64;
        sized(&mut message, self.values_field(), values);
        sized(out, 1, message.len() + values);
        out.extend_from_slice(&message);
        true
    }

    fn points(&mut self, out: &mut Vec<u8>, _: &TimeSeries, _: i64, _: i64, values: &[f64]) {
        // Protocol 2 writes unknown values as 0 and marks them in a second list.
        let shown = |value: f64| if self.version == Version::V2 && value.is_nan() { 0.0 } else { value };
        for value in values {
            out.extend_from_slice(&shown(*value).to_le_bytes());
        }
    }

    fn tail(&mut self, _: &mut Vec<u8>, _: &TimeSeries) {}

    fn close(&mut self, _: &mut Vec<u8>) {}
}

/// The result of one query, encoded as a `GlobResponse`.
#[derive(Debug)]
pub(crate) struct Globbed {
    pub(crate) query: String,
    /// The paths, each with a flag that says whether it is a metric.
    pub(crate) nodes: Vec<(String, bool)>,
}

/// Encodes a `GlobResponse` with the first query only (protocol 2), or a `MultiGlobResponse` with all queries
/// (protocol 3).
pub(crate) fn globs(version: Version, globbed: Vec<Globbed>) -> impl Pieces {
    let taken = if version == Version::V2 { 1 } else { usize::MAX };
    Globs { version, queries: globbed.into_iter().take(taken), nodes: Vec::new().into_iter() }
}

struct Globs<I> {
    version: Version,
    queries: I,
    /// Nodes of the current query that are still to be written.
    nodes: std::vec::IntoIter<(String, bool)>,
}

impl<I: Iterator<Item = Globbed> + Send + Unpin + 'static> Pieces for Globs<I> {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some((path, is_leaf)) = self.nodes.next() {
            out.extend_from_slice(&matched(&path, is_leaf));
            return true;
        }
        let Some(query) = self.queries.next() else { return false };
        let mut name = Vec::new();
        text(&mut name, 1, &query.query);
        if self.version == Version::V3 {
            let nodes: usize = query.nodes.iter().map(|(path, is_leaf)| matched(path, *is_leaf).len()).sum();
            sized(out, 1, name.len() + nodes);
        }
        out.extend_from_slice(&name);
        self.nodes = query.nodes.into_iter();
        true
    }
}

/// Encodes a `GlobMatch` as a field of its response.
fn matched(path: &str, is_leaf: bool) -> Vec<u8> {
    let mut message = Vec::with_capacity(path.len() + 8);
    text(&mut message, 1, path);
    boolean(&mut message, 2, is_leaf);
    let mut field = Vec::with_capacity(message.len() + 4);
    sized(&mut field, 2, message.len());
    field.extend_from_slice(&message);
    field
}

#[cfg(test)]
mod tests;
