//! The verb `import-kairosdb`.

use plumbago_boxed_futures::boxed_futures;

use crate::kairosdb::{ImportKairosdbReport, import};
use crate::verb::{Verb, VerbError, Work};

pub use crate::kairosdb::ImportKairosdb;

/// The most blocks that are read and parts that are stored at a time.
const WORKERS_MAX: usize = 64;

#[boxed_futures]
impl Verb for ImportKairosdb {
    const NAME: &'static str = "import-kairosdb";
    const NEEDS_DATA: bool = false;
    type Answer = ImportKairosdbReport;

    fn check(&self) -> Result<(), String> {
        match (&self.keyspace, self.paths.is_empty()) {
            (None, true) => return Err("name the files to import, or a keyspace with --keyspace".to_owned()),
            (Some(_), false) => return Err("name files or a keyspace, not both".to_owned()),
            _ => {}
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

    async fn run(&self, work: &Work) -> Result<ImportKairosdbReport, VerbError> {
        import(self, work).await
    }
}
