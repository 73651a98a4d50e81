//! Globs looked up in the index without holding up other requests, or by who finds names instead.

use std::sync::Arc;

use plumbago_index::{FindError, FindLimits, Index, Node};
use plumbago_model::has_glob;

use crate::error::{ApiError, quoted};
use crate::finder::{FinderError, NameFinder};
use crate::state::Api;

/// Places in the index that are looked at on the connection's own thread: less than a millisecond.
/// A narrow glob that needs more is asked again with the whole limit.
const VISITED_INLINE: usize = 2000;

/// The nodes at a glob's depth.
pub(super) async fn nodes(api: &Arc<Api>, query: &str) -> Result<Vec<Node>, ApiError> {
    match &api.finder {
        Some(finder) => elsewhere(api, &**finder, query, false).await,
        None => search(api, query, Index::find).await,
    }
}

/// The metrics that a glob means.
pub(super) async fn leaves(api: &Arc<Api>, query: &str) -> Result<Vec<String>, ApiError> {
    match &api.finder {
        Some(finder) => {
            let nodes = elsewhere(api, &**finder, query, true).await?;
            Ok(nodes.into_iter().map(|node| node.path).collect())
        }
        None => search(api, query, Index::leaves).await,
    }
}

async fn elsewhere(
    api: &Api,
    finder: &dyn NameFinder,
    query: &str,
    leaves_only: bool,
) -> Result<Vec<Node>, ApiError> {
    let _turn = api.finds.acquire().await.map_err(|_| stopped())?;
    finder.find(query, leaves_only, &api.find_limits()).await.map_err(|error| match error {
        FinderError::TooLarge(_) => refused(query, &error),
        FinderError::Unavailable(why) => ApiError::Unavailable(why),
    })
}

type Search<T> = fn(&Index, &str, &FindLimits) -> Result<Vec<T>, FindError>;

/// Looks up what is narrow here, and everything else on a thread for work that blocks.
async fn search<T: Send + 'static>(
    api: &Arc<Api>,
    query: &str,
    search: Search<T>,
) -> Result<Vec<T>, ApiError> {
    let whole = api.find_limits();
    let small = FindLimits { visited_max: VISITED_INLINE.min(whole.visited_max), ..whole };
    if is_narrow(query)
        && let Ok(found) = search(&api.index, query, &small)
    {
        return Ok(found);
    }
    let turn = Arc::clone(&api.searches).acquire_owned().await.map_err(|_| stopped())?;
    let (api, text) = (Arc::clone(api), query.to_owned());
    let found = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        search(&api.index, &text, &whole)
    })
    .await;
    match found {
        Ok(found) => found.map_err(|error| refused(query, &error)),
        Err(_) => Err(stopped()),
    }
}

/// A name, or a glob over the children of one directory: nearly always quick.
fn is_narrow(query: &str) -> bool {
    let (parents, last) = query.rsplit_once('.').unwrap_or(("", query));
    !has_glob(parents) && last != "**"
}

fn stopped() -> ApiError {
    ApiError::Unavailable("the search in the index was stopped".to_owned())
}

fn refused(query: &str, error: &dyn std::fmt::Display) -> ApiError {
    ApiError::TooLarge(format!("query {}: {error}", quoted(query)))
}
