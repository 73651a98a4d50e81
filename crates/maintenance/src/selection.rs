//! Which windows a run of `repair_windows` compares.

use plumbago_model::{GlobError, Pattern};
use serde::{Deserialize, Serialize};

/// The windows that a run compares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selection {
    /// Only windows of metrics whose name matches this glob; `None` for all metrics.
    pub names: Option<String>,
    /// Only windows that end after this time, in seconds since the epoch; `None` for two days before now.
    pub from: Option<i64>,
    /// Only windows that begin before this time, in seconds since the epoch; `None` for now.
    pub until: Option<i64>,
}

impl Selection {
    /// Checks the glob.
    ///
    /// # Errors
    /// If the glob is not valid.
    pub fn check(&self) -> Result<(), GlobError> {
        self.pattern().map(|_| ())
    }

    pub(crate) fn pattern(&self) -> Result<Option<Pattern>, GlobError> {
        self.names.as_deref().map(Pattern::parse).transpose()
    }
}
