//! A second copy of the catalogue and the configurations, in the file `catalogue-copy`. Both keyspaces are
//! tiny, so one wrong byte could lose all of them, and without them no point can be found.
//!
//! The file is the line `plumbago-catalogue 1`, then for each row: the keyspace (`s` or `c`), u32 lengths of key and
//! value, key, value; then the CRC-32 of everything before it. It is written after each change and compared at each
//! start. Rows that change with every commit are not in it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fjall::{Keyspace, PersistMode};
use plumbago_store::{ErrorKind, StoreError};

use crate::errors::write_error;
use crate::options;

const FILE: &str = "catalogue-copy";
const TITLE: &[u8] = b"plumbago-catalogue 1\n";
const SYSTEM: u8 = b's';
const CONFIGS: u8 = b'c';
/// The row which says that a later keyspace of the catalogue has all rows.
const WHOLE: &str = "whole";
/// Rows that are not copied, by the prefix of their key.
const NOT_COPIED: [&[u8]; 4] = [b"commits", b"held", b"hidden/", b"whole"];

/// A row: its keyspace, key and value.
type Row = (u8, Vec<u8>, Vec<u8>);

fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// Held while a copy is read and written. Two threads at the same time would write the same new file, and the
/// one with the older rows could be the last. Changes are rare, so one lock is enough for all stores of the
/// process.
static WRITING: Mutex<()> = Mutex::new(());

/// Writes the copy if it differs from the rows. A failure is only logged: the rows themselves are sound.
pub(crate) fn refresh(dir: &Path, system: &Keyspace, configs: &Keyspace) {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut rows) = rows_of(SYSTEM, system) else { return };
    rows.extend(rows_of(CONFIGS, configs).unwrap_or_default());
    let bytes = encode(&rows);
    if fs::read(path(dir)).is_ok_and(|old| old == bytes) {
        return;
    }
    let new = dir.join("catalogue-copy.new");
    let written = File::create(&new)
        .and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&new, path(dir)));
    if let Err(error) = written {
        tracing::warn!(file = %path(dir).display(), %error, "cannot write the second copy of the catalogue; without it, damage to the catalogue cannot be repaired");
    }
}

/// The rows of a keyspace that are copied. `None` if some cannot be read.
fn rows_of(kind: u8, keyspace: &Keyspace) -> Option<Vec<Row>> {
    let mut rows = Vec::new();
    for row in keyspace.iter() {
        let (key, value) = row.into_inner().ok()?;
        if kind == CONFIGS || !NOT_COPIED.iter().any(|prefix| key.starts_with(prefix)) {
            rows.push((kind, key.to_vec(), value.to_vec()));
        }
    }
    Some(rows)
}

