//! Converts the records of reads of earlier versions: a keyspace with a row of 20 bytes for each metric that
//! was ever read. The first start of this version moves them into the rows of the names.

use fjall::{Keyspace, PersistMode};
use plumbago_fjall_host::pressure;
use plumbago_model::MetricId;
use plumbago_store::StoreError;

use crate::errors::{host_error, write_error};
use crate::name_row::NameRow;
use crate::open::Open;
use crate::options;
use crate::shared::Core;

/// The keyspace: id to day.
const KEYSPACE: &str = "reads";
/// The row with the first day on which reads were recorded. Its key is shorter than any id.
const SINCE: &[u8] = b"since";
/// Number of names that one batch checks.
const MOVED_AT_ONCE: usize = 10_000;

/// The first day on which an earlier version recorded reads, in days since the epoch.
///
/// # Errors
/// If the keyspace cannot be opened.
pub(crate) fn since(open: &Open) -> Result<Option<u32>, StoreError> {
    Ok(keyspace(open)?.and_then(|old| day(&old, SINCE)))
}

/// Moves the notes into the rows of the names and deletes the keyspace. After a kill, the next start
/// continues.
///
/// # Errors
/// If the database cannot be written.
pub(crate) fn take_over(core: &Core, open: &Open) -> Result<(), StoreError> {
    let Some(old) = keyspace(open)? else { return Ok(()) };
    let failed = |error| write_error("move the records of reads to the names", error);
    let mut position = Some(Vec::new());
    while let Some(from) = position.take() {
        pressure::wait(&open.fjall, [&open.names.rows].into_iter()).map_err(host_error)?;
        let mut batch = open.fjall.batch().durability(Some(PersistMode::Buffer));
        let mut seen = 0;
        open.names.scan(&from, &mut |name, row| {
            if seen == MOVED_AT_ONCE {
                position = Some(name.to_vec());
                return false;
            }
            seen += 1;
            if let Some(row) = with_note(&old, name, row) {
                batch.insert(&open.names.rows, name, row.as_slice());
            }
            true
        });
        batch
            .commit()
            .and_then(|()| pressure::rotate_when_full(&open.names.rows, core.config.memtable_bytes.0))
            .map_err(failed)?;
    }
    open.fjall.persist(PersistMode::SyncAll).map_err(failed)?;
    open.delete_keyspaces(vec![old])
}

fn keyspace(open: &Open) -> Result<Option<Keyspace>, StoreError> {
    if !open.fjall.keyspace_exists(KEYSPACE) {
        return Ok(None);
    }
    let opened = open.fjall.keyspace(KEYSPACE, options::small);
    opened.map(Some).map_err(|error| write_error("open the old records of reads", error))
}

/// The day in a row. Nothing depends on it, so a row that cannot be read counts as none.
fn day(old: &Keyspace, key: &[u8]) -> Option<u32> {
    let row = old.get(key).ok().flatten()?;
    Some(u32::from_le_bytes(row.as_ref().try_into().ok()?))
}

/// The row of a name with the day from the old records; `None` if they have no later day than the row.
fn with_note(old: &Keyspace, name: &[u8], row: &[u8]) -> Option<Vec<u8>> {
    let id = MetricId::of(std::str::from_utf8(name).ok()?);
    let read_on = u16::try_from(day(old, &id.0)?).ok()?;
    let row = NameRow::parse(row)?;
    (row.read_on < read_on).then(|| NameRow { read_on, ..row }.to_bytes())
}
