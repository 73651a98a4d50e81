//! The verbs `import-whisper` and `export-whisper`.

use plumbago_boxed_futures::boxed_futures;

use crate::export::{ExportReport, export_whisper};
use crate::import::{ImportReport, TaggedNames, import_whisper};
use crate::verb::{Verb, VerbError, Work};

pub use crate::export::ExportWhisper;
pub use crate::import::ImportWhisper;

/// The most groups of files that are read and stored at a time.
const WORKERS_MAX: usize = 64;

#[boxed_futures]
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

    fn is_dry_run(&self) -> bool {
        self.dry_run
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

#[boxed_futures]
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
