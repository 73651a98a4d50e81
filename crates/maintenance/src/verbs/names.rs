//! The verb `import-names`.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::names::{ImportNamesReport, import};
use crate::verb::{Verb, VerbError, Work};

/// Creates the metrics of a list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportNames {
    /// A file with a name, a retention, a method and a factor in each line, as an absolute path.
    pub file: PathBuf,
    /// Largest number of names per second; 0 for no limit.
    pub rate: u32,
    /// The file in which to list what was skipped.
    pub skipped: Option<PathBuf>,
    /// Whether to only count the changes without making them.
    pub dry_run: bool,
}

#[async_trait]
impl Verb for ImportNames {
    const NAME: &'static str = "import-names";
    const NEEDS_DATA: bool = false;
    type Answer = ImportNamesReport;

    fn check(&self) -> Result<(), String> {
        match self.file.is_absolute() {
            true => Ok(()),
            false => Err(format!("{} is not an absolute path", self.file.display())),
        }
    }

    async fn run(&self, work: &Work) -> Result<ImportNamesReport, VerbError> {
        import(self, work).await
    }
}
