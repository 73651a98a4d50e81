//! Stores and reads the history of metrics through the engine.

use std::fmt;
use std::sync::Arc;

use plumbago_api::KeptAnswers;
use plumbago_boxed_futures::boxed_futures;
use plumbago_engine::Engine;
use plumbago_maintenance::import::Histories;
use plumbago_model::MetricConfig;
use plumbago_store::{
    CopyOptions, CopyReport, Creation, History, HistoryOptions, HistoryReport, HistorySink, MetricCopier,
    MetricCopy, MetricCreator, RangeDeleter, RangeReport, SettingsChange, SettingsChanger, SettingsReport,
    StoreError, TimeRange,
};
use tokio_util::sync::CancellationToken;

use super::backend::Keeper;
use super::rules;

/// The engine, the storage rules, and the store of the rows.
pub(super) struct EngineHistories {
    pub(super) engine: Engine,
    pub(super) rules: rules::Live,
    pub(super) keeper: Keeper,
    /// The kept responses of the API, which are dropped after each change.
    pub(super) answers: KeptAnswers,
}

impl fmt::Debug for EngineHistories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineHistories")
    }
}

#[boxed_futures]
impl HistorySink for EngineHistories {
    async fn take(
        &self,
        histories: Vec<History>,
        options: HistoryOptions,
    ) -> Result<Vec<HistoryReport>, StoreError> {
        self.engine.take(histories, options).await
    }

    async fn histories(&self, names: &[&str]) -> Result<Vec<Option<History>>, StoreError> {
        self.engine.histories(names).await
    }
}

#[boxed_futures]
impl RangeDeleter for EngineHistories {
    async fn delete_range(
        &self,
        names: &[&str],
        range: TimeRange,
        dry_run: bool,
    ) -> Result<Vec<RangeReport>, StoreError> {
        let deleted = self.engine.delete_range(names, range, dry_run).await;
        if !dry_run {
            // Done after an error too, because some points may already be deleted.
            self.answers.forget();
        }
        deleted
    }
}

#[boxed_futures]
impl SettingsChanger for EngineHistories {
    async fn settings_in_use(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, StoreError> {
        self.engine.settings_in_use(names).await
    }

    async fn change_settings(&self, changes: Vec<SettingsChange>) -> Result<Vec<SettingsReport>, StoreError> {
        let changed = self.engine.change_settings(changes).await;
        // Done after an error too, because some metrics may already be changed.
        self.answers.forget();
        changed
    }
}

#[boxed_futures]
impl MetricCopier for EngineHistories {
    async fn copy_metrics(
        &self,
        copies: Vec<MetricCopy>,
        options: CopyOptions,
    ) -> Result<Vec<CopyReport>, StoreError> {
        let copied = self.engine.copy_metrics(copies, options).await;
        if !options.dry_run {
            // Done after an error too, because some metrics may already be copied.
            self.answers.forget();
        }
        copied
    }
}

#[boxed_futures]
impl MetricCreator for EngineHistories {
    async fn create_metrics(
        &self,
        metrics: Vec<SettingsChange>,
        dry_run: bool,
    ) -> Result<Vec<Creation>, StoreError> {
        self.engine.create_metrics(metrics, dry_run).await
    }
}

#[boxed_futures]
impl Histories for EngineHistories {
    fn config_for(&self, name: &str) -> Arc<MetricConfig> {
        self.rules.load().config_for(name)
    }

    fn section_for(&self, name: &str) -> Option<String> {
        self.rules.load().schema_for(name).map(str::to_owned)
    }

    async fn refuses(&self, config: &MetricConfig) -> Result<Option<String>, StoreError> {
        let mut retentions: Vec<_> =
            self.rules.load().configs().iter().map(|config| config.retention.clone()).collect();
        retentions.push(config.retention.clone());
        self.keeper.refuses(&config.retention, retentions).await
    }

    fn received(&self) -> u64 {
        self.engine.received()
    }

    async fn all_sent(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        self.keeper.all_sent(stop).await
    }
}
