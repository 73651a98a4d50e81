//! Who enters tagged series and takes them out.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::ApiError;

/// Does what `/tags/tagSeries` and `/tags/delSeries` ask for.
#[async_trait]
pub trait Tagging: Send + Sync + Debug {
    /// Lets series be found by their tags, made when they are not there; gives their names in the
    /// normal form, in the order of the paths.
    async fn tag(&self, paths: &[&str]) -> Result<Vec<String>, TaggingError>;

    /// Keeps series from being found by their tags; their points stay. Unknown ones are no error.
    async fn untag(&self, paths: &[&str]) -> Result<(), TaggingError>;
}

/// Why series were not entered or taken out.
#[derive(Debug, thiserror::Error)]
pub enum TaggingError {
    /// A path cannot be read.
    #[error("{0}")]
    Path(String),
    /// The store cannot be written now.
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

/// For servers that only read.
#[derive(Debug)]
pub struct NoTagging;

#[async_trait]
impl Tagging for NoTagging {
    async fn tag(&self, _: &[&str]) -> Result<Vec<String>, TaggingError> {
        Err(TaggingError::Unavailable("series cannot be tagged here".to_owned()))
    }

    async fn untag(&self, _: &[&str]) -> Result<(), TaggingError> {
        Err(TaggingError::Unavailable("series cannot be untagged here".to_owned()))
    }
}
