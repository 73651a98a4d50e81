//! The newest write-ahead log of a database: it is rewritten before the database is opened, and checked
//! afterwards for data that fjall has cut off.
//!
//! After a failed fsync the kernel can mark pages as clean that never reached the disk. A later fsync then
//! reports success without writing them. A process that opens the log reads those pages from the kernel's
//! cache and cannot detect this. So the newest log is overwritten with its own content and synced before the
//! database is opened. Older logs were synced when they were sealed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::bytes::data_len;

const CHUNK: usize = 64 << 10;

/// The log files in `dir`, oldest first.
pub(crate) fn logs(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if let Some(number) = log_number(&path) {
            logs.push((number, path));
        }
    }
    logs.sort_unstable();
    Ok(logs.into_iter().map(|(_, path)| path).collect())
}

/// The number of a log file. `None` if the path is not that of a log.
pub(crate) fn log_number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.strip_suffix(".jnl")?.parse().ok()
}

/// Overwrites the newest log in `dir` with its own content and syncs it.
pub(crate) fn write_anew(dir: &Path) -> io::Result<()> {
    let logs = match logs(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        logs => logs?,
    };
    let Some(path) = logs.last() else { return Ok(()) };
    let end = end_of_data(path)?;
    if end == 0 {
        return Ok(());
    }
    let file = File::options().read(true).write(true).open(path)?;
    let mut chunk = vec![0; CHUNK];
    let mut at = 0;
    while at < end {
        let part = &mut chunk[..(end - at).min(CHUNK as u64) as usize];
        file.read_exact_at(part, at)?;
        file.write_all_at(part, at)?;
        at += part.len() as u64;
    }
    file.sync_all()
}

/// The end of the data in each log before fjall opens the log. fjall treats data that it cannot read as the
/// end of a log, cuts the log there and does not report this.
pub(crate) struct LogEnds(Vec<(PathBuf, u64)>);

impl LogEnds {
    /// Reads the logs in `dir`. Leaves out logs that cannot be read, because opening the database will fail.
    pub(crate) fn of(dir: &Path) -> Self {
        let logs = logs(dir).unwrap_or_default();
        Self(logs.into_iter().filter_map(|path| Some((path.clone(), end_of_data(&path).ok()?))).collect())
    }

    /// The logs that are now shorter than their data was, each with the number of bytes cut off.
    pub(crate) fn cut(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.0.iter().filter_map(|(path, end)| {
            let left = fs::metadata(path).ok()?.len();
            (left < *end).then(|| (path.as_path(), end - left))
        })
    }
}

/// Byte offset of the end of a log's data. fjall allocates logs in advance, so zeros follow.
pub(crate) fn end_of_data(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut chunk = vec![0; CHUNK];
    while end > 0 {
        let start = end.saturating_sub(CHUNK as u64);
        let part = &mut chunk[..(end - start) as usize];
        file.read_exact_at(part, start)?;
        let len = data_len(part);
        if len > 0 {
            return Ok(start + len as u64);
        }
        end = start;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_no_data_and_a_cut_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("7.jnl");
        let mut bytes = vec![1; 100_000];
        bytes.resize(300_000, 0);
        fs::write(&path, &bytes).unwrap();
        fs::write(dir.path().join("version"), [1]).unwrap();
        let ends = LogEnds::of(dir.path());
        assert_eq!(ends.cut().count(), 0);
        File::options().write(true).open(&path).unwrap().set_len(100_000).unwrap();
        assert_eq!(ends.cut().count(), 0);
        File::options().write(true).open(&path).unwrap().set_len(60_000).unwrap();
        assert_eq!(ends.cut().collect::<Vec<_>>(), [(path.as_path(), 40_000)]);
        fs::remove_file(&path).unwrap();
        assert_eq!(ends.cut().count(), 0, "a log that is not needed any more");
    }

    #[test]
    fn a_log_written_anew_keeps_its_content() {
        let dir = tempfile::tempdir().unwrap();
        write_anew(&dir.path().join("missing")).unwrap();
        write_anew(dir.path()).unwrap();
        let mut bytes: Vec<u8> = (0..200_001_u32).map(|n| n as u8 | 1).collect();
        bytes.resize(300_000, 0);
        for name in ["9.jnl", "10.jnl", "10.jnl.torn-1"] {
            fs::write(dir.path().join(name), &bytes).unwrap();
        }
        write_anew(dir.path()).unwrap();
        assert_eq!(fs::read(dir.path().join("10.jnl")).unwrap(), bytes);
        assert_eq!(logs(dir.path()).unwrap().len(), 2);
    }
}
