//! The verb `import-store`.

use std::path::PathBuf;

use async_trait::async_trait;
use plumbago_model::Pattern;
use serde::{Deserialize, Serialize};

use crate::other_store::{ImportStoreReport, import};
use crate::verb::{Verb, VerbError, Work};

/// Largest number of batches that are read and stored at the same time.
const WORKERS_MAX: usize = 64;

/// Imports the metrics of another store.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportStore {
    /// The configuration of the other store, as an absolute path.
    pub file: PathBuf,
    /// The directory that a relative `data_dir` in it starts from, as an absolute path.
    pub directory: PathBuf,
    /// Globs of the metrics to import; empty for all.
    pub globs: Vec<String>,
    /// Whether new metrics get the settings of the storage rules instead of those in the other store.
    pub rules: bool,
    /// Whether values of the other store replace stored ones.
    pub overwrite: bool,
    /// How many batches are read and stored at the same time.
    pub workers: usize,
    /// Largest number of metrics per second; 0 for no limit.
    pub rate: u32,
    /// The file in which to list what was skipped.
    pub skipped: Option<PathBuf>,
    /// Whether to only count the changes without making them.
    pub dry_run: bool,
}

impl ImportStore {
    /// The globs.
    ///
    /// # Errors
    /// Which one cannot be used, and why.
    pub(crate) fn patterns(&self) -> Result<Vec<Pattern>, String> {
        let parse = |glob: &String| match glob.as_str() {
            "" => Err("the glob is empty".to_owned()),
            glob => Pattern::parse(glob).map_err(|error| format!("{glob}: {error}")),
        };
        self.globs.iter().map(parse).collect()
    }
}

#[async_trait]
impl Verb for ImportStore {
    const NAME: &'static str = "import-store";
    const NEEDS_DATA: bool = false;
    type Answer = ImportStoreReport;

    fn check(&self) -> Result<(), String> {
        if let Some(path) = [&self.file, &self.directory].into_iter().find(|path| !path.is_absolute()) {
            return Err(format!("{} is not an absolute path", path.display()));
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(format!("--workers is a number from 1 to {WORKERS_MAX}"));
        }
        self.patterns().map(drop)
    }

    async fn run(&self, work: &Work) -> Result<ImportStoreReport, VerbError> {
        import(self, work).await
    }
}
