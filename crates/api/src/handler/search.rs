//! Glob lookup, in the index or through a [`NameFinder`], without blocking other requests.

use std::sync::Arc;

use plumbago_index::{FindError, FindLimits, Index, Node};
use plumbago_model::has_glob;

use crate::activity::FindRange;
use crate::error::{ApiError, quoted};
use crate::finder::{FinderError, NameFinder};
use crate::state::Api;

/// Index nodes that a lookup may visit on the connection's own thread. Visiting this many takes less than a
/// millisecond. A lookup that needs more is repeated on another thread with the full limit.
const VISITED_INLINE: usize = 2000;

/// Returns the nodes that match a glob.
pub(super) async fn nodes(api: &Arc<Api>, query: &str) -> Result<Vec<Node>, ApiError> {
    match &api.finder {
        Some(finder) => elsewhere(api, &**finder, query, false).await,
        None => search(api, query, Index::find).await,
    }
}

/// Returns the nodes that match a glob. If inactive metrics are hidden, it leaves out metrics that cannot have points
/// in the range. Directories always stay, as in Graphite.
pub(super) async fn nodes_in(
    api: &Arc<Api>,
    query: &str,
    range: Option<FindRange>,
) -> Result<Vec<Node>, ApiError> {
    let mut nodes = nodes(api, query).await?;
    let (Some(activity), Some(range)) = (&api.activity, range) else { return Ok(nodes) };
    let leaves: Vec<&str> = nodes.iter().filter(|node| node.leaf).map(|node| node.path.as_str()).collect();
    let mut active = activity.are_active(&leaves, range).await?.into_iter();
    nodes.retain_mut(|node| {
        node.leaf = node.leaf && active.next().unwrap_or(true);
        node.leaf || node.branch
    });
    Ok(nodes)
}

/// Returns the metrics that match a glob.
pub(super) async fn leaves(api: &Arc<Api>, query: &str) -> Result<Vec<String>, ApiError> {
    match &api.finder {
        Some(finder) => {
            let nodes = elsewhere(api, &**finder, query, true).await?;
            Ok(nodes.into_iter().map(|node| node.path).collect())
        }
        None => search(api, query, Index::leaves).await,
    }
}

/// Looks up a glob through the finder, after waiting for one of the permits `finds`.
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

/// Looks up a narrow glob on this thread, and other globs on a thread for blocking work.
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

/// Whether a pattern is a name, or a glob over the children of one directory. Such lookups are nearly always
/// fast.
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
