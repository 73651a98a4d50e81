//! The file that states the format of the journal's directory.

use std::io::{self, Write};
use std::path::Path;

use crate::JournalError;

const FILE: &str = "plumbago-format";

/// The format's name in that file.
pub(crate) const JOURNAL: &str = "plumbago-journal";

/// The version stated in the file. `None` if there is no file.
///
/// # Errors
///
/// `Corrupt` if the file states another format, `Failed` if it cannot be read.
pub(crate) fn version(dir: &Path, name: &str) -> Result<Option<u32>, JournalError> {
    let path = dir.join(FILE);
    let text = match std::fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(JournalError::failed(format!("read {}", path.display()), error)),
    };
    let version = text.strip_prefix(name).and_then(|rest| rest.trim_start().parse().ok());
    version
        .map(Some)
        .ok_or_else(|| JournalError::Corrupt {
            reason: format!(
                "it says {text:?}. If the directory is of this version of Plumbago, restore the file from a backup or \
                 write the line \"{name} 2\" into it; nothing was changed"
            ),
            path,
        })
}

/// The error for a version newer than `known`, the newest one that can be read.
pub(crate) fn unknown(dir: &Path, name: &str, found: u32, known: u32) -> JournalError {
    JournalError::Format {
        path: dir.join(FILE),
        found: format!(
            "\"{name} {found}\"; it reads at most version {known}. Start the version of Plumbago that wrote the directory. \
             If that is this one, the file is damaged: restore it from a backup or write the line \"{name} {known}\" into it"
        ),
    }
}

/// Writes or replaces the file. The change survives power loss once this returns.
///
/// # Errors
///
/// `Failed` if the file cannot be written, renamed or synced.
pub(crate) fn write_version(dir: &Path, name: &str, version: u32) -> Result<(), JournalError> {
    let path = dir.join(FILE);
    let temporary = dir.join("plumbago-format.new");
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(format!("{name} {version}\n").as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| std::fs::rename(&temporary, &path))
        .and_then(|()| std::fs::File::open(dir)?.sync_all());
    written.map_err(|error| JournalError::failed(format!("write {}", path.display()), error))
}
