//! The question `tags`: tags, or the values of one.

use plumbago_boxed_futures::boxed_futures;
use serde::{Deserialize, Serialize};

use crate::question::{Question, Rows};
use crate::verb::{VerbError, Work};

/// Maximum number of tags or values in one answer.
const TAGS_MAX: usize = 1_000_000;

/// Lists tags, or the values of one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tags {
    /// The tag whose values are listed; `None` to list the tags.
    pub tag: Option<String>,
}

/// A tag or a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// The tag, or the value.
    pub text: String,
    /// Number of series with this tag or value.
    pub series: u64,
}

#[boxed_futures]
impl Question for Tags {
    const NAME: &'static str = "tags";
    type Row = Tag;

    async fn answer(&self, work: &Work, rows: &Rows<Tag>) -> Result<(), VerbError> {
        for (text, series) in work.names.tags(self.tag.as_deref(), TAGS_MAX).await? {
            rows.send(Tag { text, series }).await?;
        }
        Ok(())
    }
}
