//! The verb `import-store`.

use plumbago_boxed_futures::boxed_futures;

use crate::other_store::{ImportStoreReport, import};
use crate::verb::{Verb, VerbError, Work};

pub use crate::other_store::ImportStore;

/// The most batches that are read and stored at a time.
const WORKERS_MAX: usize = 64;

#[boxed_futures]
impl Verb for ImportStore {
    const NAME: &'static str = "import-store";
    const NEEDS_DATA: bool = false;
    type Answer = ImportStoreReport;

    fn check(&self) -> Result<(), String> {
        if let Some(path) = [&self.file, &self.directory].into_iter().find(|path| !path.is_absolute()) {
            return Err(format!("{} is not an absolute path", path.display()));
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(format!("--workers must be a number from 1 to {WORKERS_MAX}"));
        }
        self.patterns().map(drop)
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    async fn run(&self, work: &Work) -> Result<ImportStoreReport, VerbError> {
        import(self, work).await
    }
}
