//! The fjall database underneath: opening, room on its disk, and what its errors mean.

use std::fs;
use std::io::{self, Write};
use std::panic::AssertUnwindSafe;
use std::path::Path;

use fjall::CompressionType;
use plumbago_store::{ErrorKind, StoreError};

use crate::log_end::LogEnds;
use crate::{Config, diagnosis};

const FORMAT_FILE: &str = "plumbago-format";
const FORMAT_NAME: &str = "plumbago-store";
const FORMAT_VERSION: u32 = 1;

/// With a second worker the first one spins while that compacts: a third more CPU for each point.
const WORKERS: usize = 1;
const LOG_BYTES_MAX: u64 = 256 << 20;

/// Opens or creates the database in `dir`.
pub(crate) fn open(dir: &Path, config: &Config) -> Result<fjall::Database, StoreError> {
    check_format(dir)?;
    clear_unfinished(dir).map_err(|error| io_error(format!("open {}", dir.display()), error))?;
    let builder = fjall::Database::builder(dir)
        .worker_threads(WORKERS)
        .cache_size(config.cache_bytes.0)
        .journal_compression(CompressionType::None)
        .max_journaling_size(LOG_BYTES_MAX);
    let ends = LogEnds::of(dir);
    // fjall panics on some damage to its files; for us that is an error like the others.
    let opened = std::panic::catch_unwind(AssertUnwindSafe(|| builder.open()));
    let database = match opened {
        Ok(result) => result.map_err(|error| open_error(dir, error))?,
        Err(_) => {
            let damaged = diagnosis::find(dir).unwrap_or_else(|| "its files do not fit together".to_owned());
            return Err(StoreError::new(ErrorKind::Corrupt, format!("open {}: {damaged}", dir.display())));
        }
    };
    for (file, bytes) in ends.cut() {
        tracing::warn!(
            file = %file.display(),
            bytes,
            "the end of a log could not be read and was cut off: a commit that a crash interrupted, whose points \
             the journal has, or damage"
        );
    }
    write_format(dir)?;
    Ok(database)
}

/// Refuses a directory that a newer version, or something else, has written.
fn check_format(dir: &Path) -> Result<(), StoreError> {
    let path = dir.join(FORMAT_FILE);
    let text = match fs::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(format!("read {}", path.display()), error)),
    };
    let version = text.strip_prefix(FORMAT_NAME).and_then(|rest| rest.trim().parse::<u32>().ok());
    let problem = match version {
        Some(FORMAT_VERSION) => return Ok(()),
        Some(version) => format!("it has format {version}, and this program reads {FORMAT_VERSION}"),
        None => format!("it holds {text:?}, not \"{FORMAT_NAME} {FORMAT_VERSION}\""),
    };
    Err(StoreError::new(ErrorKind::Invalid, format!("use {}: {problem}", path.display())))
}

fn write_format(dir: &Path) -> Result<(), StoreError> {
    let path = dir.join(FORMAT_FILE);
    if path.exists() {
        return Ok(());
    }
    let temporary = dir.join("plumbago-format.new");
    fs::File::create(&temporary)
        .and_then(|mut file| {
            writeln!(file, "{FORMAT_NAME} {FORMAT_VERSION}")?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, &path))
        .map_err(|error| io_error(format!("write {}", path.display()), error))
}

/// Removes what a process has left that was killed while it created the database, before there could
/// be anything in it: fjall would stumble over its own files.
fn clear_unfinished(dir: &Path) -> io::Result<()> {
    let version = dir.join("version");
    let finished = fs::metadata(&version).is_ok_and(|file| file.len() > 0);
    let keyspaces = fs::read_dir(dir.join("keyspaces")).map_or(0, Iterator::count);
    if finished || keyspaces > 0 {
        return Ok(());
    }
    for path in [version, dir.join("0.jnl")] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Bytes that may still be written to the disk of `dir`.
pub(crate) fn free_bytes(dir: &Path) -> io::Result<u64> {
    let disk = nix::sys::statvfs::statvfs(dir)?;
    Ok(disk.blocks_available() as u64 * disk.fragment_size() as u64)
}

fn open_error(dir: &Path, error: fjall::Error) -> StoreError {
    match error {
        fjall::Error::Locked => StoreError::new(
            ErrorKind::Unavailable,
            format!("open {}: it is in use by another process", dir.display()),
        ),
        fjall::Error::InvalidVersion(_) => {
            let path = dir.join("version");
            StoreError::with(ErrorKind::Invalid, format!("use {}: unknown format", path.display()), error)
        }
        fjall::Error::JournalRecovery(_) => {
            let operation = format!("open {}: its newest *.jnl file is damaged", dir.display());
            StoreError::with(ErrorKind::Corrupt, operation, error)
        }
        error => {
            let kind = kind_of(&error);
            let damaged = if kind == ErrorKind::Corrupt { diagnosis::find(dir) } else { None };
            let operation = match damaged {
                Some(damaged) => format!("open {}: {damaged}", dir.display()),
                None => format!("open {}", dir.display()),
            };
            StoreError::with(kind, operation, error)
        }
    }
}

/// An error of fjall's as one of ours.
pub(crate) fn error(operation: impl Into<String>, error: fjall::Error) -> StoreError {
    StoreError::with(kind_of(&error), operation, error)
}

pub(crate) fn io_error(operation: impl Into<String>, error: io::Error) -> StoreError {
    StoreError::with(io_kind(&error), operation, error)
}

/// True when the disk says that it cannot give the data back.
pub(crate) fn is_lost(error: &StoreError) -> bool {
    use fjall::{Error, LsmError};
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<Error>());
    matches!(cause, Some(Error::Io(io) | Error::Storage(LsmError::Io(io)))
        if io.raw_os_error() == Some(nix::errno::Errno::EIO as i32))
}

fn kind_of(error: &fjall::Error) -> ErrorKind {
    use fjall::{Error, LsmError};
    match error {
        Error::Io(error) | Error::Storage(LsmError::Io(error)) => io_kind(error),
        // It takes writes again once it is opened anew.
        Error::Poisoned => ErrorKind::Unavailable,
        Error::Storage(_)
        | Error::JournalRecovery(_)
        | Error::Decompress(_)
        | Error::InvalidTrailer
        | Error::InvalidTag(_)
        | Error::Unrecoverable => ErrorKind::Corrupt,
        _ => ErrorKind::Internal,
    }
}

fn io_kind(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            ErrorKind::Corrupt
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Invalid,
        // No room, or a disk that refuses for now.
        _ => ErrorKind::Unavailable,
    }
}
