//! The files of a queue: segments of frames, and the positions of the sender.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Position;
use crate::frame::{HEADER, Header};

const EXTENSION: &str = "segment";
const POSITIONS: &str = "positions";

/// A segment as a start finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scanned {
    pub(super) id: u64,
    /// Size of whole frames, in bytes.
    pub(super) bytes: u64,
    /// Number of bytes after the last whole frame, which form no whole frame.
    pub(super) surplus: u64,
    /// Number of points in the whole frames.
    pub(super) points: u64,
    /// Number of points in the frames that end at or before a given position.
    pub(super) before: u64,
}

pub(super) fn path(dir: &Path, id: u64) -> PathBuf {
    dir.join(format!("{id:020}.{EXTENSION}"))
}

pub(super) fn create(dir: &Path, id: u64) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path(dir, id))
}

/// The numbers of the segments of a directory, in order.
pub(super) fn list(dir: &Path) -> io::Result<Vec<u64>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let is_segment = path.extension().is_some_and(|extension| extension == EXTENSION);
        let id = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
        ids.extend(id.filter(|_| is_segment));
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Walks over the headers of a segment. Only the checksum of the last frame is compared. A kill or a power
/// cut damages the end of a file, and the sender checks the other frames when it reads them.
pub(super) fn scan(dir: &Path, id: u64, position: Position) -> io::Result<Scanned> {
    let file = File::open(path(dir, id))?;
    let size = file.metadata()?.len();
    let mut found = Scanned { id, bytes: 0, surplus: 0, points: 0, before: 0 };
    while let Some((header, end)) = header_at(&file, found.bytes, size)? {
        if end == size && !is_whole(&file, found.bytes, header)? {
            break;
        }
        found.bytes = end;
        found.points += u64::from(header.points);
        if (Position { segment: id, offset: end }) <= position {
            found.before = found.points;
        }
    }
    found.surplus = size - found.bytes;
    Ok(found)
}

/// The header at `at` and the end of its frame. `None` if no frame begins there that ends in the file.
fn header_at(file: &File, at: u64, size: u64) -> io::Result<Option<(Header, u64)>> {
    if at + HEADER as u64 > size {
        return Ok(None);
    }
    let mut bytes = [0; HEADER];
    file.read_exact_at(&mut bytes, at)?;
    let header = Header::read(&bytes);
    let end = |header: &Header| at + (HEADER + header.length) as u64;
    Ok(header.map(|header| (header, end(&header))).filter(|(_, end)| *end <= size))
}

fn is_whole(file: &File, at: u64, header: Header) -> io::Result<bool> {
    let mut frame = vec![0; HEADER + header.length];
    file.read_exact_at(&mut frame, at)?;
    Ok(header.matches(&frame))
}

/// Reads bytes of a segment. At the end of the file, returns fewer bytes than requested.
pub(super) fn read(dir: &Path, from: Position, bytes: usize) -> io::Result<Vec<u8>> {
    let file = File::open(path(dir, from.segment))?;
    let mut read = vec![0; bytes];
    let mut length = 0;
    while length < bytes {
        match file.read_at(&mut read[length..], from.offset + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    read.truncate(length);
    Ok(read)
}

/// Removes a segment. It is not an error if the segment is missing.
pub(super) fn remove(dir: &Path, id: u64) -> io::Result<()> {
    match fs::remove_file(path(dir, id)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The note about a queue, which is stored beside its segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// Everything before this position was sent.
    pub(super) sent: Position,
    /// Points after this position may be sent again.
    pub(super) keep: Position,
    /// The newest segment. `None` in notes of older versions.
    pub(super) last: Option<u64>,
}

/// Saves the note. After a power cut, an older version of it may be found, or none. In that case points are
/// sent twice.
pub(super) fn save(dir: &Path, sent: Position, keep: Position, last: u64) -> io::Result<()> {
    let new = dir.join("positions.new");
    let mut text = format!(
        "sent {} {}\nkeep {} {}\nlast {last}\n",
        sent.segment, sent.offset, keep.segment, keep.offset
    );
    text.push_str(&format!("check {:08x}\n", crc32fast::hash(text.as_bytes())));
    fs::write(&new, text)?;
    fs::rename(new, positions_path(dir))
}

/// Reads the note. `None` if there is none, or `Err` if it is damaged.
pub(super) fn noted(dir: &Path) -> Result<Option<Noted>, Damaged> {
    let mut bytes = Vec::new();
    match File::open(positions_path(dir)).and_then(|file| file.take(1024).read_to_end(&mut bytes)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|_| Damaged)?,
    };
    let text = String::from_utf8(bytes).map_err(|_| Damaged)?;
    parse(&text).map(Some).ok_or(Damaged)
}

/// The note cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Damaged;

fn parse(text: &str) -> Option<Noted> {
    let position = |line: &str, key: &str| {
        let (segment, offset) = line.strip_prefix(key)?.strip_prefix(' ')?.split_once(' ')?;
        Some(Position { segment: segment.parse().ok()?, offset: offset.parse().ok()? })
    };
    let mut lines = text.split_inclusive('\n').map(str::trim_end);
    let (sent, keep) = (position(lines.next()?, "sent")?, position(lines.next()?, "keep")?);
    // Older versions wrote nothing after this.
    let Some(line) = lines.next() else { return Some(Noted { sent, keep, last: None }) };
    let last = Some(line.strip_prefix("last ")?.parse().ok()?);
    let check = u32::from_str_radix(lines.next()?.strip_prefix("check ")?, 16).ok()?;
    let checked = text.get(..text.rfind("check ")?)?;
    (crc32fast::hash(checked.as_bytes()) == check).then_some(Noted { sent, keep, last })
}

pub(super) fn positions_path(dir: &Path) -> PathBuf {
    dir.join(POSITIONS)
}
