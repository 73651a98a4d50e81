//! The manifest of a keyspace, which lists its tables, and `current`, which names the newest manifest.
//!
//! `current` holds the manifest's version (u64), its XXH3 checksum (u128) and a zero byte. A manifest `v…` is an
//! archive of sections: its trailer points to a table of contents, which points to the sections.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::bytes::{take, take_u32, take_u64, take_u128};

const CURRENT: &str = "current";
const CURRENT_BYTES: usize = 25;
const TRAILER_BYTES: usize = 38;

/// The directories of the keyspaces, sorted.
pub(crate) fn keyspaces(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir.join("keyspaces")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.is_dir());
    paths.sort();
    Ok(paths)
}

/// A table that a manifest lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) id: u64,
    pub(crate) checksum: u128,
    pub(crate) global_seqno: u64,
}

/// The content of `current`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Current {
    pub(crate) version: u64,
    checksum: u128,
}

impl Current {
    /// Reads the file. `None` if its content is not valid.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut input = bytes;
        let current = Self { version: take_u64(&mut input)?, checksum: take_u128(&mut input)? };
        (bytes.len() == CURRENT_BYTES && input == [0]).then_some(current)
    }

    /// Whether a manifest has the checksum stated in `current`.
    pub(crate) fn fits(&self, manifest: &[u8]) -> bool {
        xxh3_128(manifest) == self.checksum
    }
}

/// The path of `current` of a keyspace.
pub(crate) fn current_path(keyspace: &Path) -> PathBuf {
    keyspace.join(CURRENT)
}

/// Makes a manifest the current one.
///
/// # Errors
/// If a file cannot be read, written or synced.
pub(crate) fn write_current(keyspace: &Path, version: u64) -> io::Result<()> {
    let manifest = fs::read(keyspace.join(format!("v{version}")))?;
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend_from_slice(&xxh3_128(&manifest).to_le_bytes());
    bytes.push(0);
    let new = keyspace.join("current.new");
    let mut file = File::create(&new)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    fs::rename(&new, current_path(keyspace))?;
    File::open(keyspace)?.sync_all()
}

/// The versions of the manifests in a keyspace, newest first.
pub(crate) fn versions(keyspace: &Path) -> io::Result<Vec<u64>> {
    let mut versions = Vec::new();
    for entry in fs::read_dir(keyspace)? {
        let name = entry?.file_name();
        versions.extend(name.to_str().and_then(|n| n.strip_prefix('v')).and_then(|n| n.parse::<u64>().ok()));
    }
    versions.sort_unstable_by(|a, b| b.cmp(a));
    Ok(versions)
}

/// The newest manifest whose tables are all intact.
///
/// # Errors
///
/// If the directory cannot be read.
pub(crate) fn newest_sound(keyspace: &Path) -> io::Result<Option<u64>> {
    let is_sound = |version: &u64| {
        let manifest = fs::read(keyspace.join(format!("v{version}")));
        let tables = manifest.ok().and_then(|bytes| tables(&bytes));
        tables.is_some_and(|tables| tables.iter().flatten().flatten().all(|table| is_table(keyspace, table)))
    };
    Ok(versions(keyspace)?.into_iter().find(is_sound))
}

/// Whether a table has the checksum that its manifest states.
pub(crate) fn is_table(keyspace: &Path, table: &TableEntry) -> bool {
    hash(&table_path(keyspace, table.id)).is_ok_and(|found| found == table.checksum)
}

/// The path of a table.
pub(crate) fn table_path(keyspace: &Path, id: u64) -> PathBuf {
    keyspace.join("tables").join(id.to_string())
}

