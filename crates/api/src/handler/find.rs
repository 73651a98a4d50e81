//! `/metrics/find`: the nodes that match a glob.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use plumbago_index::Node;

use super::{render_params, search};
use crate::activity::FindRange;
use crate::carbonapi::Version;
use crate::error::{ApiError, beyond, quoted};
use crate::format::json::{list, push_string};
use crate::format::protobuf::{self, Globbed, MultiGlobRequest};
use crate::format::wrap::{self, Wrapping};
use crate::format::{msgpack, pickle};
use crate::params::Params;
use crate::state::Api;
use crate::stream;

/// Answers a request to `/metrics/find`.
pub(crate) async fn find(api: Arc<Api>, request: Request) -> Response {
    answer(&api, request).await.unwrap_or_else(IntoResponse::into_response)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// `treejson`: entries of a tree view, one per name.
    Tree,
    /// `completer`: completions of a name that is being typed.
    Completer,
    /// `nodelist`: the components at one position of the paths.
    Nodes,
    /// `json`: paths, with the interval of each metric.
    Json,
    Pickle,
    MsgPack,
    Protobuf(Version),
}

async fn answer(api: &Arc<Api>, request: Request) -> Result<Response, ApiError> {
    let params = Params::of(request, &api.limits()).await?;
    let format = format(&params)?;
    let (leaves_only, wildcards) = (params.switch("leavesOnly")?, params.switch("wildcards")?);
    params.switch("local")?;
    let position = params.integer("position", -1)?;
    let variants = params.switch("automatic_variants")?;
    let (now, range) = times(&params, api)?;
    let wrapping = Wrapping::of(&params)?;
    if let (Format::Protobuf(version), Some(asked)) = (format, params.message::<MultiGlobRequest>()?) {
        return globs(api, version, asked.metrics, leaves_only, range).await;
    }
    let query = match params.get("query") {
        None => return Err(ApiError::Invalid("the parameter query is missing".to_owned())),
        Some("") => return Err(ApiError::Invalid("the parameter query is empty".to_owned())),
        Some(query) => query,
    };
    let mut nodes = match format {
        Format::Completer => search::nodes_in(api, &completed(query, variants), range).await?,
        _ => search::nodes_in(api, query, range).await?,
    };
    if leaves_only {
        keep_leaves(&mut nodes);
    }
    Ok(match format {
        Format::Tree => wrapping.json(tree(nodes, query, wildcards)),
        Format::Completer => wrapping.json(completer(nodes, wildcards)),
        Format::Nodes => wrapping.json(node_list(nodes, position)),
        Format::Json => wrapping.json(json_nodes(nodes, interval_end(now))),
        Format::Pickle => {
            let nodes = pickle::nodes(both(nodes), interval_end(now));
            wrap::answer("application/pickle", stream::body(nodes))
        }
        Format::MsgPack => {
            let count = kinds(&nodes);
            let nodes = msgpack::nodes(both(nodes), count, interval_end(now));
            wrap::answer("application/x-msgpack", stream::body(nodes))
        }
        Format::Protobuf(version) => {
            let globbed = Globbed { query: query.to_owned(), nodes: both(nodes).collect() };
            as_messages(version, vec![globbed])
        }
    })
}

/// Answers the queries of a protobuf message in the body.
async fn globs(
    api: &Arc<Api>,
    version: Version,
    queries: Vec<String>,
    leaves_only: bool,
    range: Option<FindRange>,
) -> Result<Response, ApiError> {
    if queries.len() > api.limits().targets {
        return Err(beyond("queries", "targets", api.limits().targets));
    }
    let mut globbed = Vec::with_capacity(queries.len());
    let mut count = 0;
    for query in queries {
        let mut nodes =
            if query.is_empty() { Vec::new() } else { search::nodes_in(api, &query, range).await? };
        if leaves_only {
            keep_leaves(&mut nodes);
        }
        count += nodes.len();
        if count > api.limits().find_results {
            return Err(beyond("names", "find_results", api.limits().find_results));
        }
        globbed.push(Globbed { query, nodes: both(nodes).collect() });
    }
    Ok(as_messages(version, globbed))
}

