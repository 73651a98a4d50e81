//! Reads fjall's write-ahead logs without fjall: finds damaged batches that are followed by intact ones, and
//! removes them.
//!
//! fjall treats the first bytes that it cannot read as the end of the log, and cuts off everything from there
//! on. An unfinished commit at the end is a normal result of a crash. Damage before intact batches is not.
//!
//! A batch is a start (`1`, u32 items, u64 sequence number), its items (`2`: u8 type, u8 compression, u64 keyspace,
//! u16 key length, u32 and u32 value lengths, key, value; `4`: u64 keyspace), and an end (`3`, u64 XXH3 of the
//! items, `FJL` and 3). All numbers are little-endian.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use crate::bytes::{data_len, take, take_u32, take_u64};
use crate::check::Mended;
use crate::repair::{PAGE, free_name, whole_or_none};

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;
const MAGIC: &[u8] = b"FJL\x03";

/// A damaged part of a log that is followed by intact batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Byte offset of the first damaged batch.
    pub(crate) from: usize,
    /// Byte offset of the next intact batch.
    pub(crate) to: usize,
    /// The number of rows in the damaged batches, as far as their starts can be read.
    pub(crate) rows: u64,
}

/// The data that was removed from a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TakenOut {
    pub(crate) file: PathBuf,
    /// The path of a copy of the original log.
    pub(crate) copy: PathBuf,
    pub(crate) gaps: Vec<Gap>,
}

impl TakenOut {
    pub(crate) fn describe(self) -> Mended {
        let rows: u64 = self.gaps.iter().map(|gap| gap.rows).sum();
        let bytes: usize = self.gaps.iter().map(|gap| gap.to - gap.from).sum();
        let text = format!(
            "{} damaged places of this log, the first at byte {}, were removed: about {rows} rows ({bytes} \
             bytes) are \
             lost unless the journal still has them. {} is a copy of the whole log, which may be removed",
            self.gaps.len(),
            self.gaps.first().map_or(0, |gap| gap.from),
            self.copy.display()
        );
        Mended { path: self.file, text }
    }
}

/// Removes damaged batches from a log, after copying the log. Only the newest log can end in an unfinished
/// batch.
///
/// # Errors
/// If a file cannot be read or written. The log is then unchanged.
pub(crate) fn take_out_damage(file: &Path, is_newest: bool) -> io::Result<Option<TakenOut>> {
    let bytes = fs::read(file)?;
    let gaps = gaps(&bytes, is_newest);
    if gaps.is_empty() {
        return Ok(None);
    }
    let copy = free_name(file, "damaged");
    write_synced(&copy, &[&bytes])?;
    let mut parts = Vec::new();
    let mut at = 0;
    for gap in &gaps {
        parts.push(&bytes[at..gap.from]);
        at = gap.to;
    }
    parts.push(&bytes[at..]);
    let new = file.with_extension("jnl.new");
    let replaced = write_synced(&new, &parts).and_then(|()| fs::rename(&new, file));
    whole_or_none(&copy, replaced)?;
    if let Some(dir) = file.parent() {
        fs::File::open(dir)?.sync_all()?;
    }
    Ok(Some(TakenOut { file: file.to_owned(), copy, gaps }))
}

/// Cuts an unfinished batch off the end of the newest log, as fjall does. A kill can end a write within any
/// field, and a build with debug assertions panics when fjall reads a length that was written only in part.
/// Call this after [`take_out_damage`]. A log with a hole stays as it is: [`crate::repair`] copies it first.
///
/// # Errors
/// If the file cannot be read or cut.
pub(crate) fn cut_unfinished(file: &Path) -> io::Result<()> {
    let bytes = fs::read(file)?;
    let data_end = data_len(&bytes);
    let mut at = 0;
    while let Some((len, _)) = batch(&bytes[at..]) {
        at += len;
    }
    if at >= data_end || has_zero_page(&bytes, at, data_end) {
        return Ok(());
    }
    let file = fs::File::options().write(true).open(file)?;
    file.set_len(at as u64)?;
    file.sync_all()
}

