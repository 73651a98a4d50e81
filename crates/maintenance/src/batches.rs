//! Work in batches: the number of items in one call, and several calls at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;

use crate::verb_error::VerbError;

/// How many of the first items form one batch: at most `most` items, with a total size of at most `room`, but
/// at least one item.
pub(crate) fn batch_len<T>(
    items: impl Iterator<Item = T>,
    most: usize,
    room: u64,
    size: impl Fn(T) -> u64,
) -> usize {
    let mut total = 0_u64;
    let fits = |size: &u64| {
        total += size;
        total <= room
    };
    items.take(most).map(size).take_while(fits).count().max(1)
}

/// Divides items into batches of [`batch_len`].
pub(crate) fn batches<T>(items: &[T], most: usize, room: u64, size: impl Fn(&T) -> u64) -> Vec<&[T]> {
    let mut batches = Vec::new();
    let mut rest = items;
    while !rest.is_empty() {
        let (batch, others) = rest.split_at(batch_len(rest.iter(), most, room, &size));
        batches.push(batch);
        rest = others;
    }
    batches
}

/// Does work on items, several at a time. After an error, the others end after their current items.
///
/// # Errors
/// The first error of any item.
pub(crate) async fn side_by_side<'a, T, F: Future<Output = Result<(), VerbError>>>(
    items: &'a [T],
    workers: usize,
    work: impl Fn(&'a T) -> F,
) -> Result<(), VerbError> {
    let (next, work) = (AtomicUsize::new(0), &work);
    let worker = || async {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            let result = work(item).await;
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            result?;
        }
        Ok(())
    };
    join_all((0..workers).map(|_| worker())).await.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_a_limit_of_items_and_of_sizes() {
        let sizes = |items: &[u64]| -> Vec<usize> {
            batches(items, 3, 10, |size| *size).iter().map(|batch| batch.len()).collect()
        };
        assert_eq!(sizes(&[1, 1, 1, 1]), [3, 1]);
        assert_eq!(sizes(&[4, 6, 1, 20, 10, 1]), [2, 1, 1, 1, 1]);
        assert!(sizes(&[]).is_empty());
    }
}
