//! The file that states the format of a database directory.

use std::io::{self, Write};
use std::path::Path;

use crate::HostError;

const FILE: &str = "plumbago-format";
const VERSION: u32 = 1;

/// Checks the format file. A directory without one is new.
///
/// # Errors
///
/// [`HostError::Format`] if another version has written the directory, [`HostError::Corrupt`] if the file says
/// something else, [`HostError::Failed`] if
/// the file cannot be read.
pub(crate) fn check(dir: &Path, name: &str) -> Result<(), HostError> {
    let path = dir.join(FILE);
    let text = match std::fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(HostError::failed(format!("read {}", path.display()), error)),
    };
    let version = text.strip_prefix(name).and_then(|rest| rest.trim_start().parse::<u32>().ok());
    match version {
        Some(VERSION) => Ok(()),
        Some(_) => {
            let found = format!(
                "{text:?}; it reads version {VERSION}. Start the version of Plumbago that wrote the directory. If that is this \
                 one, the file is damaged: restore it from a backup or write the line \"{name} {VERSION}\" into it"
            );
            Err(HostError::Format { path, found })
        }
        None => {
            let reason = format!(
                "it says {text:?}. If the directory is of this version of Plumbago, restore the file from a backup or \
                 write the line \"{name} {VERSION}\" into it; nothing was changed"
            );
            Err(HostError::Corrupt { path, reason })
        }
    }
}

/// Writes the file if it is missing.
///
/// # Errors
///
/// [`HostError::Failed`] if the file cannot be written.
pub(crate) fn write(dir: &Path, name: &str) -> Result<(), HostError> {
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
    written.map_err(|error| HostError::failed(format!("write {}", path.display()), error))
}
