//! The file that says which format a directory has: the journal's or the spool's.

use std::io::{self, Write};
use std::path::Path;

use crate::JournalError;

const FILE: &str = "plumbago-format";
const VERSION: u32 = 1;

/// What the journal's file says.
pub(crate) const JOURNAL: &str = "plumbago-journal";
/// What the spool's file says.
pub(crate) const SPOOL: &str = "plumbago-spool";

/// Refuses a directory that a newer version, or something else, has written. One without the file
/// is new.
pub(crate) fn check(dir: &Path, name: &str) -> Result<(), JournalError> {
    let path = dir.join(FILE);
    let text = match std::fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(JournalError::failed(format!("read {}", path.display()), error)),
    };
    let version = text.strip_prefix(name).and_then(|rest| rest.trim_start().parse::<u32>().ok());
    match version {
        Some(VERSION) => Ok(()),
        _ => Err(JournalError::Format { path, found: format!("{text:?}, not \"{name} {VERSION}\"") }),
    }
}

/// Writes the file where it is missing.
pub(crate) fn write(dir: &Path, name: &str) -> Result<(), JournalError> {
    let path = dir.join(FILE);
    if path.exists() {
        return Ok(());
    }
    let temporary = dir.join("plumbago-format.new");
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(format!("{name} {VERSION}\n").as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&temporary, &path));
    written.map_err(|error| JournalError::failed(format!("write {}", path.display()), error))
}
