//! Tags looked up in the index without holding up other requests.

use std::sync::Arc;

use plumbago_index::{FindLimits, Index, TagError, TagExpression};
use plumbago_render::{ExprKind, Literal, parse};

use crate::error::ApiError;
use crate::state::Api;

/// What a search may cost on the connection's own thread: less than a millisecond. One that needs more
/// is asked again with the whole limits.
const SMALL: FindLimits = FindLimits { results_max: 1000, visited_max: 2000 };

/// Expressions of a search, of which each may hold a regular expression of some megabytes.
const EXPRESSIONS_MAX: usize = 64;

/// The sorted names of a `seriesByTag(…)` as it stands in a target.
pub(super) async fn series_by_tag(api: &Arc<Api>, text: &str) -> Result<Vec<String>, ApiError> {
    api.check_tags()?;
    let wrong = || ApiError::Invalid("expected seriesByTag with expressions in quotes".to_owned());
    let target = parse(text).map_err(|_| wrong())?;
    let ExprKind::Call { args, .. } = &target.expr.kind else { return Err(wrong()) };
    let texts = args.iter().filter_map(|argument| match &argument.kind {
        ExprKind::Literal(Literal::String(text)) => Some(text.as_str()),
        _ => None,
    });
    // More than a request may have are refused before their names are made.
    found(api, &texts.collect::<Vec<_>>(), api.limits.series).await
}

/// The sorted names of the series that match all expressions.
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

/// Reads expressions.
pub(super) fn expressions(texts: &[&str]) -> Result<Vec<TagExpression>, ApiError> {
    if texts.len() > EXPRESSIONS_MAX {
        return Err(ApiError::TooLarge(format!("more than {EXPRESSIONS_MAX} tag expressions")));
    }
    Ok(texts.iter().map(|text| TagExpression::parse(text)).collect::<Result<_, _>>()?)
}

/// Searches here what is small, and everything else on a thread for work that blocks.
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

/// Searches on a thread for work that blocks.
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
