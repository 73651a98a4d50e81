//! Where histories are stored and read, as imports and exports see it.

use std::collections::HashMap;
use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::MetricConfig;
use plumbago_store::{HistorySink, MetricCopier, MetricCreator, RangeDeleter, SettingsChanger, StoreError};
use tokio_util::sync::CancellationToken;

/// Where histories are stored and read, metrics created and copied, ranges of them deleted, and settings changed.
#[boxed_futures]
pub trait Histories: HistorySink + MetricCopier + MetricCreator + RangeDeleter + SettingsChanger {
    /// The settings that the storage rules give a new metric.
    fn config_for(&self, name: &str) -> Arc<MetricConfig>;

    /// The section of the storage schemas that decides for a name; `None` for the built-in rule.
    fn section_for(&self, name: &str) -> Option<String>;

    /// Why the store cannot hold metrics with these settings, and what to do; `None` if it can.
    ///
    /// # Errors
    /// If the store does not answer.
    async fn refuses(&self, config: &MetricConfig) -> Result<Option<String>, StoreError>;

    /// The number of points that this process has received from senders so far.
    fn received(&self) -> u64;

    /// Waits until a store on other machines has all rows, or until `stop` is cancelled.
    ///
    /// # Errors
    /// If the store does not get the rows.
    async fn all_sent(&self, stop: &CancellationToken) -> Result<(), StoreError>;
}

/// Why the store cannot hold metrics with some retentions; each is asked for once.
#[derive(Debug, Default)]
pub(crate) struct Refusals(HashMap<String, Option<String>>);

impl Refusals {
    /// Why the store cannot hold metrics with these settings, and what to do; `None` if it can.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(crate) async fn of(
        &mut self,
        histories: &dyn Histories,
        config: &MetricConfig,
    ) -> Result<Option<String>, StoreError> {
        let key = config.retention.to_string();
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let why = histories.refuses(config).await?;
        self.0.insert(key, why.clone());
        Ok(why)
    }
}
