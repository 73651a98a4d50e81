//! Backups of a data directory: of a running or a stopped daemon. A backup directory has several generations,
//! which share files. Generations can be verified and restored. `docs/formats/backup.md` describes the
//! directory, `docs/decisions/backup.md` the reasons.
//!
//! Works on files only. [`DataFiles`], which the binary implements, says which files belong to the same
//! moment. Start at [`take::take`] and [`restore::restore`].

pub mod directory;
pub mod manifest;
pub mod restore;
pub mod take;

mod copy;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

pub use directory::Directory;
pub use manifest::{Entry, Generation};

/// The files of a data directory.
pub trait DataFiles: Send + Sync + Debug {
    /// The data directory.
    fn dir(&self) -> &Path;

    /// Number of bytes that must stay free on the disk of the data directory, so that the journal and the
    /// store can continue.
    fn min_free_bytes(&self) -> u64;

    /// Holds the files as they are now. They contain everything that was in the journal when the call began.
    /// Blocks for a moment.
    ///
    /// # Errors
    ///
    /// If the files cannot be held, or are already held.
    fn hold(&self) -> Result<Held, BackupError>;
}

/// Files that do not change until this is dropped.
pub struct Held {
    /// All files that a backup has to copy.
    pub files: Vec<HeldFile>,
    /// The data directory.
    pub dir: PathBuf,
    /// Number of metrics, if it is known.
    pub metrics: Option<u64>,
    /// The store: `embedded` or `cassandra`.
    pub store: String,
    /// Number of bytes that must stay free on the disk of the data directory.
    pub min_free_bytes: u64,
    /// Ends the hold when it is dropped.
    pub guard: Box<dyn Send>,
}

/// A file that a backup preserves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldFile {
    /// The path in the data directory.
    pub name: PathBuf,
    /// The path at which its content can be read.
    pub at: PathBuf,
    /// The number of its bytes that existed at the moment of the backup.
    pub bytes: u64,
    /// The XXH3 checksum that the content has if it is not damaged.
    pub xxh3: Option<u128>,
}

/// Why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The parameters cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// There is no such generation.
    #[error("{0}")]
    NotFound(String),
    /// Another process uses the directory, or another run holds the files.
    #[error("{0}")]
    Taken(String),
    /// A disk has too little free space.
    #[error(
        "the disk of {} is full: {needed_bytes} bytes are needed and {free_bytes} are free. {next}",
        path.display()
    )]
    DiskFull {
        /// The path to which something was to be written.
        path: PathBuf,
        /// Number of bytes that are still to be written, plus the bytes that must stay free.
        needed_bytes: u64,
        /// Number of bytes that are free.
        free_bytes: u64,
        /// What the user can do.
        next: String,
    },
    /// Files of the backup are damaged or missing.
    #[error(
        "{} of the backup are damaged: {}. Other generations may not need them. The next backup does not notice the \
         damage. Remove these files, and the next backup copies them again, if the data directory still has them",
        count(.0.len()),
        listed(.0)
    )]
    Damaged(Vec<String>),
    /// The run was cancelled.
    #[error("cancelled; the next run uses the files that are copied already")]
    Cancelled,
    /// Files cannot be read or written.
    #[error("cannot {operation} {}: {cause}", path.display())]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        cause: io::Error,
    },
    /// The store or the journal cannot hold its files.
    #[error("cannot keep the files of the data directory in place for the backup: {0}")]
    Hold(String),
}

fn count(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

/// The first ten texts of a list in one line, with an ellipsis if there are more.
fn listed(files: &[String]) -> String {
    const SHOWN: usize = 10;
    let mut text = files.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("; ");
    if files.len() > SHOWN {
        text.push_str("; …");
    }
    text
}

/// Makes an error for an operation on a path.
pub(crate) fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    move |cause| BackupError::Io { operation, path: path.to_owned(), cause }
}
