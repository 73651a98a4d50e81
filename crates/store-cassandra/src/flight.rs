//! Many requests at once, but not too many.

use futures::{StreamExt, TryStreamExt};
use plumbago_store::StoreError;

/// Makes a future for each of `count` numbers, when its turn comes, and runs at most `at_once` of them
/// at a time; answers in their order, or the first error.
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
