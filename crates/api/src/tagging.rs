//! Adding and removing tagged series.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;

use crate::error::ApiError;

/// Carries out `/tags/tagSeries`, `/tags/tagMultiSeries` and `/tags/delSeries`.
#[boxed_futures]
pub trait Tagging: Send + Sync + Debug {
    /// Adds series to the tag index and creates those that do not exist. Returns their canonical names in the
    /// order of `paths`.
    ///
    /// # Errors
    ///
    /// [`TaggingError::Path`] if a path is malformed, [`TaggingError::Unavailable`] if the store cannot be
    /// written.
    async fn tag(&self, paths: &[&str]) -> Result<Vec<String>, TaggingError>;

    /// Removes series from the tag index. Their points stay. Unknown series are ignored.
    ///
    /// # Errors
    ///
    /// [`TaggingError::Path`] if a path is malformed, [`TaggingError::Unavailable`] if the store cannot be
    /// written.
    async fn untag(&self, paths: &[&str]) -> Result<(), TaggingError>;
}

/// Why series were not added or removed.
#[derive(Debug, thiserror::Error)]
pub enum TaggingError {
    /// A path is malformed; the text says which and why.
    #[error("{0}")]
    Path(String),
    /// The store cannot be written at the moment; the text gives the cause.
    #[error("{0}")]
    Unavailable(String),
}

impl From<TaggingError> for ApiError {
    fn from(error: TaggingError) -> Self {
        match error {
            TaggingError::Path(text) => Self::Invalid(text),
            TaggingError::Unavailable(text) => Self::Unavailable(text),
        }
    }
}

/// An implementation for servers that only read: every call fails.
#[derive(Debug)]
pub struct NoTagging;

#[boxed_futures]
impl Tagging for NoTagging {
    async fn tag(&self, _: &[&str]) -> Result<Vec<String>, TaggingError> {
        Err(TaggingError::Unavailable("series cannot be tagged here".to_owned()))
    }

    async fn untag(&self, _: &[&str]) -> Result<(), TaggingError> {
        Err(TaggingError::Unavailable("series cannot be untagged here".to_owned()))
    }
}
