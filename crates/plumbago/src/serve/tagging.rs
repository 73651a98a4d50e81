//! Creates and hides tagged series for the API (`/tags/tagSeries`, `/tags/delSeries`).

use std::sync::Arc;

use plumbago_api::{Tagging, TaggingError};
use plumbago_boxed_futures::boxed_futures;
use plumbago_cluster::{ClusterError, TaggedSeries};
use plumbago_engine::ConfigFor;
use plumbago_ingest::Reject;

use super::Core;
use super::backend::adapters::EngineMetrics;

/// Makes paths canonical in the same way as listeners, and creates or hides the series.
#[derive(Debug)]
pub(super) struct Tags(Arc<TaggedSeries>);

impl Tags {
    pub(super) fn new(core: &Core, config_for: ConfigFor) -> Self {
        Self(Arc::new(TaggedSeries::new(
            Arc::new(EngineMetrics(core.engine.clone())),
            Arc::clone(&core.stores.metadata),
            Arc::clone(&core.index),
            Arc::clone(&core.clock),
            config_for,
        )))
    }

    pub(super) fn series(&self) -> &Arc<TaggedSeries> {
        &self.0
    }
}

#[boxed_futures]
impl Tagging for Tags {
    async fn tag(&self, paths: &[&str]) -> Result<Vec<String>, TaggingError> {
        let names = canonical(paths)?;
        self.0.tag(&names).await.map_err(|error| unavailable(&error))?;
        Ok(names)
    }

    async fn untag(&self, paths: &[&str]) -> Result<(), TaggingError> {
        self.0.untag(&canonical(paths)?).await.map_err(|error| unavailable(&error))
    }
}

fn canonical(paths: &[&str]) -> Result<Vec<String>, TaggingError> {
    paths.iter().map(|path| canonical_name(path).map_err(TaggingError::Path)).collect()
}

/// Makes a name canonical in the same way as listeners.
///
/// # Errors
///
/// Why it is not a valid name.
pub(super) fn canonical_name(path: &str) -> Result<String, String> {
    plumbago_ingest::canonical(path).map_err(|reason| {
        let reason = match reason {
            Reject::NameEmpty => "it contains no name",
            Reject::NameTooLong => "it is too long",
            Reject::NameControl => "there is white space or a control character in it",
            _ => "its tags cannot be read",
        };
        format!("cannot read path {path:?}: {reason}")
    })
}

fn unavailable(error: &ClusterError) -> TaggingError {
    TaggingError::Unavailable(error.to_string())
}
