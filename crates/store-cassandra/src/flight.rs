//! Many requests at once, but not too many.

use futures::{StreamExt, TryStreamExt};
use plumbago_store::StoreError;

/// Runs the futures, at most `at_once` at a time; answers in their order, or the first error.
pub(crate) async fn all<T>(
    futures: Vec<impl Future<Output = Result<T, StoreError>>>,
    at_once: usize,
) -> Result<Vec<T>, StoreError> {
    futures::stream::iter(futures).buffered(at_once.max(1)).try_collect().await
}