fn encode(rows: &[Row]) -> Vec<u8> {
    let mut bytes = TITLE.to_vec();
    for (kind, key, value) in rows {
        bytes.push(*kind);
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Vec<Row>> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    let mut rest = body.strip_prefix(TITLE)?;
    let mut rows = Vec::new();
    while let Some((kind, tail)) = rest.split_first() {
        let (key_len, tail) = tail.split_first_chunk::<4>()?;
        let (value_len, tail) = tail.split_first_chunk::<4>()?;
        let (key, tail) = tail.split_at_checked(u32::from_le_bytes(*key_len) as usize)?;
        let (value, tail) = tail.split_at_checked(u32::from_le_bytes(*value_len) as usize)?;
        rows.push((*kind, key.to_vec(), value.to_vec()));
        rest = tail;
    }
    Some(rows)
}

fn read(dir: &Path, kind: u8) -> Result<Vec<Row>, StoreError> {
    let rows = fs::read(path(dir)).ok().and_then(|bytes| decode(&bytes)).ok_or_else(|| {
        let operation = format!(
            "open the store: its catalogue is damaged, and so is the second copy in {}. Nothing was changed. Restore \
             the directory from a backup",
            path(dir).display()
        );
        StoreError::new(ErrorKind::Corrupt, operation)
    })?;
    Ok(rows.into_iter().filter(|row| row.0 == kind).collect())
}

/// Whether all rows of a small keyspace can be read.
fn is_sound(keyspace: &Keyspace) -> bool {
    keyspace.iter().all(|row| row.into_inner().is_ok())
}

/// The keyspace of the catalogue. If it is damaged, it is rewritten from the copy, and the damaged keyspace is returned
/// too.
///
/// # Errors
/// `Corrupt` if the copy is damaged too.
pub(crate) fn open_system(
    dir: &Path,
    fjall: &fjall::Database,
) -> Result<(Keyspace, Option<Keyspace>), StoreError> {
    let failed = |error| write_error("open the catalogue", error);
    let mut newest = fjall.keyspace("system", options::small).map_err(failed)?;
    let mut number = 0;
    for next in 1..=u32::MAX {
        let name = format!("system.{next}");
        if !fjall.keyspace_exists(&name) {
            break;
        }
        number = next;
        let later = fjall.keyspace(&name, options::small).map_err(failed)?;
        if later.get(WHOLE).is_ok_and(|row| row.is_some()) || !is_sound(&later) {
            newest = later;
        }
    }
    if is_sound(&newest) {
        return Ok((newest, None));
    }
    let rows = read(dir, SYSTEM)?;
    let anew = fjall.keyspace(&format!("system.{}", number + 1), options::small).map_err(failed)?;
    fill(fjall, &anew, &rows)?;
    anew.insert(WHOLE, "whole").map_err(failed)?;
    fjall.persist(PersistMode::SyncAll).map_err(failed)?;
    Ok((anew, Some(newest)))
}

/// Adds rows of the catalogue that only the copy has, if all keyspaces that they name exist. For a database that lost
/// some of its newest rows, or tables. Does nothing without a copy.
///
/// # Errors
/// `Corrupt` if the copy is damaged.
pub(crate) fn restore_catalogue(
    dir: &Path,
    fjall: &fjall::Database,
    system: &Keyspace,
) -> Result<(), StoreError> {
    if !path(dir).exists() {
        return Ok(());
    }
    let mut rows = read(dir, SYSTEM)?;
    let exists = |line: &str| line.split(' ').nth(1).is_none_or(|keyspace| fjall.keyspace_exists(keyspace));
    rows.retain(|(_, key, value)| {
        let is_layers = key.starts_with(b"bucket/");
        let has_all = !is_layers || String::from_utf8_lossy(value).lines().all(exists);
        has_all && system.get(key).is_ok_and(|row| row.is_none())
    });
    fill(fjall, system, &rows)
}

/// Adds configurations that only the copy has. They are never removed, so such a row was lost. A copy that cannot be
/// read is ignored: it is written again.
///
/// # Errors
/// If the rows cannot be written.
pub(crate) fn restore_configs(
    dir: &Path,
    fjall: &fjall::Database,
    configs: &Keyspace,
) -> Result<(), StoreError> {
    let mut rows = read(dir, CONFIGS).unwrap_or_default();
    rows.retain(|(_, key, _)| configs.get(key).is_ok_and(|row| row.is_none()));
    if !rows.is_empty() {
        tracing::warn!(rows = rows.len(), dir = %dir.display(), "restored the settings of metrics from their second copy");
        fill(fjall, configs, &rows)?;
    }
    Ok(())
}

/// Keys and values.
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// The rows of the configurations in the copy.
///
/// # Errors
/// `Corrupt` if the copy is damaged.
pub(crate) fn configs(dir: &Path) -> Result<Rows, StoreError> {
    Ok(read(dir, CONFIGS)?.into_iter().map(|(_, key, value)| (key, value)).collect())
}

/// Whether the configurations can be read.
pub(crate) fn are_sound(configs: &Keyspace) -> bool {
    is_sound(configs)
}

fn fill(fjall: &fjall::Database, keyspace: &Keyspace, rows: &[Row]) -> Result<(), StoreError> {
    let mut batch = fjall.batch().durability(Some(PersistMode::SyncAll));
    rows.iter().for_each(|(_, key, value)| batch.insert(keyspace, key.as_slice(), value.as_slice()));
    batch.commit().map_err(|error| write_error("restore the catalogue", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_at_the_same_time_are_all_in_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        let fjall = fjall::Database::builder(dir.path().join("fjall")).worker_threads(1).open().unwrap();
        let system = fjall.keyspace("system", options::small).unwrap();
        let configs = fjall.keyspace("configs", options::small).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..6_u8 {
                let (dir, system, configs) = (dir.path(), &system, &configs);
                scope.spawn(move || {
                    for change in 0..20_u8 {
                        system.insert(vec![thread, change], "x").unwrap();
                        refresh(dir, system, configs);
                        let copied = read(dir, SYSTEM).unwrap();
                        assert!(copied.iter().any(|row| row.1 == [thread, change]), "{thread} {change}");
                    }
                });
            }
        });
        assert_eq!(read(dir.path(), SYSTEM).unwrap().len(), 120);
        assert!(!dir.path().join("catalogue-copy.new").exists());
    }

    #[test]
    fn a_copy_is_read_back_or_refused() {
        let rows: Vec<Row> = vec![
            (SYSTEM, b"stage/r60s10080".to_vec(), b"1440".to_vec()),
            (CONFIGS, vec![0, 0, 0, 1], vec![]),
        ];
        let bytes = encode(&rows);
        assert_eq!(decode(&bytes), Some(rows));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(decode(&damaged), None);
            assert_eq!(decode(&bytes[..at]), None);
        }
    }
}
