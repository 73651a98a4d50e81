//! Files that a command leaves in the data directory for the daemon: secrets, which must not be among the parameters
//! of a job, and content that only the command can read.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::config::Config;

/// A file that is removed when the command ends.
#[derive(Debug)]
pub(super) struct OwnFile(PathBuf);

impl OwnFile {
    /// Writes a file that only the user of the data directory can read.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn write(config: &Config, name: &str, mut content: impl Read) -> anyhow::Result<Self> {
        let directory = config.maintenance_dir();
        let path = std::path::absolute(directory.join(name))?;
        let mut write = || -> io::Result<()> {
            fs::create_dir_all(&directory)?;
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            io::copy(&mut content, &mut file)?;
            // A command that is run as root must leave the file to the daemon's user.
            let owner = fs::metadata(&config.data_dir)?;
            if owner.uid() != file.metadata()?.uid() {
                chown(&path, Some(owner.uid()), Some(owner.gid()))?;
            }
            Ok(())
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
