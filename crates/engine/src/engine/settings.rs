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
    /// The stored values would have another meaning under the new method.
    #[error(
        "{name:?} cannot change from {from} to {to}: its stored windows were made by {from}, and {to} would read them \
         wrongly; average, sum and avg_zero can change into each other, and a metric with only one stage \
         can change to any method"
    )]
    Windows {
        /// The name of the metric.
        name: String,
        /// The present method.
        from: Aggregation,
        /// The requested method.
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
    /// Changes the aggregation method of a metric, in the metadata store and in its head. Returns the old
    /// method. From then on all windows are read with the new method, including those that are already
    /// stored.
    ///
    /// # Errors
    /// [`ChangeError`]. In that case nothing has changed, or only the metadata store has. The call may be
    /// repeated.
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
        let _both = self.between_stores().await;
        if old != method {
            metadata.set_aggregation(name, method).await?;
            metadata.sync_names().await?;
        }
        // If globs are resolved in the store, this node has no head for a metric that it does not write. The
        // head gets the method even if the metadata store already has it, because an earlier call may have
        // failed after that change.
        if self.contains(&[name]).await? == [true] {
            self.adopt(&[changed]).await?;
        }
        Ok(old)
    }
}
