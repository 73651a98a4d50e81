//! `/metrics/expand`: the paths that match globs.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};

use super::search;
use crate::error::{ApiError, beyond};
use crate::format::json::{list, push_string};
use crate::format::wrap::Wrapping;
use crate::params::Params;
use crate::state::Api;

/// Answers a request to `/metrics/expand`.
pub(crate) async fn expand(api: Arc<Api>, request: Request) -> Response {
    answer(&api, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(api: &Arc<Api>, request: Request) -> Result<Response, ApiError> {
    let params = Params::of(request, &api.limits()).await?;
    params.switch("local")?;
    let (by_query, leaves_only) = (params.switch("groupByExpr")?, params.switch("leavesOnly")?);
    let wrapping = Wrapping::of(&params)?;
    let mut queries: Vec<&str> = Vec::new();
    for query in params.all("query") {
        if !queries.contains(&query) {
            queries.push(query);
        }
    }
    if queries.len() > api.limits().targets {
        return Err(beyond("queries", "targets", api.limits().targets));
    }
    let mut groups = Vec::with_capacity(queries.len());
    let mut count = 0;
    for query in queries {
        let paths = paths(api, query, leaves_only).await?;
        count += paths.len();
        if count > api.limits().find_results {
            return Err(beyond("names", "find_results", api.limits().find_results));
        }
        groups.push((query.to_owned(), paths));
    }
    if by_query {
        return Ok(wrapping.json(list("{\"results\":{", groups.into_iter(), "}}", |out, (query, paths)| {
            push_string(out, &query);
            out.extend_from_slice(b":[");
            for (index, path) in paths.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                push_string(out, path);
            }
            out.push(b']');
        })));
    }
    let mut all: Vec<String> = groups.into_iter().flat_map(|(_, paths)| paths).collect();
    if !all.is_sorted_by(|a, b| a < b) {
        all.sort_unstable();
        all.dedup();
    }
    Ok(wrapping.json(list("{\"results\":[", all.into_iter(), "]}", |out, path| push_string(out, &path))))
}

/// Returns the paths that match a glob, sorted and without duplicates. An empty glob matches nothing.
async fn paths(api: &Arc<Api>, query: &str, leaves_only: bool) -> Result<Vec<String>, ApiError> {
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let nodes = search::nodes(api, query).await?.into_iter();
    let mut paths: Vec<String> =
        nodes.filter(|node| node.leaf || !leaves_only).map(|node| node.path).collect();
    if !paths.is_sorted_by(|a, b| a < b) {
        paths.sort_unstable();
        paths.dedup();
    }
    Ok(paths)
}
