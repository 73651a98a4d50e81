//! Reads state rows for the start, and the record of the last clean stop: the number of points that they
//! contained then, or the stamp of the engine's checkpoint.

use plumbago_model::MetricId;
use plumbago_store::StoreError;

use crate::damage::DamageReporter;
use crate::errors::{read_error, write_error};
use crate::open::Open;

/// Row of the catalogue, only after a clean stop: points that only state rows have, u64 big-endian, or the 16
/// bytes of a checkpoint's stamp. Both use the same row, so that an older version, which knows only the
/// first, also removes the second.
const HELD: &str = "held";

/// Visits all state rows. Returns the ranges of ids whose rows cannot be read, including both ends.
pub(crate) fn scan(
    open: &Open,
    damage: &DamageReporter,
    visit: &mut dyn FnMut(MetricId, &[u8]),
) -> Vec<(MetricId, MetricId)> {
    let gaps = std::cell::RefCell::new(Vec::<(MetricId, MetricId)>::new());
    let is_open = std::cell::Cell::new(false);
    let mut damaged = |reached: &[u8], _: &fjall::Error| {
        if !is_open.replace(true) {
            let mut from = [0; 16];
            let len = reached.len().min(16);
            from[..len].copy_from_slice(&reached[..len]);
            gaps.borrow_mut().push((MetricId(from), MetricId([u8::MAX; 16])));
        }
    };
    plumbago_fjall_host::scan(&open.state, &[], None, &mut damaged, &mut |key, bytes| {
        match <[u8; 16]>::try_from(key) {
            Ok(id) => {
                if is_open.replace(false)
                    && let Some(gap) = gaps.borrow_mut().last_mut()
                {
                    gap.1 = MetricId(id);
                }
                visit(MetricId(id), &bytes);
            }
            Err(_) => damage.report(&open.state, &key.escape_ascii(), &"no state row has such a key"),
        }
        true
    });
    let gaps = gaps.into_inner();
    if !gaps.is_empty() {
        let text = "it holds state rows: points in them that were not in blocks yet are lost unless the journal has them";
        damage.found(&open.state, gaps.len() as u64, text);
    }
    gaps
}

pub(crate) fn note_held(open: &Open, points: u64) -> Result<(), StoreError> {
    open.system.insert(HELD, points.to_be_bytes()).map_err(|error| write_error("note the points held", error))
}

pub(crate) fn take_held(open: &Open) -> Result<Option<u64>, StoreError> {
    let row = open.system.get(HELD).map_err(|error| read_error("read the points held", error))?;
    if row.is_some() {
        open.system.remove(HELD).map_err(|error| write_error("remove the points held", error))?;
    }
    Ok(row.and_then(|row| row[..].try_into().ok()).map(u64::from_be_bytes))
}

pub(crate) fn note_checkpoint(open: &Open, stamp: [u8; 16]) -> Result<(), StoreError> {
    open.system.insert(HELD, stamp).map_err(|error| write_error("note the checkpoint", error))
}

/// The stamp of the checkpoint, if one is recorded.
pub(crate) fn checkpoint(open: &Open) -> Result<Option<[u8; 16]>, StoreError> {
    let row = open.system.get(HELD).map_err(|error| read_error("read the note of the checkpoint", error))?;
    Ok(row.and_then(|row| row[..].try_into().ok()))
}

/// Removes the note of a checkpoint, before a change that the checkpoint does not contain.
pub(crate) fn forget_checkpoint(open: &Open) -> Result<(), StoreError> {
    open.system.remove(HELD).map_err(|error| write_error("remove the note of the checkpoint", error))
}
