//! The storage rules in effect.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use plumbago_engine::ConfigFor;
use plumbago_model::StorageRules;

use crate::config::Config;

/// The storage rules in effect. A reload replaces them, for all clones.
#[derive(Clone)]
pub(crate) struct Live {
    rules: Arc<ArcSwap<StorageRules>>,
    files: Arc<ArcSwap<RuleFiles>>,
}

/// The files of the rules; an empty path for the built-in ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RuleFiles {
    pub(super) schemas: PathBuf,
    pub(super) aggregation: PathBuf,
}

impl RuleFiles {
    fn of(config: &Config) -> Self {
        Self { schemas: config.storage_schemas.clone(), aggregation: config.storage_aggregation.clone() }
    }
}

impl Live {
    /// The rules of a configuration.
    pub(crate) fn new(rules: StorageRules, config: &Config) -> Self {
        let files = Arc::new(ArcSwap::from_pointee(RuleFiles::of(config)));
        Self { rules: Arc::new(ArcSwap::from_pointee(rules)), files }
    }

    /// Rules for a trial, which are not put into effect.
    pub(super) fn apart(rules: Arc<StorageRules>) -> Self {
        Self { rules: Arc::new(ArcSwap::new(rules)), files: Arc::default() }
    }

    /// Returns the current rules.
    pub(crate) fn load(&self) -> Arc<StorageRules> {
        self.rules.load_full()
    }

    /// Returns the files of the current rules.
    pub(super) fn files(&self) -> Arc<RuleFiles> {
        self.files.load_full()
    }

    /// Replaces the rules. They apply to metrics that are created afterwards.
    pub(super) fn replace(&self, rules: StorageRules) {
        self.rules.store(Arc::new(rules));
    }

    /// Updates the names of the rules files. Their contents must be those of the current rules.
    pub(super) fn name_files(&self, config: &Config) {
        self.files.store(Arc::new(RuleFiles::of(config)));
    }

    /// Returns a function that applies the rules that are current at each call.
    pub(crate) fn config_for(&self) -> ConfigFor {
        let rules = Arc::clone(&self.rules);
        Arc::new(move |name| rules.load().config_for(name))
    }
}
