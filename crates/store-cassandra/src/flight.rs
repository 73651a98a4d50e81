//! Runs many requests concurrently, up to a limit.

use futures::{StreamExt, TryStreamExt};
use plumbago_store::StoreError;

/// Calls `make` for each number below `count` and runs at most `at_once` of the futures at a time. Returns
/// their results in order, or the first error.
pub(crate) async fn all<T, F>(
    count: usize,
    at_once: usize,
    make: impl FnMut(usize) -> F,
) -> Result<Vec<T>, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    futures::stream::iter(0..count).map(make).buffered(at_once.max(1)).try_collect().await
}
