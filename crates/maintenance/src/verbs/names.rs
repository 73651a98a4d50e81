//! The verb `import-names`.

use plumbago_boxed_futures::boxed_futures;

use crate::names::{ImportNamesReport, import};
use crate::verb::{Verb, VerbError, Work};

pub use crate::names::ImportNames;

#[boxed_futures]
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

    fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    async fn run(&self, work: &Work) -> Result<ImportNamesReport, VerbError> {
        import(self, work).await
    }
}
