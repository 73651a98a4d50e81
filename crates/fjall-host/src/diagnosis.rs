//! Finds the damaged file of a database that does not open. fjall reports damage without naming the file.
//!
//! Every keyspace has a file `current` that names the newest manifest `v…` and holds its checksum. The
//! manifest lists the tables with their checksums. So damaged files can be found without decoding their rows.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

/// The first damaged file of the database in `dir`, as a clause for a message. `None` if all checksums match.
pub(crate) fn find(dir: &Path) -> Option<String> {
    let mut keyspaces: Vec<PathBuf> =
        fs::read_dir(dir.join("keyspaces")).ok()?.flatten().map(|entry| entry.path()).collect();
    keyspaces.sort();
    keyspaces.iter().filter(|path| path.is_dir()).find_map(|path| check_keyspace(path).err())
}

fn check_keyspace(path: &Path) -> Result<(), String> {
    let current = path.join("current");
    if !current.exists() {
        // The process died while it created the keyspace. fjall removes such a keyspace.
        return Ok(());
    }
    let bytes = fs::read(&current).map_err(|error| format!("{}: {error}", current.display()))?;
    let damaged = |path: &Path| format!("{} is damaged", path.display());
    let mut input = &bytes[..];
    let version = take_u64(&mut input).ok_or_else(|| damaged(&current))?;
    let checksum = take_u128(&mut input).ok_or_else(|| damaged(&current))?;
    let manifest = path.join(format!("v{version}"));
    check_file(&manifest, checksum)?;
    let bytes = fs::read(&manifest).map_err(|error| format!("{}: {error}", manifest.display()))?;
    let tables = tables(&bytes).ok_or_else(|| damaged(&manifest))?;
    tables
        .iter()
        .try_for_each(|(id, checksum)| check_file(&path.join("tables").join(id.to_string()), *checksum))
}

fn check_file(path: &Path, checksum: u128) -> Result<(), String> {
    match hash(path) {
        Ok(found) if found == checksum => Ok(()),
        Ok(_) => Err(format!("{} is damaged", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

fn hash(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.digest128()),
            len => hasher.update(&buffer[..len]),
        }
    }
}

/// Ids and checksums of the tables in a manifest. Its trailer points to a table of contents, which points to
/// the section with the tables.
fn tables(manifest: &[u8]) -> Option<Vec<(u64, u128)>> {
    const TRAILER_BYTES: usize = 38;
    let mut trailer = manifest.get(manifest.len().checked_sub(TRAILER_BYTES)? + 22..)?;
    let mut contents = manifest.get(usize::try_from(take_u64(&mut trailer)?).ok()?..)?;
    take(&mut contents, 4)?;
    for _ in 0..take_u32(&mut contents)? {
        let start = usize::try_from(take_u64(&mut contents)?).ok()?;
        let len = usize::try_from(take_u64(&mut contents)?).ok()?;
        let name_len = u16::from_le_bytes(take(&mut contents, 2)?.try_into().ok()?);
        if take(&mut contents, usize::from(name_len))? == b"tables" {
            return table_list(manifest.get(start..start.checked_add(len)?)?);
        }
    }
    None
}

fn table_list(mut section: &[u8]) -> Option<Vec<(u64, u128)>> {
    let mut tables = Vec::new();
    let section = &mut section;
    for _level in 0..take(section, 1)?[0] {
        for _run in 0..take(section, 1)?[0] {
            for _table in 0..take_u32(section)? {
                let id = take_u64(section)?;
                take(section, 1)?;
                tables.push((id, take_u128(section)?));
                take_u64(section)?;
            }
        }
    }
    Some(tables)
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (head, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(head)
}

fn take_u32(input: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(take(input, 4)?.try_into().ok()?))
}

fn take_u64(input: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(input, 8)?.try_into().ok()?))
}

fn take_u128(input: &mut &[u8]) -> Option<u128> {
    Some(u128::from_le_bytes(take(input, 16)?.try_into().ok()?))
}
