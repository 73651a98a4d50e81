//! The number of the newest commit that is known to be synced, in the file `synced`. If the database has
//! fewer commits, its log has lost some: a truncated log looks like one that was never longer.
//!
//! The file is written after each sync but is not synced itself, so its number may be too low, but never too
//! high.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const FILE: &str = "synced";

/// Records that all commits up to this number are synced. A failure is ignored, because the next sync records
/// it again.
pub(crate) fn note(dir: &Path, commit: u64) {
    let text = format(commit);
    let file = File::options().write(true).create(true).truncate(false).open(dir.join(FILE));
    let _ = file.and_then(|file| file.write_all_at(text.as_bytes(), 0));
}

/// The recorded number; 0 if there is none or it cannot be read.
pub(crate) fn read(dir: &Path) -> u64 {
    std::fs::read_to_string(dir.join(FILE)).ok().and_then(|text| parse(&text)).unwrap_or(0)
}

fn format(commit: u64) -> String {
    format!("{commit:020} {:08x}\n", crc32fast::hash(&commit.to_le_bytes()))
}

fn parse(text: &str) -> Option<u64> {
    let (commit, crc) = text.trim_end().split_once(' ')?;
    let commit: u64 = commit.parse().ok()?;
    (u32::from_str_radix(crc, 16).ok()? == crc32fast::hash(&commit.to_le_bytes())).then_some(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_back_or_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read(dir.path()), 0);
        for commit in [7, 1 << 40, 3] {
            note(dir.path(), commit);
            assert_eq!(read(dir.path()), commit);
        }
        assert_eq!(parse("00000000000000000004 00000000"), None);
    }
}