fn as_messages(version: Version, globbed: Vec<Globbed>) -> Response {
    wrap::answer(version.content_type(), stream::body(protobuf::globs(version, globbed)))
}

/// Removes directories. A node that is both a directory and a metric stays as a metric.
fn keep_leaves(nodes: &mut Vec<Node>) {
    nodes.retain(|node| node.leaf);
    nodes.iter_mut().for_each(|node| node.branch = false);
}

fn format(params: &Params) -> Result<Format, ApiError> {
    match params.get("format") {
        None | Some("treejson") => Ok(Format::Tree),
        Some("completer") => Ok(Format::Completer),
        Some("nodelist") => Ok(Format::Nodes),
        Some("json") => Ok(Format::Json),
        Some("pickle") => Ok(Format::Pickle),
        Some("msgpack") => Ok(Format::MsgPack),
        Some(other) => Version::named(other).map(Format::Protobuf).ok_or_else(|| {
            ApiError::Invalid(format!(
                "format={} is not available; use treejson, completer, nodelist, json, pickle, msgpack, \
                 carbonapi_v2_pb (protobuf), carbonapi_v3_pb",
                quoted(other)
            ))
        }),
    }
}

/// Returns the current time, which the parameter `now` can set, and the range of `from` and `until` if at
/// least one of them is given. -1 means none, as in Graphite.
fn times(params: &Params, api: &Api) -> Result<(i64, Option<FindRange>), ApiError> {
    let zone = render_params::zone(params, api);
    let now = render_params::now(params, api, &zone)?;
    let time = |name| {
        let text = params.get(name).filter(|text| *text != "-1");
        text.map(|text| render_params::time(name, text, now, &zone)).transpose()
    };
    let (from, until) = (time("from")?, time("until")?);
    let range = FindRange { from: from.unwrap_or(i64::MIN), until: until.unwrap_or(i64::MAX) };
    Ok((now, (from.is_some() || until.is_some()).then_some(range)))
}

/// The end of the interval in which a metric may have points. It is one minute after now because clocks
/// differ.
fn interval_end(now: i64) -> i64 {
    now + 60
}

/// The glob that completes a name being typed: it matches every name that begins with `query`. With
/// `variants`, a component that contains commas, like `a,b`, becomes a list of alternatives.
fn completed(query: &str, variants: bool) -> String {
    let mut query = query.replace("..", "*.");
    if !query.ends_with('*') {
        query.push('*');
    }
    if !variants {
        return query;
    }
    let part = |part: &str| {
        if part.contains(',') && !part.contains('{') { format!("{{{part}}}") } else { part.to_owned() }
    };
    query.split('.').map(part).collect::<Vec<_>>().join(".")
}

