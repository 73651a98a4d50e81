//! Reads the frames of one file and distinguishes an unfinished write at its end from other damage.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::frame::{self, PLACE_BYTES, Place};

const WINDOW_BYTES: usize = 1 << 20;
/// The unit in which the kernel writes to the disk, so power loss can leave single pages unwritten.
const PAGE: u64 = 4096;

/// An intact frame in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameAt {
    pub(crate) first_sequence: u64,
    /// Byte offset in the file.
    pub(crate) at: u64,
}

/// Damaged bytes that are followed by intact frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Byte offset of the first damaged frame.
    pub(crate) from: u64,
    /// Byte offset of the next intact frame.
    pub(crate) to: u64,
    /// Whether a whole page is zero. Such a page did not reach the disk before power was lost.
    pub(crate) hole: bool,
    /// Number of points in the damaged frames, as far as their headers can be read; otherwise the largest
    /// number that fits.
    pub(crate) points: u64,
}

/// The content of a file.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The intact frames, by offset.
    pub(crate) frames: Vec<FrameAt>,
    pub(crate) damage: Vec<Damage>,
    /// Byte offset of the end of the last intact frame.
    pub(crate) end: u64,
    /// Number of bytes from `end` to the last byte that is not zero: a partly written frame.
    pub(crate) tail_bytes: u64,
    /// The tail, if it holds a frame that was written completely. This is damage, not an unfinished write.
    pub(crate) damaged_tail: Option<Damage>,
}

impl Scan {
    /// The damage at the end of a file whose frames ended at `end` when it was closed. `None` if the end is sound.
    pub(crate) fn damage_before(&self, end: u64) -> Option<Damage> {
        if self.end >= end {
            return None;
        }
        let points = (end - self.end) / frame::POINT_BYTES as u64;
        Some(self.damaged_tail.unwrap_or(Damage { from: self.end, to: end, hole: false, points }))
    }

    /// Ends the content at `at`, the start of damage. Everything after it becomes the tail.
    pub(crate) fn cut(&mut self, at: u64) {
        self.tail_bytes += self.end - at;
        self.damaged_tail = None;
        self.end = at;
        self.frames.retain(|frame| frame.at < at);
        self.damage.retain(|damage| damage.from < at);
    }
}

/// Reads a file of `segment` from the byte offset `from` to its end.
///
/// # Errors
///
/// If the file cannot be read. Damaged frames are not an error.
pub(crate) fn scan(file: &File, segment: u32, from: u64) -> io::Result<Scan> {
    let mut reader = FrameReader::new(file, segment)?;
    let mut scan = Scan::default();
    let mut at = from;
    loop {
        if let Some(frame) = reader.frame(at)? {
            scan.frames.push(FrameAt { first_sequence: frame::first_sequence(frame), at });
            at += frame::stored_len(frame.len());
        } else if let Some(to) = reader.next_frame(at)? {
            let (hole, points) = (reader.has_zero_page(at, to)?, reader.count_points(at, to)?);
            scan.damage.push(Damage { from: at, to, hole, points });
            at = to;
        } else {
            scan.end = at;
            let to = reader.data_end(at)?;
            scan.tail_bytes = to - at;
            if reader.is_whole(at)? && !reader.has_zero_page(at, to)? {
                let points = reader.count_points(at, to)?;
                scan.damaged_tail = Some(Damage { from: at, to, hole: false, points });
            }
            return Ok(scan);
        }
    }
}

