//! The verbs `import-whisper` and `export-whisper`.

use std::path::PathBuf;

use async_trait::async_trait;
use plumbago_store::HistoryOptions;
use serde::{Deserialize, Serialize};

use crate::export::{ExportReport, export_whisper};
use crate::import::{ImportReport, TaggedNames, import_whisper};
use crate::select::Which;
use crate::verb::{Verb, VerbError, Work};

/// Largest number of groups of files that are read and stored at the same time.
const WORKERS_MAX: usize = 64;

/// Stores whisper files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportWhisper {
    /// Files and trees, as absolute paths.
    pub paths: Vec<PathBuf>,
    /// A prefix that is put before all names, with a dot.
    pub prefix: String,
    /// The start of the import in seconds since the epoch; earlier points are left out.
    pub since: Option<i64>,
    /// How many groups of files are read and stored at the same time.
    pub workers: usize,
    /// Largest number of metrics stored per second; 0 for no limit.
    pub rate: u32,
    /// Whether new metrics get the settings of the storage rules instead of those of their files.
    pub rules: bool,
    /// Whether values of the files replace stored ones.
    pub overwrite: bool,
    /// Whether to store files again that were stored before and have not changed.
    pub again: bool,
    /// A file with the names of tagged series, one per line.
    pub tagged_names: Option<PathBuf>,
    /// The file in which to list the files that were skipped.
    pub skipped: Option<PathBuf>,
    /// Whether to only count the changes without making them.
    pub dry_run: bool,
}

impl ImportWhisper {
    /// How the points are merged with stored ones.
    pub(crate) fn options(&self) -> HistoryOptions {
        HistoryOptions { overwrites: self.overwrite, dry_run: self.dry_run }
    }
}

#[async_trait]
impl Verb for ImportWhisper {
    const NAME: &'static str = "import-whisper";
    const NEEDS_DATA: bool = false;
    type Answer = ImportReport;

    fn check(&self) -> Result<(), String> {
        if self.paths.is_empty() {
            return Err("name the files or trees to import".to_owned());
        }
        if let Some(path) = self.paths.iter().find(|path| !path.is_absolute()) {
            return Err(format!("{} is not an absolute path", path.display()));
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(format!("--workers is a number from 1 to {WORKERS_MAX}"));
        }
        Ok(())
    }

    async fn run(&self, work: &Work) -> Result<ImportReport, VerbError> {
        let tagged = match &self.tagged_names {
            None => TaggedNames::default(),
            Some(path) => {
                let text = tokio::fs::read_to_string(path).await;
                let text =
                    text.map_err(|error| VerbError::Invalid(format!("{}: {error}", path.display())))?;
                TaggedNames::new(text.lines())
            }
        };
        import_whisper(self, tagged, work).await
    }
}

/// Writes metrics as whisper files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportWhisper {
    /// The directory to write to, as an absolute path.
    pub directory: PathBuf,
    /// Which metrics.
    pub which: Which,
    /// Whether to replace existing files.
    pub replace: bool,
    /// Largest number of metrics written per second; 0 for no limit.
    pub rate: u32,
    /// Whether to only count what would be written.
    pub dry_run: bool,
}

#[async_trait]
impl Verb for ExportWhisper {
    const NAME: &'static str = "export-whisper";
    type Answer = ExportReport;

    fn check(&self) -> Result<(), String> {
        if !self.directory.is_absolute() {
            return Err(format!("{} is not an absolute path", self.directory.display()));
        }
        self.which.check()
    }

    async fn run(&self, work: &Work) -> Result<ExportReport, VerbError> {
        export_whisper(self, work).await
    }
}
