//! The list of log files, in the file `files`. It has a line for each log file, with its name and the offset
//! up to which it is synced, and the CRC-32 of these lines. Without the list, a file that is missing or has
//! lost its end would not be noticed.
//!
//! It is written only after the data is synced, and is not synced itself. So after a crash it may list too little, but
//! never too much. A list that cannot be read counts as empty.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::files::{FileId, LogFile};

const FILE: &str = "files";

/// The files and their synced ends, as listed. Empty if there is no list or it is damaged.
pub(crate) fn read(dir: &Path) -> BTreeMap<FileId, u64> {
    std::fs::read_to_string(dir.join(FILE)).ok().and_then(|text| parse(&text)).unwrap_or_default()
}

fn parse(text: &str) -> Option<BTreeMap<FileId, u64>> {
    let (lines, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    if crc.len() != 8 || u32::from_str_radix(crc, 16).ok()? != crc32fast::hash(lines.as_bytes()) {
        return None;
    }
    let parse = |line: &str| {
        let (name, end) = line.split_once(' ')?;
        Some((FileId::parse(name)?, end.parse().ok()?))
    };
    lines.lines().map(parse).collect()
}

fn format<'a>(files: impl Iterator<Item = (FileId, u64)> + 'a) -> String {
    let lines: Vec<String> = files.map(|(id, end)| format!("{} {end}", id.name())).collect();
    let lines = lines.join("\n");
    format!("{lines}\n{:08x}\n", crc32fast::hash(lines.as_bytes()))
}

/// Writes the list. A failure is ignored: the next write replaces it.
pub(crate) fn write(dir: &Path, files: &BTreeMap<FileId, LogFile>) {
    let text = format(files.iter().map(|(id, file)| (*id, file.synced.min(file.end))));
    let _ = overwrite(&dir.join(FILE), text.as_bytes());
}

fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = File::options().write(true).create(true).truncate(false).open(path)?;
    file.write_all_at(bytes, 0)?;
    file.set_len(bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_back_or_says_nothing() {
        let files = [(5, 1, 4096), (5, 2, 0), (6, 1, 77)];
        let files: BTreeMap<FileId, u64> =
            files.into_iter().map(|(segment, part, end)| (FileId { segment, part }, end)).collect();
        let text = format(files.clone().into_iter());
        assert_eq!(parse(&text), Some(files));
        assert_eq!(parse(&format(std::iter::empty())), Some(BTreeMap::new()));
        for at in 0..text.len() - 1 {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            let read = parse(&String::from_utf8_lossy(&damaged));
            assert!(read.is_none(), "byte {at}: {read:?}");
            assert_eq!(parse(&text[..at]), None, "{at} bytes");
        }
    }
}
