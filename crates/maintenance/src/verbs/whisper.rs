//! The verbs `import-whisper` and `export-whisper`.

use std::path::PathBuf;

use async_trait::async_trait;
use plumbago_store::HistoryOptions;
use serde::{Deserialize, Serialize};

use crate::export::{ExportReport, export_whisper};
use crate::import::{ImportReport, TaggedNames, import_whisper};
use crate::select::Which;
use crate::verb::{Verb, VerbError, Work};

/// The most groups of files that are read and stored at a time.
const WORKERS_MAX: usize = 64;

/// Stores whisper files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportWhisper {
    /// Files and trees, as absolute paths.
    pub paths: Vec<PathBuf>,
    /// Put in front of all names, with a dot.
    pub prefix: String,
    /// Points before this time are left out; seconds since the epoch.
    pub since: Option<i64>,
    /// How many groups of files are read and stored at a time.
    pub workers: usize,
    /// The most metrics to store in a second; 0 for no limit.
    pub rate: u32,
    /// New metrics get the settings of the storage rules instead of those of their files.
    pub rules: bool,
    /// The files win a slot that is stored already.
    pub overwrite: bool,
    /// Files that were stored before and have not changed are stored again.
    pub again: bool,
    /// A file with the names of tagged series, one per line.
    pub tagged_names: Option<PathBuf>,
    /// Where to list the files that were skipped.
    pub skipped: Option<PathBuf>,
    /// Count what would be done and change nothing.
    pub dry_run: bool,
}

impl ImportWhisper {
    /// How the points are laid over stored ones.
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
            return Err(format!("--workers must be a number from 1 to {WORKERS_MAX}"));
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
    /// Files that exist are replaced.
    pub replace: bool,
    /// The most metrics to write in a second; 0 for no limit.
    pub rate: u32,
    /// Count what would be written and write nothing.
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
