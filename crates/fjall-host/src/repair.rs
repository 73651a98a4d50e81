//! Repairs what a crash can leave behind and fjall itself cannot open.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::HostError;
use crate::file_lock::FileLock;
use crate::log::logs;

/// The unit in which the kernel writes to the disk.
pub(crate) const PAGE: usize = 4096;

/// How a log file was repaired: it was cut at a hole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// Path of the log file.
    pub file: PathBuf,
    /// Path of the copy of the file's data, which was made before the cut.
    pub copy: PathBuf,
    /// Size of the log file after the cut, in bytes.
    pub kept_bytes: u64,
    /// Number of bytes that were cut off. None of them had been synced.
    pub cut_bytes: u64,
}

/// Cuts the newest log of the database in `dir` at its first hole: a page of zeros that is followed by data.
///
/// When power is lost, a later page of the log may have reached the disk and an earlier one not. All synced
/// data lies before such a hole, so the cut loses no acknowledged sync. The file is copied first. Use this
/// only for a database that fjall refused to open.
///
/// # Errors
///
/// [`HostError::Locked`] if another process uses the database, [`HostError::Corrupt`] if it has no log file
/// or the log has no hole, [`HostError::Failed`] if a file cannot be read, copied or cut.
pub(crate) fn repair(dir: &Path) -> Result<Repair, HostError> {
    let _lock = lock_database(dir)?;
    let corrupt = |path: &Path, reason: &str| {
        Err(HostError::Corrupt { path: path.to_owned(), reason: reason.to_owned() })
    };
    let Some(file) = logs(dir).map_err(|error| failed("list", dir, error))?.pop() else {
        return corrupt(dir, "it has no log file");
    };
    let Some((kept_bytes, end)) = find_hole(&file).map_err(|error| failed("read", &file, error))? else {
        return corrupt(&file, "its checksum is wrong, and it has no hole at which it could be cut");
    };
    let copy = free_name(&file, "torn");
    copy_start(&file, end, &copy).map_err(|error| failed("copy", &file, error))?;
    cut(&file, kept_bytes).map_err(|error| failed("cut", &file, error))?;
    let cut_bytes = end - kept_bytes;
    tracing::warn!(
        file = %file.display(), copy = %copy.display(), kept_bytes, cut_bytes,
        "a log file had a hole, which power loss can cause; the file was copied and then cut at the hole"
    );
    Ok(Repair { file, copy, kept_bytes, cut_bytes })
}

/// Removes the files of a database whose creation was interrupted by a crash. Such a database holds no data
/// yet, and fjall would refuse to open it.
pub(crate) fn clear_unfinished(dir: &Path) -> Result<(), HostError> {
    let version = dir.join("version");
    let log = dir.join("0.jnl");
    let finished = fs::metadata(&version).is_ok_and(|file| file.len() > 0);
    let keyspaces = fs::read_dir(dir.join("keyspaces")).map_or(0, Iterator::count);
    if finished || keyspaces > 0 || !(log.exists() || version.exists()) {
        return Ok(());
    }
    let _lock = lock_database(dir)?;
    for path in [&version, &log] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", path, error));
            }
            _ => {}
        }
    }
    tracing::warn!(dir = %dir.display(), "removed the files of a database whose creation was interrupted");
    Ok(())
}

