//! The storage rules in effect.

use std::sync::Arc;

use arc_swap::ArcSwap;
use plumbago_engine::ConfigFor;
use plumbago_model::StorageRules;

/// The storage rules in effect. A reload replaces them, for all clones.
#[derive(Clone)]
pub(crate) struct Live(Arc<ArcSwap<StorageRules>>);

impl Live {
    pub(crate) fn new(rules: StorageRules) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(rules)))
    }

    /// Returns the current rules.
    pub(crate) fn load(&self) -> Arc<StorageRules> {
        self.0.load_full()
    }

    /// Replaces the rules. They apply to metrics that are created afterwards.
    pub(super) fn replace(&self, rules: StorageRules) {
        self.0.store(Arc::new(rules));
    }

    /// Returns a function that applies the rules that are current at each call.
    pub(crate) fn config_for(&self) -> ConfigFor {
        let rules = Arc::clone(&self.0);
        Arc::new(move |name| rules.load().config_for(name))
    }
}