fn write_synced(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    let written = parts.iter().try_for_each(|part| file.write_all(part)).and_then(|()| file.sync_all());
    whole_or_none(path, written)
}

/// The damaged parts of a log: parts that are followed by intact batches, and a damaged last batch that was
/// written completely.
fn gaps(bytes: &[u8], is_newest: bool) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut at = 0;
    // Zeros follow the data, because fjall allocates logs in advance.
    let data_end = data_len(bytes);
    let mut last = 0;
    while at < data_end {
        let gap = |to| Gap { from: at, to, rows: rows(&bytes[at..to]) };
        if let Some((len, sequence)) = batch(&bytes[at..]) {
            // The checksum does not cover the sequence numbers. But they must increase from batch to batch.
            let next = batch(&bytes[at + len..]).map(|(_, next)| next).filter(|next| *next >= last);
            if sequence < last || next.is_some_and(|next| sequence > next) {
                gaps.push(gap(at + len));
            } else {
                last = sequence;
            }
            at += len;
            continue;
        }
        let next = next_batch(&bytes[..data_end], at);
        let ends = bytes[at..data_end].ends_with(MAGIC) && !has_zero_page(bytes, at, data_end);
        let is_whole = ends || !is_newest;
        let Some(to) = next.or(is_whole.then_some(data_end)) else { break };
        // A power cut left this hole. Nothing after it was synced. If the part after it were kept, its state
        // rows would hide points that the journal still has, so the log ends here.
        if is_newest && has_zero_page(bytes, at, to) {
            break;
        }
        gaps.push(gap(to));
        at = to;
    }
    gaps
}

/// Whether the damage can come from a power cut: it contains a page that was never written.
fn has_zero_page(bytes: &[u8], from: usize, to: usize) -> bool {
    let pages = bytes[..to].chunks(PAGE).skip(from.div_ceil(PAGE));
    pages.into_iter().any(|page| page.len() == PAGE && page.iter().all(|byte| *byte == 0))
}

/// The length and the sequence number of the intact batch at the start of `bytes`; `None` if there is none.
fn batch(bytes: &[u8]) -> Option<(usize, u64)> {
    let mut rest = bytes;
    let input = &mut rest;
    if take(input, 1)? != [START] {
        return None;
    }
    let items = take_u32(input)?;
    let sequence = take_u64(input)?;
    let body = *input;
    for _ in 0..items {
        skip_item(input)?;
    }
    let body = &body[..body.len() - input.len()];
    if take(input, 1)? != [END] || take_u64(input)? != xxh3_64(body) || take(input, MAGIC.len())? != MAGIC {
        return None;
    }
    Some((bytes.len() - rest.len(), sequence))
}

fn skip_item(input: &mut &[u8]) -> Option<()> {
    match take(input, 1)?[0] {
        ITEM => {
            take(input, 1 + 1 + 8)?;
            let key = u16::from_le_bytes(take(input, 2)?.try_into().ok()?);
            take_u32(input)?;
            let value = take_u32(input)?;
            take(input, usize::from(key))?;
            take(input, value as usize)?;
        }
        CLEAR => {
            take_u64(input)?;
        }
        _ => return None,
    }
    Some(())
}

/// The offset of the next intact batch.
fn next_batch(bytes: &[u8], from: usize) -> Option<usize> {
    (from + 1..bytes.len()).find(|at| bytes[*at] == START && batch(&bytes[*at..]).is_some())
}