/// Takes fjall's lock on the directory, which keeps other processes out. Returns `None` if there is no lock
/// file yet.
pub(crate) fn lock_database(dir: &Path) -> Result<Option<FileLock>, HostError> {
    let path = dir.join("lock");
    let file = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", &path, error)),
    };
    match FileLock::try_new(file) {
        Ok(lock) => Ok(Some(lock)),
        Err(fs::TryLockError::WouldBlock) => Err(HostError::Locked { path: dir.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(failed("lock", &path, error)),
    }
}

/// Returns the offset of the first page of zeros that is followed by data, and the offset at which the data
/// ends. Zeros at the end of the file do not count as a hole, because fjall allocates logs in advance.
fn find_hole(path: &Path) -> io::Result<Option<(u64, u64)>> {
    let mut file = io::BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut page = Vec::with_capacity(PAGE);
    let mut at = 0;
    let mut hole = None;
    let mut data_end = 0;
    loop {
        page.clear();
        let read = file.by_ref().take(PAGE as u64).read_to_end(&mut page)?;
        if read == 0 {
            return Ok(hole.filter(|start| *start < data_end).map(|start| (start, data_end)));
        }
        if page.iter().any(|byte| *byte != 0) {
            data_end = at + read as u64;
        } else if hole.is_none() {
            hole = Some(at);
        }
        at += read as u64;
    }
}

/// Copies the first `len` bytes of a file and syncs the copy.
fn copy_start(from: &Path, len: u64, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?.take(len);
    let mut copy = File::create_new(to)?;
    let copied = io::copy(&mut source, &mut copy).and_then(|_| copy.sync_all());
    whole_or_none(to, copied)
}

/// Removes the file at `path` if `written` says that it could not be written completely. Otherwise each start
/// on a full disk would leave another incomplete copy.
pub(crate) fn whole_or_none(path: &Path, written: io::Result<()>) -> io::Result<()> {
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

fn cut(path: &Path, len: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(len)?;
    file.sync_all()
}

/// An unused path in the same directory, with the reason for the copy in it. fjall does not treat a file with
/// this name as a log.
pub(crate) fn free_name(file: &Path, why: &str) -> PathBuf {
    let mut number = 1;
    loop {
        let path = file.with_extension(format!("jnl.{why}-{number}"));
        if !path.exists() {
            return path;
        }
        number += 1;
    }
}

fn failed(what: &str, path: &Path, error: io::Error) -> HostError {
    HostError::failed(format!("{what} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(dir: &Path, kinds: &str) -> PathBuf {
        let path = dir.join("7.jnl");
        let bytes: Vec<u8> =
            kinds.bytes().flat_map(|kind| [if kind == b'0' { 0 } else { kind }; PAGE]).collect();
        fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn a_hole_has_data_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        for (kinds, hole) in [
            ("", None),
            ("xx", None),
            ("xx00", None),
            ("0000", None),
            ("xx0x", Some((2, 4))),
            ("x0x0x00", Some((1, 5))),
            ("0x0", Some((0, 2))),
        ] {
            let path = pages(dir.path(), kinds);
            let page = PAGE as u64;
            let expected = hole.map(|(start, end)| (start * page, end * page));
            assert_eq!(find_hole(&path).unwrap(), expected, "{kinds}");
        }
    }

    #[test]
    fn the_newest_log_is_cut_and_copied_aside() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("10.jnl"), [[1; PAGE], [0; PAGE], [2; PAGE]].concat()).unwrap();
        fs::write(dir.path().join("9.jnl"), [3; 10]).unwrap();
        for copy in ["10.jnl.torn-1", "10.jnl.torn-2"] {
            let done = repair(dir.path()).unwrap();
            assert_eq!(done.file, dir.path().join("10.jnl"));
            assert_eq!(done.copy, dir.path().join(copy));
            assert_eq!((done.kept_bytes, done.cut_bytes), (PAGE as u64, 2 * PAGE as u64));
            assert_eq!(fs::metadata(&done.file).unwrap().len(), PAGE as u64);
            fs::copy(&done.copy, &done.file).unwrap();
        }
    }

    #[test]
    fn without_a_hole_nothing_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = pages(dir.path(), "xy00");
        let error = repair(dir.path()).unwrap_err();
        assert!(matches!(&error, HostError::Corrupt { path: named, .. } if *named == path), "{error}");
        assert_eq!(fs::metadata(&path).unwrap().len(), 4 * PAGE as u64);
    }
}
