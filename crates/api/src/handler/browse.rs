//! `/plumbago/browse` and `/plumbago/search`: names for the web page. The first lists the children of a
//! directory, the other searches by words.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use plumbago_index::{Index, Listed, Listing, Matches};
use plumbago_model::glob::GlobError;

use super::search;
use crate::blocking::on_thread;
use crate::error::{ApiError, quoted};
use crate::format::json::push_string;
use crate::format::wrap::Wrapping;
use crate::params::Params;
use crate::state::Api;

/// Maximum number of children in a response, and of results of a search.
const PAGE_MAX: usize = 1000;
/// Longest search text or filter, in bytes.
const TEXT_MAX: usize = 2048;

/// Answers a request to a path below `/plumbago`.
pub(crate) async fn plumbago(api: Arc<Api>, request: Request) -> Response {
    let call = super::below(&request, "/plumbago");
    let answer = match call.as_str() {
        "browse" => browse(&api, request).await,
        "search" => words(&api, request).await,
        "boards" => super::boards::boards(&api).await,
        "explain" => Ok(super::explain::explain(&api, request).await),
        _ => Err(ApiError::Missing(format!(
            "there is no call {}; the calls are boards, browse, costs, explain, rules, search and status",
            quoted(&call)
        ))),
    };
    answer.unwrap_or_else(IntoResponse::into_response)
}

async fn browse(api: &Arc<Api>, request: Request) -> Result<Response, ApiError> {
    let params = Params::of(request, &api.limits()).await?;
    let path = params.get("path").unwrap_or_default().trim_matches('.').to_owned();
    let filter = text(&params, "filter")?;
    let (offset, limit) = (amount(&params, "offset", 0)?, amount(&params, "limit", 200)?);
    if limit > PAGE_MAX {
        return Err(ApiError::Invalid(format!("limit: a page has at most {PAGE_MAX} children")));
    }
    let listing = match &api.finder {
        Some(_) => found(api, &path, &filter, offset, limit).await?,
        None => {
            let (path, visited) = (path.clone(), api.limits().find_visited);
            search_aside(api, move |index| index.list_children(&path, &filter, (offset, limit), visited))
                .await?
        }
    };
    let (total, matching) = (listing.total, listing.matching);
    let mut out =
        format!("{{\"total\":{total},\"matching\":{matching},\"offset\":{offset},\"path\":").into_bytes();
    push_string(&mut out, &path);
    out.extend_from_slice(b",\"children\":[");
    for (place, child) in listing.children.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        push_child(&mut out, child);
    }
    out.extend_from_slice(b"]}");
    Ok(Wrapping::of(&params)?.whole(&String::from_utf8_lossy(&out)))
}

fn push_child(out: &mut Vec<u8>, child: &Listed) {
    out.extend_from_slice(b"{\"name\":");
    push_string(out, &child.name);
    let below = child.below.map_or("null".to_owned(), |count| count.to_string());
    let rest = format!(",\"leaf\":{},\"branch\":{},\"metrics\":{below}}}", child.leaf, child.branch);
    out.extend_from_slice(rest.as_bytes());
}

async fn words(api: &Arc<Api>, request: Request) -> Result<Response, ApiError> {
    let params = Params::of(request, &api.limits()).await?;
    if api.finder.is_some() {
        return Err(ApiError::Forbidden(
            "searches by words need index.mode = \"memory\"; the tree of names works without it",
        ));
    }
    let query = text(&params, "query")?;
    let limit = amount(&params, "limit", 100)?;
    let most = PAGE_MAX.min(api.limits().find_results);
    if limit == 0 || limit > most {
        return Err(ApiError::Invalid(format!("limit: between 1 and {most} results are returned")));
    }
    let visited = api.limits().find_visited;
    let Matches { best, total, is_cut } =
        search_aside(api, move |index| index.search_words(&query, limit, visited)).await?;
    let mut out = format!("{{\"total\":{total},\"complete\":{},\"results\":[", !is_cut).into_bytes();
    for (place, node) in best.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"path\":");
        push_string(&mut out, &node.path);
        let rest = format!(",\"leaf\":{},\"branch\":{}}}", node.leaf, node.branch);
        out.extend_from_slice(rest.as_bytes());
    }
    out.extend_from_slice(b"]}");
    Ok(Wrapping::of(&params)?.whole(&String::from_utf8_lossy(&out)))
}

/// Searches the index on another thread, after waiting for one of the permits.
async fn search_aside<T: Send + 'static>(
    api: &Arc<Api>,
    search: impl FnOnce(&Index) -> Result<T, GlobError> + Send + 'static,
) -> Result<T, ApiError> {
    let index = Arc::clone(&api.index);
    let found = on_thread(&api.searches, move || search(&index)).await?;
    found.map_err(|error| ApiError::TooLarge(error.to_string()))
}

/// The children of a directory, for a process that does not hold the names in memory. The metrics below the
/// children are not counted then.
async fn found(
    api: &Arc<Api>,
    path: &str,
    filter: &str,
    offset: usize,
    limit: usize,
) -> Result<Listing, ApiError> {
    let pattern = if path.is_empty() { "*".to_owned() } else { format!("{path}.*") };
    let nodes = search::nodes(api, &pattern).await?;
    let total = nodes.len();
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    let children = nodes.into_iter().map(|node| Listed {
        name: node.path.rsplit('.').next().unwrap_or_default().to_owned(),
        leaf: node.leaf,
        branch: node.branch,
        below: if node.branch { None } else { Some(0) },
    });
    let fits = |child: &Listed| {
        let name = child.name.to_lowercase();
        words.iter().all(|word| name.contains(word))
    };
    let matching: Vec<Listed> = children.filter(fits).collect();
    let count = matching.len();
    Ok(Listing { children: matching.into_iter().skip(offset).take(limit).collect(), matching: count, total })
}

fn text(params: &Params, name: &str) -> Result<String, ApiError> {
    let text = params.get(name).unwrap_or_default();
    if text.len() > TEXT_MAX {
        return Err(ApiError::TooLarge(format!("{name}: longer than {TEXT_MAX} bytes")));
    }
    Ok(text.to_owned())
}

pub(super) fn amount(params: &Params, name: &str, default: usize) -> Result<usize, ApiError> {
    let number = params.integer(name, default as i64)?;
    usize::try_from(number).map_err(|_| ApiError::Invalid(format!("{name}={number}: must not be negative")))
}
