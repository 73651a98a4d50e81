//! Hashes of whole directories. A search that has been through a directory knows by its shape that it need not go
//! through an equal one.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use crate::children::Child;

/// Makes the parts that shapes are sums of. Each tree has its own random seeds, so that no list of names can be made
/// in which different directories have the same shape.
#[derive(Debug)]
pub(crate) struct Mixer([u64; 3]);

impl Mixer {
    pub(crate) fn new() -> Self {
        let random = RandomState::default();
        Self([0_u64, 1, 2].map(|number| random.hash_one(number) | 1))
    }

    /// The part of a child in the shape of its directory. `below` is the shape of the child's own directory.
    #[inline]
    pub(crate) fn part(&self, child: Child, below: u64) -> u64 {
        let [a, b, c] = self.0;
        let kind = u64::from(child.is_leaf()) << 1 | u64::from(child.directory().is_some());
        let own = u64::from(child.component) << 2 | kind;
        // Twice, because a single product is nearly linear, and sums of parts would then often be equal.
        let once = folded(own ^ a, b) ^ below;
        folded(once ^ c, a) ^ once
    }
}

/// The product of two numbers, both halves.
#[inline]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
