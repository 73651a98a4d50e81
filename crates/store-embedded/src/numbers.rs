//! A second copy of the metrics' numbers in the journal, in the file `numbers`. The state rows have them too. But if
//! the state row of a metric is damaged, only this copy tells which points of the journal belong to the metric.
//!
//! The file is the line `plumbago-numbers 1`, then groups of up to 4096 entries (u32 number, 16-byte id,
//! little-endian), each group followed by its CRC-32. It is written at a start if the number of metrics changed.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use plumbago_model::MetricId;

const FILE: &str = "numbers";
const TITLE: &[u8] = b"plumbago-numbers 1\n";
const ENTRY_BYTES: usize = 20;
const GROUP: usize = 4096;
const CRC_BYTES: usize = 4;

/// Writes the file, unless it has as many entries already.
///
/// # Errors
/// If the file cannot be written. The old file stays.
pub(crate) fn write(
    dir: &Path,
    count: usize,
    entries: &mut dyn Iterator<Item = (u32, MetricId)>,
) -> io::Result<()> {
    let path = dir.join(FILE);
    let bytes = TITLE.len() + count * ENTRY_BYTES + count.div_ceil(GROUP) * CRC_BYTES;
    if fs::metadata(&path).is_ok_and(|file| file.len() == bytes as u64) {
        return Ok(());
    }
    let new = dir.join("numbers.new");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&new)?);
    file.write_all(TITLE)?;
    let mut group = Vec::with_capacity(GROUP * ENTRY_BYTES);
    for (number, id) in entries {
        group.extend_from_slice(&number.to_le_bytes());
        group.extend_from_slice(&id.0);
        if group.len() == GROUP * ENTRY_BYTES {
            write_group(&mut file, &mut group)?;
        }
    }
    if !group.is_empty() {
        write_group(&mut file, &mut group)?;
    }
    file.flush()?;
    fs::rename(&new, &path)
}

fn write_group(file: &mut impl Write, group: &mut Vec<u8>) -> io::Result<()> {
    let crc = crc32fast::hash(group);
    file.write_all(group)?;
    file.write_all(&crc.to_le_bytes())?;
    group.clear();
    Ok(())
}

/// Visits the entries. Damaged groups are skipped; without a file there are none.
pub(crate) fn read(dir: &Path, visit: &mut dyn FnMut(u32, MetricId)) {
    let Ok(file) = File::open(dir.join(FILE)) else { return };
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut title = [0; TITLE.len()];
    if file.read_exact(&mut title).is_err() || title != TITLE {
        return;
    }
    let mut group = Vec::new();
    loop {
        group.clear();
        let most = (GROUP * ENTRY_BYTES + CRC_BYTES) as u64;
        match file.by_ref().take(most).read_to_end(&mut group) {
            Ok(len) if len > CRC_BYTES => {}
            _ => return,
        }
        let Some((entries, crc)) = group.split_last_chunk::<CRC_BYTES>() else { return };
        if crc32fast::hash(entries) != u32::from_le_bytes(*crc) {
            continue;
        }
        for entry in entries.chunks_exact(ENTRY_BYTES) {
            let Some((number, id)) = entry.split_first_chunk::<4>() else { continue };
            let Ok(id) = <[u8; 16]>::try_from(id) else { continue };
            visit(u32::from_le_bytes(*number), MetricId(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(dir: &Path) -> Vec<(u32, MetricId)> {
        let mut found = Vec::new();
        read(dir, &mut |number, id| found.push((number, id)));
        found
    }

    #[test]
    fn entries_are_read_back_and_damaged_groups_skipped() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(all(dir.path()), []);
        for count in [0, 1, 4096, 10_000_u32] {
            let entries: Vec<_> =
                (0..count).map(|n| (n + 1, MetricId(u128::from(n).to_be_bytes()))).collect();
            write(dir.path(), entries.len(), &mut entries.iter().copied()).unwrap();
            assert_eq!(all(dir.path()), entries);
        }
        let mut bytes = fs::read(dir.path().join(FILE)).unwrap();
        bytes[100_000] ^= 1;
        fs::write(dir.path().join(FILE), bytes).unwrap();
        let found = all(dir.path());
        assert_eq!(found.len(), 10_000 - 4096);
        assert!(found.iter().all(|(number, _)| *number <= 4096 || *number > 8192));
    }
}
