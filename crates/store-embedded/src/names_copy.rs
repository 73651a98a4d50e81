//! Whether the copy of the names has all of them. A directory of an older version gets its copy in the background
//! ([`fill_copy`]).

use std::sync::atomic::Ordering;

use fjall::{Keyspace, PersistMode};
use plumbago_fjall_host::pressure;
use plumbago_store::StoreError;

use crate::damage::DamageReporter;
use crate::errors::{host_error, write_error};
use crate::locks::lock;
use crate::names::Met;
use crate::open::Open;
use crate::shared::Core;

/// Row of the catalogue which says that the copy has all names.
const COPY_IS_WHOLE: &str = "names-copy";
/// Names that one batch copies.
const COPIED_AT_ONCE: usize = 10_000;

/// Notes that the copy has all names. Called while there are no names yet.
///
/// # Errors
/// If the database cannot be written.
pub(crate) fn mark_whole(system: &Keyspace) -> Result<(), StoreError> {
    system.insert(COPY_IS_WHOLE, "whole").map_err(|error| write_error("mark the copy of the names", error))
}

impl Met {
    /// Reports the damage.
    pub(crate) fn report(self, open: &Open, damage: &DamageReporter) {
        if self.places == 0 {
            return;
        }
        open.names_damaged.store(true, Ordering::Release);
        let is_whole = self.copy_places == 0 && is_whole(open);
        let rest = if is_whole {
            "no name is lost. Nothing has to be done"
        } else {
            "the copy was not complete: the other names in the damaged places are lost. The points of such a name \
             are found again once a new point with this name arrives"
        };
        let text = format!("it holds names; {} were restored from their copy, and {rest}", self.restored);
        damage.found(&open.names.rows, self.places, &text);
    }
}

/// Whether the copy has all names.
pub(crate) fn is_whole(open: &Open) -> bool {
    open.system.get(COPY_IS_WHOLE).is_ok_and(|row| row.is_some())
}

/// Copies all names to the copy, if that was not done yet. For directories of older versions.
///
/// # Errors
/// If the database cannot be written.
pub(crate) fn fill_copy(core: &Core, open: &Open) -> Result<(), StoreError> {
    let failed = |error| write_error("copy names", error);
    let mut position = Vec::new();
    while !is_whole(open) {
        pressure::wait(&open.fjall, [&open.names.copy].into_iter()).map_err(host_error)?;
        // Names cannot be deleted meanwhile.
        let _changes = lock(&open.configs.changes);
        let mut batch = open.fjall.batch().durability(Some(PersistMode::Buffer));
        let mut copied = 0;
        let mut next = None;
        open.names.scan(&position, &mut |name, row| {
            if copied == COPIED_AT_ONCE {
                next = Some(name.to_vec());
                return false;
            }
            copied += 1;
            batch.insert(&open.names.copy, name, row);
            true
        });
        if next.is_none() {
            batch.insert(&open.system, COPY_IS_WHOLE, "whole");
        }
        batch
            .commit()
            .and_then(|()| open.names.rotate_when_full(core.config.memtable_bytes.0))
            .map_err(failed)?;
        position = next.unwrap_or_default();
    }
    Ok(())
}
