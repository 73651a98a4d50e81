//! What all clones of a store share: its open database, its settings and its figures.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use plumbago_fjall_host::{Host, space};
use plumbago_model::{Clock, MetricId};
use plumbago_store::{ErrorKind, StoreError};

use crate::Config;
use crate::columns::Columns;
use crate::damage::DamageReporter;
use crate::noted::NotedToday;
use crate::open::Open;
use crate::stats::Stats;

pub(crate) struct Core {
    pub(crate) dir: PathBuf,
    pub(crate) config: Config,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) stats: Stats,
    pub(crate) damage: DamageReporter,
    pub(crate) columns: Columns,
    pub(crate) host: Host<Open>,
    /// Ranges of ids whose state rows were damaged at the start.
    pub(crate) state_gaps: Mutex<Vec<(MetricId, MetricId)>>,
    /// The damaged files that held them.
    pub(crate) state_files: Mutex<Vec<PathBuf>>,
    /// Held by a maintenance run: there is one at a time.
    pub(crate) maintenance: Mutex<()>,
    /// The metrics whose reads were noted today.
    pub(crate) noted: NotedToday,
    /// A checkpoint is noted, so the next change has to remove the note first.
    pub(crate) has_checkpoint: Mutex<bool>,
}

impl Core {
    /// Notes a failed write, after which the database must be opened again.
    pub(crate) fn watch<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if let Err(error) = &result
            && matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Corrupt)
        {
            let cause = error.source.as_deref().map_or_else(String::new, |cause| format!(": {cause}"));
            self.host.write_failed(&format_args!("{error}{cause}"));
        }
        result
    }

    /// Refuses writes while there is still some room. fjall writes tables in the background and stops for
    /// good when that fails.
    pub(crate) fn check_room(&self) -> Result<(), StoreError> {
        let path = self.dir.display();
        let free = space::free_at(&self.dir).ok_or_else(|| {
            StoreError::new(
                ErrorKind::Unavailable,
                format!("find out how much free space the disk of {path} has"),
            )
        })?;
        let wanted = self.config.min_free_bytes;
        if free >= wanted.0 {
            return Ok(());
        }
        self.stats.refused_no_room.add(1);
        let operation = format!(
            "write to {path}: its disk has {} MiB left, and store.embedded.min_free_bytes is {wanted}",
            free >> 20
        );
        Err(StoreError::new(ErrorKind::Unavailable, operation))
    }
}
