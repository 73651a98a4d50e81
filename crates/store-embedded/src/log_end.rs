//! What fjall cuts off its write-ahead logs: it takes whatever it cannot read for the end, and does not
//! say so.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const CHUNK: usize = 64 << 10;

/// How far each log had data before fjall opened it.
pub(crate) struct LogEnds(Vec<(PathBuf, u64)>);

impl LogEnds {
    /// Looks at the logs in `dir`; what cannot be looked at is for fjall to complain of.
    pub(crate) fn of(dir: &Path) -> Self {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let logs =
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "jnl"));
        Self(logs.filter_map(|path| Some((path.clone(), end_of_data(&path).ok()?))).collect())
    }

    /// The logs that are shorter now than their data was, and by how many bytes.
    pub(crate) fn cut(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.0.iter().filter_map(|(path, end)| {
            let left = fs::metadata(path).ok()?.len();
            (left < *end).then(|| (path.as_path(), end - left))
        })
    }
}

/// Logs are laid out in advance: zeros follow what is used.
fn end_of_data(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut chunk = vec![0; CHUNK];
    while end > 0 {
        let start = end.saturating_sub(CHUNK as u64);
        let part = &mut chunk[..(end - start) as usize];
        file.read_exact_at(part, start)?;
        if let Some(last) = part.iter().rposition(|byte| *byte != 0) {
            return Ok(start + last as u64 + 1);
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
}
