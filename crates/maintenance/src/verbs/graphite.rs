//! The verbs `import-graphite` and `import-events`.

use plumbago_boxed_futures::boxed_futures;

use crate::events::{self, EventsReport};
use crate::graphite::{ImportGraphiteReport, import};
use crate::verb::{Verb, VerbError, Work};

pub use crate::events::ImportEvents;
pub use crate::graphite::ImportGraphite;

/// Maximum number of requests in flight.
const WORKERS_MAX: usize = 64;

#[boxed_futures]
impl Verb for ImportGraphite {
    const NAME: &'static str = "import-graphite";
    const NEEDS_DATA: bool = false;
    type Answer = ImportGraphiteReport;

    fn check(&self) -> Result<(), String> {
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(format!("--workers must be a number from 1 to {WORKERS_MAX}"));
        }
        self.retention()?;
        check_range(self.from, self.until)
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    async fn run(&self, work: &Work) -> Result<ImportGraphiteReport, VerbError> {
        import(self, work).await
    }
}

#[boxed_futures]
impl Verb for ImportEvents {
    const NAME: &'static str = "import-events";
    const NEEDS_DATA: bool = false;
    type Answer = EventsReport;

    fn check(&self) -> Result<(), String> {
        check_range(self.from, self.until)
    }

    fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    async fn run(&self, work: &Work) -> Result<EventsReport, VerbError> {
        events::import(self, work).await
    }
}

fn check_range(from: Option<i64>, until: Option<i64>) -> Result<(), String> {
    match (from, until) {
        (Some(from), Some(until)) if from >= until => Err("--from must be before --until".to_owned()),
        _ => Ok(()),
    }
}
