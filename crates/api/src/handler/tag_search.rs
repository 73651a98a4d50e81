//! Tag lookup in the index, without blocking other requests.

use std::sync::Arc;

use plumbago_index::{FindLimits, Index, TagError, TagExpression};
use plumbago_render::{ExprKind, Literal, parse};

use crate::error::ApiError;
use crate::state::Api;

/// Limits of a search on the connection's own thread, which takes less than a millisecond. A search that
/// needs more is repeated on another thread with the full limits.
const SMALL: FindLimits = FindLimits { results_max: 1000, visited_max: 2000 };

/// Maximum number of tag expressions of a search. Each may take some megabytes for its regular expression.
const EXPRESSIONS_MAX: usize = 64;

/// Returns the sorted names that match the `seriesByTag(…)` call in a target.
pub(super) async fn series_by_tag(api: &Arc<Api>, text: &str) -> Result<Vec<String>, ApiError> {
    api.check_tags()?;
    let wrong = || ApiError::Invalid("expected seriesByTag with expressions in quotes".to_owned());
    let target = parse(text).map_err(|_| wrong())?;
    let ExprKind::Call { args, .. } = &target.expr.kind else { return Err(wrong()) };
    let texts = args.iter().filter_map(|argument| match &argument.kind {
        ExprKind::Literal(Literal::String(text)) => Some(text.as_str()),
        _ => None,
    });
    // Refuse too many series before allocating their names.
    found(api, &texts.collect::<Vec<_>>(), api.limits().series).await
}

/// Returns the sorted names of the series that match all expressions.
pub(super) async fn series(api: &Arc<Api>, texts: &[&str]) -> Result<Vec<String>, ApiError> {
    found(api, texts, usize::MAX).await
}

async fn found(api: &Arc<Api>, texts: &[&str], results_max: usize) -> Result<Vec<String>, ApiError> {
    let expressions = expressions(texts)?;
    search(api, move |index, limits| {
        let limits = FindLimits { results_max: limits.results_max.min(results_max), ..*limits };
        index.find_series(&expressions, &limits)
    })
    .await
}

/// Parses tag expressions.
pub(super) fn expressions(texts: &[&str]) -> Result<Vec<TagExpression>, ApiError> {
    if texts.len() > EXPRESSIONS_MAX {
        return Err(ApiError::TooLarge(format!("more than {EXPRESSIONS_MAX} tag expressions")));
    }
    Ok(texts.iter().map(|text| TagExpression::parse(text)).collect::<Result<_, _>>()?)
}

/// Runs small searches on this thread, and others on a thread for blocking work.
pub(super) async fn search<T, S>(api: &Arc<Api>, search: S) -> Result<T, ApiError>
where
    T: Send + 'static,
    S: Fn(&Index, &FindLimits) -> Result<T, TagError> + Send + 'static,
{
    let whole = api.find_limits();
    let small = FindLimits {
        results_max: SMALL.results_max.min(whole.results_max),
        visited_max: SMALL.visited_max.min(whole.visited_max),
    };
    match search(&api.index, &small) {
        Err(TagError::TooManyResults(_) | TagError::TooManyVisits(_)) => aside(api, search).await,
        found => Ok(found?),
    }
}

/// Runs a search on a thread for blocking work.
pub(super) async fn aside<T, S>(api: &Arc<Api>, search: S) -> Result<T, ApiError>
where
    T: Send + 'static,
    S: FnOnce(&Index, &FindLimits) -> Result<T, TagError> + Send + 'static,
{
    let stopped = || ApiError::Unavailable("the search in the index was stopped".to_owned());
    let turn = Arc::clone(&api.searches).acquire_owned().await.map_err(|_| stopped())?;
    let api = Arc::clone(api);
    let found = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        search(&api.index, &api.find_limits())
    });
    Ok(found.await.map_err(|_| stopped())??)
}

impl From<TagError> for ApiError {
    fn from(error: TagError) -> Self {
        match error {
            TagError::TooManyResults(_) | TagError::TooManyVisits(_) => Self::TooLarge(error.to_string()),
            _ => Self::Invalid(error.to_string()),
        }
    }
}
