//! Repairs a database that [`crate::open`] refuses, so that it opens again. Files that cannot be read are moved to
//! `damaged/` in the directory of the database; nothing is deleted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::{Cache, Checksum, Table};

use crate::HostError;
use crate::check::{self, missing_log};
use crate::manifest::{self, Current, TableEntry, keyspaces};
use crate::repair::lock_database;

/// The name of an empty file in the directory of a database. It means that tables were removed, and that the
/// next start can restore some of their rows from elsewhere.
pub const RESCUED: &str = "rescued";

/// One thing that is wrong with a database, and what is done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RescueStep {
    /// The damaged or missing file.
    pub path: PathBuf,
    /// A text with the damage, the remedy, and the resulting loss.
    pub text: String,
    /// Whether [`rescue`] changes something so that the database can be opened. If not, either the next start
    /// solves the problem itself, or nothing can solve it.
    pub changes: bool,
}

/// Finds everything that is wrong with the files of the database in `dir`, and, unless it is a `dry_run`,
/// makes the changes that are needed to open it. With `all`, tables with damaged rows are removed too. The
/// database opens with them, but a compaction that reads such rows stops all writes. Reads every file.
///
/// # Errors
/// [`HostError::Locked`] if a process has the database open, [`HostError::Failed`] if a file cannot be read, moved
/// or written.
pub fn rescue(dir: &Path, dry_run: bool, all: bool) -> Result<Vec<RescueStep>, HostError> {
    let failed = |error| HostError::failed(format!("repair {}", dir.display()), error);
    if !dir.join("keyspaces").is_dir() {
        return Ok(Vec::new());
    }
    let _lock = lock_database(dir)?;
    let mut steps = Vec::new();
    while let Some(log) = missing_log(dir).map_err(failed)? {
        let text = "this log is missing: an empty one takes its place; rows that were not in tables yet are lost unless \
                    the journal has them";
        steps.push(RescueStep { path: log.clone(), text: text.to_owned(), changes: true });
        if dry_run {
            break;
        }
        File::create_new(&log).and_then(|file| file.sync_all()).map_err(failed)?;
    }
    let version = dir.join("version");
    if check::is_version_damaged(&version) {
        let text = "it is missing or damaged; a start writes it again without any loss".to_owned();
        steps.push(RescueStep { path: version, text, changes: false });
    }
    for keyspace in keyspaces(dir).map_err(failed)? {
        steps.extend(rescue_keyspace(dir, &keyspace, dry_run, all).map_err(failed)?);
    }
    Ok(steps)
}

fn rescue_keyspace(dir: &Path, keyspace: &Path, dry_run: bool, all: bool) -> io::Result<Vec<RescueStep>> {
    let current = manifest::current_path(keyspace);
    let named = fs::read(&current).ok().and_then(|bytes| Current::parse(&bytes));
    let path = named.map(|named| keyspace.join(format!("v{}", named.version)));
    let bytes = path.as_ref().and_then(|path| fs::read(path).ok());
    let Some((named, path, bytes)) = named.zip(path).zip(bytes).map(|((n, p), b)| (n, p, b)) else {
        return mend_current(dir, keyspace, current, dry_run);
    };
    let tables = manifest::tables(&bytes);
    if !named.fits(&bytes) || tables.is_none() {
        return mend_current(dir, keyspace, path, dry_run);
    }
    let mut steps = Vec::new();
    let mut gone = Vec::new();
    for (level, runs) in tables.unwrap_or_default().iter().enumerate() {
        for table in runs.iter().flatten().filter(|table| !manifest::is_table(keyspace, table)) {
            let path = manifest::table_path(keyspace, table.id);
            let opens = !all && open_table(&path, table, level).is_some();
            let text = if opens {
                "it is damaged, and a start skips the damaged rows in it".to_owned()
            } else if path.exists() {
                format!("it is damaged: it is moved to {}, and its rows are lost", kept(dir).display())
            } else {
                "it is missing: it is removed from the list of tables, and its rows are lost".to_owned()
            };
            steps.push(RescueStep { path, text, changes: !opens });
            if !opens {
                gone.push(table.id);
            }
        }
    }
    if !gone.is_empty() && !dry_run {
        let is_meta = keyspace.ends_with("0");
        if is_meta {
            return Err(io::Error::other(format!(
                "{} lists all keyspaces, and the store cannot be opened without it; restore the directory \
                 from a backup",
                keyspace.display()
            )));
        }
        take_out(dir, keyspace, named.version, &bytes, &gone)?;
    }
    Ok(steps)
}

