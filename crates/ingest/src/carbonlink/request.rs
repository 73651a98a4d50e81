//! Reads requests: pickled dictionaries.

use std::collections::HashSet;
use std::sync::Arc;

use super::refused::Refused;
use crate::protocol::pickle::{self, Kind, Node, Tree};

/// Characters of an unknown request type that its reply repeats.
const TYPE_SHOWN: usize = 1000;

/// A request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// `cache-query`: the points of a metric.
    Query(Arc<str>),
    /// `cache-query-bulk`: the points of these metrics, without duplicates.
    Bulk(Vec<Arc<str>>),
    /// `get-metadata`: a setting of a metric.
    Get { metric: String, key: String },
    /// `set-metadata`: a new value for a setting.
    Set { metric: String, key: String, value: String },
    /// A request of this type, which is unknown.
    Unknown(String),
    /// A bulk request with more than the permitted number of metrics.
    TooMany,
}

/// Why a frame is not a request, with a sample for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NoRequest {
    pub(super) reason: Refused,
    pub(super) sample: String,
}

/// Reads a request. `metrics_max` limits the number of metrics of a bulk request.
///
/// # Errors
/// [`NoRequest`] if the frame is not a pickle of plain data, or lacks what its type needs.
pub(super) fn read(frame: &[u8], metrics_max: usize) -> Result<Request, NoRequest> {
    let tree = pickle::run(frame)
        .map_err(|broken| NoRequest { reason: Refused::Frame, sample: broken.to_string() })?;
    let fields = Fields { tree: &tree };
    let kind = fields.text("type")?;
    match kind.as_str() {
        "cache-query" => Ok(Request::Query(fields.text("metric")?.into())),
        "cache-query-bulk" => fields.metrics(metrics_max),
        "get-metadata" => Ok(Request::Get { metric: fields.text("metric")?, key: fields.text("key")? }),
        "set-metadata" => Ok(Request::Set {
            metric: fields.text("metric")?,
            key: fields.text("key")?,
            value: fields.text("value")?,
        }),
        other => Ok(Request::Unknown(other.chars().take(TYPE_SHOWN).collect())),
    }
}

/// The entries of the dictionary.
struct Fields<'t> {
    tree: &'t Tree<'t>,
}

impl Fields<'_> {
    /// The value of a key. If a key was set several times, its last value counts, as in Python.
    fn get(&self, key: &str) -> Result<Node, NoRequest> {
        let Kind::Dict(mut entries) = self.tree.kind(self.tree.root()) else {
            return Err(lacking("the request is not a dictionary".to_owned()));
        };
        let mut found = None;
        while let (Some(name), Some(value)) = (entries.next(), entries.next()) {
            if self.tree.is_text(name, key.as_bytes()) {
                found = Some(value);
            }
        }
        found.ok_or_else(|| lacking(format!("the request has no {key:?}")))
    }

    fn text(&self, key: &str) -> Result<String, NoRequest> {
        let text = self.tree.text(self.get(key)?);
        let text = text.and_then(|text| String::from_utf8(text.into_owned()).ok());
        text.ok_or_else(|| lacking(format!("{key:?} of the request is not a string")))
    }

    /// The metrics of a bulk request. A pickle may refer to the same text very often, so each text is read
    /// only once.
    fn metrics(&self, metrics_max: usize) -> Result<Request, NoRequest> {
        let Kind::Sequence(nodes) = self.tree.kind(self.get("metrics")?) else {
            return Err(lacking("\"metrics\" of the request is not a list".to_owned()));
        };
        let (mut places, mut names) = (HashSet::new(), Vec::new());
        let mut seen: HashSet<Arc<str>> = HashSet::new();
        for node in nodes {
            if node.is_atom() && !places.insert(node.place()) {
                continue;
            }
            let text = self.tree.text(node).and_then(|text| String::from_utf8(text.into_owned()).ok());
            let Some(text) = text else {
                return Err(lacking("one of the \"metrics\" is not a string".to_owned()));
            };
            let name: Arc<str> = text.into();
            if seen.insert(Arc::clone(&name)) {
                names.push(name);
            }
            if names.len() > metrics_max {
                return Ok(Request::TooMany);
            }
        }
        Ok(Request::Bulk(names))
    }
}

fn lacking(sample: String) -> NoRequest {
    NoRequest { reason: Refused::Request, sample }
}
