//! Changes of a metric's settings while the engine runs.

use plumbago_model::Aggregation;
use plumbago_store::{FetchError, StoreError};

use super::Engine;

/// Why the settings of a metric were not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// There is no metric of this name.
    #[error("there is no metric {0:?}")]
    Unknown(String),
    /// What is stored would mean something else with the new method.
    #[error(
        "{name:?} cannot change from {from} to {to}: its stored windows were made by {from}, and {to} would read them \
         wrongly; average, sum and avg_zero can change into each other, and a metric with one retention into any"
    )]
    Windows {
        /// The metric.
        name: String,
        /// Its method.
        from: Aggregation,
        /// The method asked for.
        to: Aggregation,
    },
    /// The metadata store could not be read or written.
    #[error("failed to change the metric")]
    Store(#[from] StoreError),
    /// The engine is shutting down.
    #[error(transparent)]
    Engine(#[from] FetchError),
}

impl Engine {
    /// Changes the aggregation method of a metric, in the metadata store and in its head. Returns the old method. All
    /// windows, also those stored already, are read by the new method from then on.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then, or the metadata store only, and the call may be repeated.
    pub async fn set_aggregation(&self, name: &str, method: Aggregation) -> Result<Aggregation, ChangeError> {
        let _alone = self.0.changes.lock().await;
        let metadata = &self.0.parts.metadata;
        let Some(Some(meta)) = metadata.get(&[name]).await?.pop() else {
            return Err(ChangeError::Unknown(name.to_owned()));
        };
        let old = meta.config.aggregation;
        let changed = meta.clone().with_aggregation(method);
        if !changed.config.reads_what_was_stored_with(&meta.config) {
            return Err(ChangeError::Windows { name: name.to_owned(), from: old, to: method });
        }
        if old != method {
            metadata.set_aggregation(name, method).await?;
            metadata.sync_names().await?;
        }
        // A node that finds names in the store has no head of a metric that it does not write. An earlier call may
        // have failed after its change of the metadata store, so the head gets the method also if it is the old one.
        if self.contains(&[name]).await? == [true] {
            self.adopt(&[changed]).await?;
        }
        Ok(old)
    }
}