/// Finds a manifest for a keyspace that has no intact one, or makes one from the existing tables.
fn mend_current(dir: &Path, keyspace: &Path, path: PathBuf, dry_run: bool) -> io::Result<Vec<RescueStep>> {
    let files = tables_in(keyspace)?;
    let newest = manifest::versions(keyspace)?.first().copied();
    // If `current` is missing too, the process died while it created the keyspace, which is not damage.
    if newest.is_none() && files.is_empty() && !manifest::current_path(keyspace).exists() {
        return Ok(Vec::new());
    }
    let step = |text: String, changes| Ok(vec![RescueStep { path: path.clone(), text, changes }]);
    let Some(template) = template(dir).filter(|_| !keyspace.ends_with("0")) else {
        return step("it is missing or damaged, and only a backup can replace it".to_owned(), false);
    };
    if let Some(version) = manifest::newest_sound(keyspace)?
        && manifest::is_consistent(&fs::read(keyspace.join(format!("v{version}")))?, &template)
    {
        if !dry_run {
            manifest::write_current(keyspace, version)?;
        }
        let text =
            format!("it is missing or damaged: v{version}, whose tables are sound, is used; nothing is lost");
        return step(text, true);
    }
    let mut tables = Vec::new();
    let mut unreadable = 0;
    for id in files {
        let path = manifest::table_path(keyspace, id);
        let entry = TableEntry { id, checksum: manifest::hash(&path)?, global_seqno: 0 };
        match open_table(&path, &entry, 0) {
            Some(table) => tables.push((table.get_highest_seqno(), entry)),
            None => {
                unreadable += 1;
                if !dry_run {
                    keep(dir, keyspace, id)?;
                }
            }
        }
    }
    // The newest table comes first.
    tables.sort_by_key(|(sequence, entry)| std::cmp::Reverse((*sequence, entry.id)));
    let tables: Vec<TableEntry> = tables.into_iter().map(|(_, entry)| entry).collect();
    if !dry_run {
        let version = newest.map_or(0, |version| version + 1);
        let bytes = manifest::of_tables(&template, &tables).ok_or(io::ErrorKind::InvalidData)?;
        write_manifest(keyspace, version, &bytes)?;
    }
    step(
        format!(
            "this list of tables is missing or damaged: a new one has all {} tables of the directory, and {unreadable} that \
             cannot be opened are left out. Rows that were deleted lately may be back",
            tables.len()
        ),
        true,
    )
}

/// The ids of the tables in the directory of a keyspace.
fn tables_in(keyspace: &Path) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(keyspace.join("tables")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
}

/// An intact manifest of another keyspace. Apart from the tables, all manifests are the same.
fn template(dir: &Path) -> Option<Vec<u8>> {
    keyspaces(dir).ok()?.iter().find_map(|keyspace| {
        let named = Current::parse(&fs::read(manifest::current_path(keyspace)).ok()?)?;
        fs::read(keyspace.join(format!("v{}", named.version))).ok().filter(|bytes| named.fits(bytes))
    })
}

/// Opens a table as the database does at its start. Damaged blocks of rows do not prevent this.
fn open_table(path: &Path, table: &TableEntry, level: usize) -> Option<Table> {
    let open = || {
        let (cache, checksum) =
            (Arc::new(Cache::with_capacity_bytes(1 << 20)), Checksum::from_raw(table.checksum));
        // fjall loads the filters of level 0 and the indexes of levels 0 and 1 when it opens a table.
        let (filter, index) = (level == 0, level <= 1);
        Table::recover(path.to_owned(), checksum, table.global_seqno, 0, cache, None, filter, index).ok()
    };
    plumbago_telemetry::log::catch_panic(open).unwrap_or(None)
}

fn kept(dir: &Path) -> PathBuf {
    dir.join("damaged")
}

/// Copies a table to the directory for damaged files.
fn keep(dir: &Path, keyspace: &Path, id: u64) -> io::Result<()> {
    let path = manifest::table_path(keyspace, id);
    let name = keyspace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    fs::create_dir_all(kept(dir))?;
    if path.exists() {
        fs::copy(&path, kept(dir).join(format!("{name}-{id}")))?;
    }
    File::create(dir.join(RESCUED))?.sync_all()
}

/// Moves tables away and writes the next manifest without them.
fn take_out(dir: &Path, keyspace: &Path, version: u64, manifest: &[u8], gone: &[u64]) -> io::Result<()> {
    gone.iter().try_for_each(|id| keep(dir, keyspace, *id))?;
    let bytes = manifest::without(manifest, gone).ok_or(io::ErrorKind::InvalidData)?;
    write_manifest(keyspace, version + 1, &bytes)
}

/// Writes a manifest and makes it the current one. Tables that it does not list are removed when the database
/// opens.
fn write_manifest(keyspace: &Path, version: u64, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(keyspace.join(format!("v{version}")))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    manifest::write_current(keyspace, version)
}