/// The number of rows in the batches of a damaged part, as the starts of the batches state it.
fn rows(mut damaged: &[u8]) -> u64 {
    let mut rows = 0;
    while let Some(start) = damaged.get(..5).filter(|start| start[0] == START) {
        let items = u32::from_le_bytes([start[1], start[2], start[3], start[4]]);
        // Each item has 9 bytes or more.
        if u64::from(items) * 9 > damaged.len() as u64 {
            break;
        }
        rows += u64::from(items);
        let Some(end) = find(damaged, MAGIC) else { break };
        damaged = &damaged[end + MAGIC.len()..];
    }
    rows
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(items: u32, value: u8) -> Vec<u8> {
        let mut body = Vec::new();
        for _ in 0..items {
            body.extend([ITEM, 0, 0]);
            body.extend(7_u64.to_le_bytes());
            body.extend(3_u16.to_le_bytes());
            body.extend([20, 0, 0, 0, 20, 0, 0, 0]);
            body.extend(b"key");
            body.extend([value; 20]);
        }
        let mut bytes = vec![START];
        bytes.extend(items.to_le_bytes());
        bytes.extend((u64::from(value) * 100).to_le_bytes());
        bytes.extend(&body);
        bytes.push(END);
        bytes.extend(xxh3_64(&body).to_le_bytes());
        bytes.extend(MAGIC);
        bytes
    }

    #[test]
    fn damage_before_sound_batches_is_taken_out() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("3.jnl");
        let (first, second, third) = (made(3, 1), made(5, 2), made(2, 3));
        let whole = [first.clone(), second.clone(), third.clone(), vec![0; 5000]].concat();
        // A wrong sequence number is detected if it is not between its neighbours.
        for at in (0..second.len()).filter(|at| *at != 5) {
            let mut bytes = whole.clone();
            bytes[first.len() + at] ^= 0x40;
            fs::write(&file, &bytes).unwrap();
            let done = take_out_damage(&file, true).unwrap();
            let Some(done) = done else { panic!("byte {at} of the second batch") };
            assert_eq!(fs::read(&done.copy).unwrap(), bytes);
            let left = fs::read(&file).unwrap();
            assert_eq!(left, [first.clone(), third.clone(), vec![0; 5000]].concat(), "byte {at}");
            fs::remove_file(&done.copy).unwrap();
        }
    }

    /// A directory in the place of the new log makes writing fail, as a full disk would.
    #[test]
    fn a_log_that_cannot_be_replaced_leaves_no_copy() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("3.jnl");
        let mut bytes = [made(3, 1), made(5, 2), made(2, 3)].concat();
        bytes[made(3, 1).len() + 20] ^= 0x40;
        fs::write(&file, &bytes).unwrap();
        fs::create_dir(dir.path().join("3.jnl.new")).unwrap();
        for _ in 0..3 {
            take_out_damage(&file, true).unwrap_err();
        }
        assert_eq!(fs::read(&file).unwrap(), bytes);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "only the log and the directory are there");
        fs::remove_dir(dir.path().join("3.jnl.new")).unwrap();
        assert!(take_out_damage(&file, true).unwrap().unwrap().copy.exists());
    }

    #[test]
    fn a_last_batch_that_was_written_to_its_end_is_damaged() {
        let whole = [made(3, 1), made(5, 2)].concat();
        let first = made(3, 1).len();
        for at in first..whole.len() - MAGIC.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            let found = gaps(&bytes, true);
            // A wrong last sequence number cannot be detected if it is not lower than the one before.
            if (first + 5..first + 13).contains(&at) {
                continue;
            }
            assert_eq!(
                found.iter().map(|gap| (gap.from, gap.to)).collect::<Vec<_>>(),
                [(first, whole.len())]
            );
        }
    }

    #[test]
    fn an_unfinished_batch_at_the_end_is_no_damage() {
        let whole = [made(3, 1), made(5, 2)].concat();
        for len in 0..=whole.len() {
            let mut bytes = whole[..len].to_vec();
            assert_eq!(gaps(&bytes, true), [], "{len} bytes");
            bytes.resize(whole.len() + 4096, 0);
            assert_eq!(gaps(&bytes, true), [], "{len} bytes and zeros");
        }
    }
}
