//! Replaces a file as a whole, so that neither a kill nor a power cut leaves half of it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Writes a new file, syncs it, and renames it to the name of the old one.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    write(&mut file)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    if let Some(dir) = path.parent() {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}
