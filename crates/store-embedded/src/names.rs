//! Keeps the names and a copy of them. Every name is in two keyspaces, so that no name is lost when a table
//! of one of them is damaged.
//!
//! The copy is written in the same batches. It is read only where the names are damaged.

use fjall::{Keyspace, OwnedWriteBatch, PersistMode};
use plumbago_fjall_host::pressure;
use plumbago_store::StoreError;

use crate::damage::DamageReporter;
use crate::errors::write_error;

/// The keyspaces of the names and of their copy.
pub(crate) struct Names {
    pub(crate) rows: Keyspace,
    pub(crate) copy: Keyspace,
}

impl Names {
    pub(crate) fn insert(&self, batch: &mut OwnedWriteBatch, name: &[u8], row: &[u8]) {
        batch.insert(&self.rows, name, row);
        batch.insert(&self.copy, name, row);
    }

    pub(crate) fn remove(&self, batch: &mut OwnedWriteBatch, name: &[u8]) {
        batch.remove(&self.rows, name);
        batch.remove(&self.copy, name);
    }

    /// Adds to each of the two keyspaces the names that only the other one has. Called after a repair has taken tables
    /// out.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub(crate) fn unite(&self, fjall: &fjall::Database) -> Result<(), StoreError> {
        for (from, to) in [(&self.copy, &self.rows), (&self.rows, &self.copy)] {
            let mut batch = fjall.batch().durability(Some(PersistMode::SyncAll));
            plumbago_fjall_host::scan(from, &[], None, &mut |_, _| {}, &mut |name, row| {
                if to.get(name).is_ok_and(|known| known.is_none()) {
                    batch.insert(to, name, row);
                }
                true
            });
            batch.commit().map_err(|error| write_error("restore names", error))?;
        }
        Ok(())
    }

    /// The row of a name, read from the copy if the names are damaged at this place.
    pub(crate) fn get(&self, name: &str, damage: &DamageReporter) -> Option<fjall::Slice> {
        self.rows.get(name).unwrap_or_else(|error| {
            damage.report(&self.rows, &name, &error);
            self.copy.get(name).ok().flatten()
        })
    }

    /// Starts writing full memtables to tables.
    pub(crate) fn rotate_when_full(&self, max_bytes: u64) -> fjall::Result<()> {
        pressure::rotate_when_full(&self.rows, max_bytes)?;
        pressure::rotate_when_full(&self.copy, max_bytes)
    }

    /// Visits names in order, from `from` on. Names in damaged blocks are read from the copy. Stops when
    /// `visit` returns `false`. Returns the damage that it found.
    pub(crate) fn scan(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Met {
        let mut met = Met::default();
        // The start of a gap: from this key up to the next readable one, names are read from the copy.
        let gap = std::cell::RefCell::new(None::<Vec<u8>>);
        let places = std::cell::Cell::new(0);
        let mut stopped = false;
        let mut damaged = |reached: &[u8], _: &fjall::Error| {
            places.set(places.get() + 1);
            gap.borrow_mut().get_or_insert_with(|| reached.to_vec());
        };
        plumbago_fjall_host::scan(&self.rows, from, None, &mut damaged, &mut |key, row| {
            if let Some(start) = gap.borrow_mut().take()
                && !self.scan_copy(&start, Some(key), &mut met, visit)
            {
                stopped = true;
                return false;
            }
            stopped = !visit(key, &row);
            !stopped
        });
        if let Some(start) = gap.take().filter(|_| !stopped) {
            self.scan_copy(&start, None, &mut met, visit);
        }
        met.places = places.get();
        met
    }

    /// Visits the names of the copy in a gap. Returns `false` if `visit` did.
    fn scan_copy(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        met: &mut Met,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> bool {
        let mut wants_more = true;
        let mut damaged = |_: &[u8], _: &fjall::Error| met.copy_places += 1;
        let mut restored = 0;
        plumbago_fjall_host::scan(&self.copy, from, None, &mut damaged, &mut |key, row| {
            if to.is_some_and(|to| key >= to) {
                return false;
            }
            wants_more = visit(key, &row);
            restored += u64::from(wants_more);
            wants_more
        });
        met.restored += restored;
        wants_more
    }
}

/// Damage that a scan of names found.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Met {
    /// Number of damaged places in the names.
    pub(crate) places: u64,
    /// Number of names that were read from the copy.
    pub(crate) restored: u64,
    /// Damaged places of the copy.
    pub(crate) copy_places: u64,
}
