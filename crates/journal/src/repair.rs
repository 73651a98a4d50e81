//! What a crash can leave behind that fjall does not open by itself.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::JournalError;

const PAGE: usize = 4096;

/// A log file that was cut at a hole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The log file.
    pub file: PathBuf,
    /// Where its data was copied to before.
    pub copy: PathBuf,
    /// Bytes that were kept.
    pub kept_bytes: u64,
    /// Bytes that were cut off: frames or batches that had not been synced.
    pub cut_bytes: u64,
}

/// Cuts the newest log file of the fjall database in `dir` at its first hole: a page of zeros with
/// data behind it.
///
/// After power loss the kernel may have written a later page of the log and not an earlier one. What
/// was synced lies before the hole, so the cut loses nothing that had been promised. Only for a
/// database that fjall refused to open; the file is copied aside first.
pub fn repair(dir: &Path) -> Result<Repair, JournalError> {
    let _lock = lock_database(dir)?;
    let corrupt = |path: &Path, reason: &str| {
        Err(JournalError::Corrupt { path: path.to_owned(), reason: reason.to_owned() })
    };
    let Some(file) = newest_log(dir).map_err(|error| failed("list", dir, error))? else {
        return corrupt(dir, "it has no log file");
    };
    let Some((kept_bytes, end)) = find_hole(&file).map_err(|error| failed("read", &file, error))? else {
        return corrupt(&file, "its checksum is wrong, and it has no hole at which it could be cut");
    };
    let copy = free_name(&file);
    copy_start(&file, end, &copy).map_err(|error| failed("copy", &file, error))?;
    cut(&file, kept_bytes).map_err(|error| failed("cut", &file, error))?;
    let cut_bytes = end - kept_bytes;
    tracing::warn!(
        file = %file.display(), copy = %copy.display(), kept_bytes, cut_bytes,
        "a log file had a hole, as power loss leaves it; it was copied aside and cut there"
    );
    Ok(Repair { file, copy, kept_bytes, cut_bytes })
}

/// Removes what a process has left that was killed while it created the database, before there
/// could be anything in it: fjall would stumble over its own files.
pub(crate) fn clear_unfinished(dir: &Path) -> Result<(), JournalError> {
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
    tracing::warn!(dir = %dir.display(), "finished a creation that was interrupted");
    Ok(())
}

/// The lock that fjall takes, so that no other process is at work in the directory.
fn lock_database(dir: &Path) -> Result<Option<File>, JournalError> {
    let path = dir.join("lock");
    let file = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", &path, error)),
    };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(fs::TryLockError::WouldBlock) => Err(JournalError::Locked { path: dir.to_owned() }),
        Err(fs::TryLockError::Error(error)) => Err(failed("lock", &path, error)),
    }
}

fn newest_log(dir: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.strip_suffix(".jnl").and_then(|number| number.parse().ok());
        if let Some(number) = number
            && newest.as_ref().is_none_or(|(other, _)| *other < number)
        {
            newest = Some((number, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// Where the first page of zeros starts that has data behind it, and where that data ends. fjall
/// makes its files longer than their content, so zeros at the end are no hole.
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

/// Copies the first `len` bytes; the zeros that fjall has put behind them need no room.
fn copy_start(from: &Path, len: u64, to: &Path) -> io::Result<()> {
    let mut copy = File::create_new(to)?;
    io::copy(&mut File::open(from)?.take(len), &mut copy)?;
    copy.sync_all()
}

fn cut(path: &Path, len: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(len)?;
    file.sync_all()
}

/// A name beside the file that fjall does not take for a log.
fn free_name(file: &Path) -> PathBuf {
    let mut number = 1;
    loop {
        let path = file.with_extension(format!("jnl.torn-{number}"));
        if !path.exists() {
            return path;
        }
        number += 1;
    }
}

fn failed(what: &str, path: &Path, error: io::Error) -> JournalError {
    JournalError::failed(format!("{what} {}", path.display()), error)
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
        assert!(matches!(&error, JournalError::Corrupt { path: named, .. } if *named == path), "{error}");
        assert_eq!(fs::metadata(&path).unwrap().len(), 4 * PAGE as u64);
    }
}
