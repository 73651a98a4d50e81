//! Finds the damaged files of a database by the checksums in its manifests. fjall reports damage without naming the
//! file.

use std::fs;
use std::path::{Path, PathBuf};

use crate::manifest::{self, Current, keyspaces};

/// The first damaged file of the database in `dir`, as a clause for a message; `None` if all checksums match.
pub(crate) fn find(dir: &Path) -> Option<String> {
    let first =
        keyspaces(dir).ok()?.into_iter().find_map(|keyspace| damaged_in(&keyspace).into_iter().next());
    first.map(|path| format!("{} is {}", path.display(), if path.exists() { "damaged" } else { "missing" }))
}

/// All damaged or missing files of the keyspaces of the database in `dir`. Reads every file.
pub fn damaged_files(dir: &Path) -> Vec<PathBuf> {
    keyspaces(dir).unwrap_or_default().iter().flat_map(|keyspace| damaged_in(keyspace)).collect()
}

/// The damaged or missing files of one keyspace. Reads every file.
pub fn damaged_in(keyspace: &Path) -> Vec<PathBuf> {
    let current = manifest::current_path(keyspace);
    let Ok(bytes) = fs::read(&current) else {
        // The process may have died while it created the keyspace.
        let is_new = manifest::versions(keyspace).is_ok_and(|versions| versions.is_empty());
        return if is_new { Vec::new() } else { vec![current] };
    };
    let Some(named) = Current::parse(&bytes) else { return vec![current] };
    let path = keyspace.join(format!("v{}", named.version));
    let manifest = fs::read(&path).unwrap_or_default();
    let Some(tables) = manifest::tables(&manifest).filter(|_| named.fits(&manifest)) else {
        return vec![path];
    };
    let damaged = tables.iter().flatten().flatten().filter(|table| !manifest::is_table(keyspace, table));
    damaged.map(|table| manifest::table_path(keyspace, table.id)).collect()
}