/// The XXH3 checksum of a file.
pub(crate) fn hash(path: &Path) -> io::Result<u128> {
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

/// The tables in a manifest, by level and run. `None` if the manifest is damaged.
pub(crate) fn tables(manifest: &[u8]) -> Option<Vec<Vec<Vec<TableEntry>>>> {
    let sections = sections(manifest)?;
    let (_, mut section) = sections.into_iter().find(|(name, _)| *name == b"tables")?;
    let section = &mut section;
    let mut levels = Vec::new();
    for _level in 0..take(section, 1)?[0] {
        let mut runs = Vec::new();
        for _run in 0..take(section, 1)?[0] {
            let mut run = Vec::new();
            for _table in 0..take_u32(section)? {
                let id = take_u64(section)?;
                take(section, 1)?;
                run.push(TableEntry { id, checksum: take_u128(section)?, global_seqno: take_u64(section)? });
            }
            runs.push(run);
        }
        levels.push(runs);
    }
    Some(levels)
}

/// The sections of an archive: names and contents.
pub(crate) fn sections(archive: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut trailer = archive.get(archive.len().checked_sub(TRAILER_BYTES)? + 22..)?;
    let mut contents = archive.get(usize::try_from(take_u64(&mut trailer)?).ok()?..)?;
    take(&mut contents, 4)?;
    let mut sections = Vec::new();
    for _ in 0..take_u32(&mut contents)? {
        let start = usize::try_from(take_u64(&mut contents)?).ok()?;
        let len = usize::try_from(take_u64(&mut contents)?).ok()?;
        let name_len = u16::from_le_bytes(take(&mut contents, 2)?.try_into().ok()?);
        let name = take(&mut contents, usize::from(name_len))?;
        sections.push((name, archive.get(start..start.checked_add(len)?)?));
    }
    Some(sections)
}

/// A manifest without these tables. `None` if it is damaged.
pub(crate) fn without(manifest: &[u8], gone: &[u64]) -> Option<Vec<u8>> {
    let mut levels = tables(manifest)?;
    for runs in &mut levels {
        runs.iter_mut().for_each(|run| run.retain(|table| !gone.contains(&table.id)));
        runs.retain(|run| !run.is_empty());
    }
    with_tables(manifest, &levels)
}

/// A manifest of these tables, newest first, as the first level. `None` if there are too many. Everything
/// else is copied from the manifest `other`.
pub(crate) fn of_tables(other: &[u8], newest_first: &[TableEntry]) -> Option<Vec<u8>> {
    let mut levels = vec![Vec::new(); tables(other)?.len()];
    u8::try_from(newest_first.len()).ok()?;
    *levels.first_mut()? = newest_first.iter().map(|table| vec![*table]).collect();
    with_tables(other, &levels)
}

/// Whether everything except the tables is the same as in the other manifest.
pub(crate) fn is_consistent(manifest: &[u8], other: &[u8]) -> bool {
    let levels = tables(manifest);
    levels.and_then(|levels| with_tables(other, &levels)).is_some_and(|bytes| bytes == manifest)
}

fn with_tables(manifest: &[u8], levels: &[Vec<Vec<TableEntry>>]) -> Option<Vec<u8>> {
    let list = encode_tables(levels);
    let sections = sections(manifest)?;
    let sections: Vec<(&[u8], &[u8])> = sections
        .into_iter()
        .map(|(name, content)| (name, if name == b"tables" { &list[..] } else { content }))
        .collect();
    Some(archive(&sections))
}

fn encode_tables(levels: &[Vec<Vec<TableEntry>>]) -> Vec<u8> {
    let mut bytes = vec![levels.len() as u8];
    for runs in levels {
        bytes.push(runs.len() as u8);
        for run in runs {
            bytes.extend_from_slice(&(run.len() as u32).to_le_bytes());
            for table in run {
                bytes.extend_from_slice(&table.id.to_le_bytes());
                bytes.push(0);
                bytes.extend_from_slice(&table.checksum.to_le_bytes());
                bytes.extend_from_slice(&table.global_seqno.to_le_bytes());
            }
        }
    }
    bytes
}

/// Writes an archive: the sections, the table of contents, the trailer.
fn archive(sections: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut contents = b"TOC!".to_vec();
    contents.extend_from_slice(&(sections.len() as u32).to_le_bytes());
    for (name, content) in sections {
        contents.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        contents.extend_from_slice(&(content.len() as u64).to_le_bytes());
        contents.extend_from_slice(&(name.len() as u16).to_le_bytes());
        contents.extend_from_slice(name);
        bytes.extend_from_slice(content);
    }
    let start = bytes.len() as u64;
    bytes.extend_from_slice(&contents);
    bytes.extend_from_slice(b"SFA!\x01\x00");
    bytes.extend_from_slice(&xxh3_128(&contents).to_le_bytes());
    bytes.extend_from_slice(&start.to_le_bytes());
    bytes.extend_from_slice(&(contents.len() as u64).to_le_bytes());
    bytes
}
