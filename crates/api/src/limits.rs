//! The limits of the API port that are in effect. A reload replaces them.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::Limits;

/// The limits in effect. Clones share the same limits.
#[derive(Debug, Clone)]
pub struct LiveLimits(Arc<ArcSwap<Limits>>);

impl LiveLimits {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(limits)))
    }

    /// Replaces the limits. They apply to requests and connections that begin afterwards. If the new number of
    /// connections is lower, open connections beyond it stay open.
    pub fn set(&self, limits: Limits) {
        self.0.store(Arc::new(limits));
    }

    pub(crate) fn load(&self) -> Arc<Limits> {
        self.0.load_full()
    }
}

impl Limits {
    /// The memory that all requests may hold together, in bytes.
    pub(crate) fn memory_of_all(&self) -> usize {
        match self.memory_total.bytes() {
            0 => usize::MAX,
            bytes => bytes,
        }
    }
}