/// Reads frames at given offsets. Keeps a window of the file in memory.
pub(crate) struct FrameReader<'a> {
    file: &'a File,
    segment: u32,
    file_len: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> FrameReader<'a> {
    pub(crate) fn new(file: &'a File, segment: u32) -> io::Result<Self> {
        Self::until(file, segment, u64::MAX)
    }

    /// Reads nothing from the offset `end` on. For a file in use: the reserved space after its last frame can be
    /// released at any time.
    pub(crate) fn until(file: &'a File, segment: u32, end: u64) -> io::Result<Self> {
        let file_len = file.metadata()?.len().min(end);
        Ok(Self { file, segment, file_len, window: Vec::new(), window_at: 0 })
    }

    /// The intact frame stored at `at`. `None` if there is none.
    pub(crate) fn frame(&mut self, at: u64) -> io::Result<Option<&[u8]>> {
        if !self.has_place(at)? {
            return Ok(None);
        }
        let at = at + PLACE_BYTES as u64;
        let Some(header) = self.bytes(at, frame::HEADER_BYTES)? else { return Ok(None) };
        let len = frame::encoded_len(header);
        Ok(self.bytes(at, len)?.filter(|frame| frame::check(frame).is_ok()))
    }

    fn has_place(&mut self, at: u64) -> io::Result<bool> {
        let Some(place) = Place::new(self.segment, at) else { return Ok(false) };
        Ok(self.bytes(at, PLACE_BYTES)?.is_some_and(|bytes| bytes == place.bytes()))
    }

    /// The offset of the first intact frame after `at`.
    pub(crate) fn next_frame(&mut self, at: u64) -> io::Result<Option<u64>> {
        let mut at = at + PLACE_BYTES as u64;
        while at + PLACE_BYTES as u64 <= self.file_len {
            if self.has_place(at)? && self.frame(at)?.is_some() {
                return Ok(Some(at));
            }
            at += PLACE_BYTES as u64;
        }
        Ok(None)
    }

    /// The stored length and the number of points of the frame at `at`, if its header is valid.
    fn header(&mut self, at: u64, to: u64) -> io::Result<Option<(u64, u64)>> {
        let Some(header) = self.bytes(at + PLACE_BYTES as u64, frame::HEADER_BYTES)? else { return Ok(None) };
        let (len, points) = (frame::stored_len(frame::encoded_len(header)), frame::points_in(header));
        Ok(points.filter(|_| at + len <= to.next_multiple_of(PLACE_BYTES as u64)).map(|points| (len, points)))
    }

    /// Whether the bytes at `at` are a frame that was written to its end, or a frame whose header is wrong.
    /// In both cases they are damaged, and not the beginning of an unfinished write.
    fn is_whole(&mut self, at: u64) -> io::Result<bool> {
        const LAST: u64 = 16;
        let from = at + PLACE_BYTES as u64;
        let Some(header) = self.bytes(from, frame::HEADER_BYTES)? else { return Ok(false) };
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        if frame::points_in(header).is_none() {
            // A header that spans two pages may be written only in part.
            let on_one_page = from / PAGE == (from + frame::HEADER_BYTES as u64 - 1) / PAGE;
            return Ok(on_one_page && !is_zero(header));
        }
        let end = at + frame::stored_len(frame::encoded_len(header));
        // A record has at least 12 bytes that are not all zero, so an unfinished write ends in more zeros
        // than this.
        let last = self.bytes(end.saturating_sub(LAST), LAST as usize)?;
        Ok(last.is_some_and(|bytes| !is_zero(bytes)))
    }

    /// The number of points in damaged frames from `at` to `to`. Counts 16 bytes as a point where a header is not
    /// valid.
    fn count_points(&mut self, mut at: u64, to: u64) -> io::Result<u64> {
        let mut points = 0;
        while at < to {
            let Some((len, n)) = self.header(at, to)? else { break };
            points += n;
            at += len;
        }
        let rest = to.saturating_sub(at).saturating_sub((PLACE_BYTES + frame::HEADER_BYTES) as u64);
        Ok(points + rest / frame::POINT_BYTES as u64)
    }

    fn has_zero_page(&mut self, from: u64, to: u64) -> io::Result<bool> {
        let mut page = from.next_multiple_of(PAGE);
        while page + PAGE <= to {
            if self.bytes(page, PAGE as usize)?.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)) {
                return Ok(true);
            }
            page += PAGE;
        }
        Ok(false)
    }

    /// The end of the last byte after `from` that is not zero, or `from` if all are zero.
    fn data_end(&mut self, from: u64) -> io::Result<u64> {
        let (mut at, mut end) = (from, from);
        while at < self.file_len {
            let len = (self.file_len - at).min(PAGE);
            let Some(bytes) = self.bytes(at, len as usize)? else { break };
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                end = at + last as u64 + 1;
            }
            at += len;
        }
        Ok(end)
    }

    /// The `len` bytes at the offset `at`. `None` if the file is too short.
    fn bytes(&mut self, at: u64, len: usize) -> io::Result<Option<&[u8]>> {
        let Some(end) = at.checked_add(len as u64).filter(|end| *end <= self.file_len) else {
            return Ok(None);
        };
        if at < self.window_at || end > self.window_at + self.window.len() as u64 {
            let wanted = (WINDOW_BYTES.max(len) as u64).min(self.file_len - at);
            self.window.resize(wanted as usize, 0);
            self.window_at = at;
            if let Err(error) = self.file.read_exact_at(&mut self.window, at) {
                self.window.clear();
                return Err(error);
            }
        }
        let start = (at - self.window_at) as usize;
        Ok(Some(&self.window[start..start + len]))
    }
}