fn last_component(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Writes the entries of a tree view, one per name, directories first. The `id` of an entry is the query with
/// its last component replaced by the name.
fn tree(mut nodes: Vec<Node>, query: &str, wildcards: bool) -> impl stream::Pieces {
    // An `id` must not end with a dot.
    let query = query.trim_end_matches('.');
    let base = query.rfind('.').map_or("", |dot| &query[..=dot]).to_owned();
    let wildcard = (wildcards && kinds(&nodes) > 1).then(|| ("*".to_owned(), nodes.iter().any(|n| n.branch)));
    for node in &mut nodes {
        if let Some(dot) = node.path.rfind('.') {
            node.path.drain(..=dot);
        }
    }
    if !nodes.is_sorted_by(|a, b| a.path < b.path) {
        nodes = merged(nodes);
    }
    let (branches, leaves): (Vec<Node>, Vec<Node>) = nodes.into_iter().partition(|node| node.branch);
    let entries = branches.into_iter().chain(leaves).map(|node| (node.path, node.branch));
    list("[", wildcard.into_iter().chain(entries), "]", move |out, (name, is_branch)| {
        out.extend_from_slice(b"{\"text\":");
        push_unquoted(out, &name);
        out.extend_from_slice(b",\"id\":");
        if is_plain(&base) && is_plain(&name) {
            out.push(b'"');
            out.extend_from_slice(base.as_bytes());
            out.extend_from_slice(name.as_bytes());
            out.push(b'"');
        } else {
            push_string(out, &format!("{base}{name}"));
        }
        out.extend_from_slice(if is_branch {
            b",\"allowChildren\":1,\"expandable\":1,\"leaf\":0}"
        } else {
            b",\"allowChildren\":0,\"expandable\":0,\"leaf\":1}"
        });
    })
}

/// Merges nodes that have the same name under different parents. The result is sorted by name.
fn merged(nodes: Vec<Node>) -> Vec<Node> {
    let mut by_name: HashMap<String, (bool, bool)> = HashMap::new();
    for node in nodes {
        match by_name.get_mut(&node.path) {
            Some((leaf, branch)) => (*leaf, *branch) = (*leaf | node.leaf, *branch | node.branch),
            None => drop(by_name.insert(node.path, (node.leaf, node.branch))),
        }
    }
    let node = |(path, (leaf, branch))| Node { path, leaf, branch };
    let mut merged: Vec<Node> = by_name.into_iter().map(node).collect();
    merged.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    merged
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\')
}

/// Appends a name as a JSON string, with `%` escapes and `+` decoded, because the tree shows decoded names.
fn push_unquoted(out: &mut Vec<u8>, name: &str) {
    if name.contains(['%', '+']) {
        let spaced = name.replace('+', " ");
        push_string(out, &percent_decode_str(&spaced).decode_utf8_lossy());
    } else {
        push_string(out, name);
    }
}

/// Returns the path of each node and whether it is a metric. A node that is both a directory and a metric
/// appears twice, first as the directory.
fn both(nodes: Vec<Node>) -> impl Iterator<Item = (String, bool)> + Send + Unpin {
    nodes.into_iter().flat_map(|node| {
        let branch = node.branch.then(|| (node.path.clone(), false));
        branch.into_iter().chain(node.leaf.then_some((node.path, true)))
    })
}

/// The number of nodes. A node that is both a directory and a metric counts twice.
fn kinds(nodes: &[Node]) -> usize {
    nodes.iter().map(|node| usize::from(node.leaf) + usize::from(node.branch)).sum()
}

fn completer(mut nodes: Vec<Node>, wildcards: bool) -> impl stream::Pieces {
    if !nodes.is_sorted_by_key(|node| last_component(&node.path)) {
        nodes.sort_by(|a, b| last_component(&a.path).cmp(last_component(&b.path)));
    }
    let wildcard = (wildcards && kinds(&nodes) > 1).then_some(None);
    let entries = both(nodes).map(Some).chain(wildcard);
    list("{\"metrics\":[", entries, "]}", |out, entry| {
        let Some((path, is_leaf)) = entry else {
            out.extend_from_slice(b"{\"name\":\"*\"}");
            return;
        };
        out.extend_from_slice(b"{\"path\":");
        push_string(out, &path);
        if !is_leaf {
            out.pop();
            out.extend_from_slice(b".\"");
        }
        out.extend_from_slice(b",\"name\":");
        push_string(out, last_component(&path));
        out.extend_from_slice(if is_leaf { b",\"is_leaf\":\"1\"}" } else { b",\"is_leaf\":\"0\"}" });
    })
}

/// Writes the distinct components at a position of the paths, sorted. A negative position counts from the
/// end.
fn node_list(nodes: Vec<Node>, position: i64) -> impl stream::Pieces {
    let component = |node: Node| {
        let steps = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
        let found =
            if position < 0 { node.path.rsplit('.').nth(steps - 1) } else { node.path.split('.').nth(steps) };
        found.map(str::to_owned)
    };
    let mut names: Vec<String> = nodes.into_iter().filter_map(component).collect();
    names.sort_unstable();
    names.dedup();
    list("{\"nodes\":[", names.into_iter(), "]}", |out, name| push_string(out, &name))
}

fn json_nodes(nodes: Vec<Node>, until: i64) -> impl stream::Pieces {
    let interval = format!(",\"is_leaf\":true,\"intervals\":[{{\"start\":0,\"end\":{until}}}]}}");
    list("[", both(nodes), "]", move |out, (path, is_leaf)| {
        out.extend_from_slice(b"{\"path\":");
        push_string(out, &path);
        out.extend_from_slice(if is_leaf { interval.as_bytes() } else { b",\"is_leaf\":false}" });
    })
}
