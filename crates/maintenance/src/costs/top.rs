//! Keeps the largest of many items, without storing the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Keeps the largest of the added items.
#[derive(Debug)]
pub(super) struct Top<T: Ord> {
    most: usize,
    /// A heap with the smallest of the kept items on top.
    heap: BinaryHeap<Reverse<T>>,
}

impl<T: Ord> Top<T> {
    /// Keeps at most `most` items.
    pub(super) fn new(most: usize) -> Self {
        Self { most, heap: BinaryHeap::new() }
    }

    pub(super) fn add(&mut self, one: T) {
        if self.heap.len() < self.most {
            self.heap.push(Reverse(one));
        } else if let Some(mut least) = self.heap.peek_mut()
            && least.0 < one
        {
            *least = Reverse(one);
        }
    }

    /// The largest items, in descending order.
    pub(super) fn into_sorted(self) -> Vec<T> {
        let mut all: Vec<T> = self.heap.into_iter().map(|Reverse(one)| one).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_greatest_are_kept() {
        let greatest = |most, of: &[u32]| {
            let mut top = Top::new(most);
            of.iter().for_each(|one| top.add(*one));
            top.into_sorted()
        };
        assert_eq!(greatest(3, &[5, 1, 9, 9, 2, 7]), [9, 9, 7]);
        assert_eq!(greatest(9, &[1, 3, 2]), [3, 2, 1]);
        assert!(greatest(0, &[1]).is_empty());
    }
}
