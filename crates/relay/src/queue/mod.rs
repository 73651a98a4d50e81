//! The queue of one destination: points on disk, in the order in which they were accepted.
//!
//! The writer appends frames to the newest of several files (*segments*). The sender reads frames at its own
//! position and reports its progress. A segment is removed when everything in it was sent and will not be
//! sent again, or when the queue has reached its limit.

mod files;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use self::files::{Noted, Scanned};
use self::segment::Segment;
use crate::frame::{HEADER, Header};

pub(crate) use segment::SegmentWriter;

/// A new segment is begun when the last one has this many bytes, or an eighth of the queue's limit.
const SEGMENT_BYTES: u64 = 8 << 20;

/// A place between two frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    segment: u64,
    /// Offset in the segment, in bytes.
    offset: u64,
}

/// The files of one destination.
#[derive(Debug)]
pub(crate) struct Queue {
    dir: PathBuf,
    /// Limit on the bytes of all segments.
    bytes_max: u64,
    state: Mutex<State>,
    /// Held while the note of the positions is written.
    saving: Mutex<()>,
    /// Notified when frames were appended.
    more: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest first. The last one may still grow.
    segments: VecDeque<Segment>,
    /// Everything before this position was sent, or is lost.
    sent: Position,
    /// Points after this position may be sent again.
    keep: Position,
    next_id: u64,
}

/// What a start finds in the files of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Number of points that were not sent yet.
    pub(crate) waiting: u64,
    /// Number of bytes that do not form a complete frame: the end of an unfinished write, or damage.
    pub(crate) surplus_bytes: u64,
    /// Number of missing segments.
    pub(crate) missing: u64,
    /// Whether the note of the positions is damaged, so that everything in the segments is sent again.
    pub(crate) is_note_lost: bool,
}

/// Frames that were read.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) bytes: Vec<u8>,
    pub(crate) frames: Vec<Frame>,
}

/// A frame of a [`Chunk`].
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) header: Header,
    /// The points, as a range of the chunk's bytes.
    pub(crate) points: Range<usize>,
    /// The position after the frame.
    pub(crate) end: Position,
}

/// The answer to a read.
#[derive(Debug)]
pub(crate) enum Next {
    /// At least one frame.
    Chunk(Chunk),
    /// Nothing was written after the position yet.
    End,
    /// The bytes at this position are not a frame, or their file is missing.
    Damaged(Position),
}

/// How much is in the files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Size of all segments in bytes, including those kept to be sent again.
    pub(crate) bytes: u64,
    /// Number of points that were not sent yet.
    pub(crate) waiting: u64,
}

impl Queue {
    /// Opens a queue, or makes a new one.
    ///
    /// # Errors
    ///
    /// If the directory or a segment cannot be read.
    pub(crate) fn open(dir: &Path, bytes_max: u64) -> io::Result<(Self, Found)> {
        fs::create_dir_all(dir)?;
        let ids = files::list(dir)?;
        let noted = files::noted(dir);
        let is_note_lost = noted.is_err();
        if noted == Ok(None) && !ids.is_empty() {
            // A kill may leave the queue in this state. Nothing is lost.
            tracing::warn!(
                "{} has no record of what was sent; everything in it is sent again",
                dir.display()
            );
        }
        let noted = noted.unwrap_or_default().unwrap_or_default();
        let Noted { sent, keep, last } = noted;
        // Numbers are not used twice, because a note about sent points must not apply to new points.
        let next_id =
            last.map_or(0, |last| last + 1).max(sent.segment.saturating_add(u64::from(sent.offset > 0)));
        let mut state = State { sent, keep: keep.min(sent), next_id, ..State::default() };
        let mut found = Found { missing: missing(noted, &ids), is_note_lost, ..Found::default() };
        for id in ids {
            let scanned = files::scan(dir, id, sent)?;
            found.surplus_bytes += scanned.surplus;
            state.next_id = state.next_id.max(id + 1);
            state.segments.push_back(Segment::from(scanned));
        }
        found.waiting = state.size().waiting;
        let queue = Self {
            dir: dir.to_owned(),
            bytes_max,
            state: Mutex::new(state),
            saving: Mutex::default(),
            more: Notify::new(),
        };
        queue.remove_unneeded()?;
        Ok((queue, found))
    }

    /// Makes a new segment. [`Queue::appended`] extends it.
    pub(crate) fn create_segment(&self) -> io::Result<File> {
        let mut state = self.state();
        let id = state.next_id;
        let file = files::create(&self.dir, id)?;
        state.next_id = id + 1;
        state.segments.push_back(Segment { id, ..Segment::default() });
        drop(state);
        // The note is only needed to detect later that the file is missing.
        let _ = self.save();
        Ok(file)
    }

    /// Makes frames that were appended to the newest segment readable.
    pub(crate) fn appended(&self, bytes: u64, points: u64) {
        if let Some(last) = self.state().segments.back_mut() {
            last.bytes += bytes;
            last.points += points;
        }
        self.more.notify_one();
    }

    /// Waits until something was appended after the last such wait.
    pub(crate) async fn more(&self) {
        self.more.notified().await;
    }

    /// Removes the oldest segment if the queue is larger than its limit, or if `is_disk_full`. The newest segment
    /// stays. Returns the number of its points that were not sent; `None` if nothing was removed.
    pub(crate) fn make_room(&self, is_disk_full: bool) -> io::Result<Option<u64>> {
        let mut state = self.state();
        let is_large = state.size().bytes > self.bytes_max;
        if state.segments.len() < 2 || !(is_large || is_disk_full) {
            return Ok(None);
        }
        let Some(oldest) = state.segments.pop_front() else { return Ok(None) };
        let next = Position { segment: oldest.id + 1, offset: 0 };
        state.sent = state.sent.max(next);
        state.keep = state.keep.max(next);
        drop(state);
        files::remove(&self.dir, oldest.id)?;
        // On a full disk this may fail. In that case a start before the next note reports the file as
        // missing.
        let _ = self.save();
        Ok(Some(oldest.waiting()))
    }

    /// Reads up to `bytes_max` bytes of whole frames, but at least one frame.
    pub(crate) fn read(&self, at: Position, bytes_max: usize) -> io::Result<Next> {
        let Some((at, readable)) = self.readable(at) else { return Ok(Next::End) };
        let mut bytes = match files::read(&self.dir, at, readable.min(bytes_max)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Next::Damaged(at)),
            read => read?,
        };
        if let Some(first) = Header::read(&bytes)
            && HEADER + first.length > bytes.len()
            && HEADER + first.length <= readable
        {
            bytes = files::read(&self.dir, at, HEADER + first.length)?;
        }
        let frames = frames(&bytes, at);
        if frames.is_empty() {
            return Ok(Next::Damaged(at));
        }
        Ok(Next::Chunk(Chunk { bytes, frames }))
    }

    /// The first position at or after `at` where there is something to read, and the number of bytes from
    /// there to the end of its segment.
    fn readable(&self, at: Position) -> Option<(Position, usize)> {
        let state = self.state();
        state.segments.iter().filter(|segment| segment.id >= at.segment).find_map(|segment| {
            let offset = if segment.id == at.segment { at.offset } else { 0 };
            let bytes = segment.bytes.checked_sub(offset).filter(|bytes| *bytes > 0)?;
            Some((Position { segment: segment.id, offset }, bytes as usize))
        })
    }

    /// Notes that a frame was sent. Returns whether it was sent for the first time; otherwise it was sent
    /// again, or its segment has been removed.
    pub(crate) fn set_sent(&self, frame: &Frame) -> bool {
        let mut state = self.state();
        if frame.end <= state.sent {
            return false;
        }
        state.sent = frame.end;
        let segment = state.segments.iter_mut().find(|segment| segment.id == frame.end.segment);
        segment.map(|segment| segment.sent += u64::from(frame.header.points)).is_some()
    }

    /// Gives up the rest of a segment from `at` on. Returns where reading continues, and how many points were
    /// not sent.
    pub(crate) fn skip(&self, at: Position) -> (Position, u64) {
        let mut state = self.state();
        let segment = state.segments.iter_mut().find(|segment| segment.id == at.segment);
        // If there is none, the segment was removed meanwhile to make room.
        let (next, lost) = match segment {
            Some(segment) => {
                let lost = segment.waiting();
                segment.sent = segment.points;
                (Position { segment: at.segment, offset: segment.bytes }, lost)
            }
            None => (Position { segment: at.segment + 1, offset: 0 }, 0),
        };
        state.sent = state.sent.max(next);
        (next, lost)
    }

    /// The position up to which all points were sent at least once.
    pub(crate) fn sent(&self) -> Position {
        self.state().sent
    }

    /// The first position that is kept to be sent again.
    pub(crate) fn kept(&self) -> Position {
        self.state().keep
    }

    /// Releases everything before `position` that was sent, and saves the positions.
    pub(crate) fn keep_from(&self, position: Position) -> io::Result<()> {
        {
            let mut state = self.state();
            state.keep = state.keep.max(position.min(state.sent));
        }
        // Sent segments are removed even if the positions cannot be saved, as on a full disk. A start then
        // begins at the first file that is left.
        let saved = self.save();
        self.remove_unneeded()?;
        saved
    }

    /// When the oldest waiting points were accepted, in seconds since the epoch. `None` if no points wait.
    pub(crate) fn oldest(&self) -> Option<u32> {
        let (at, _) = self.readable(self.sent())?;
        Some(Header::read(&files::read(&self.dir, at, HEADER).ok()?)?.time)
    }

    /// A segment that has this many bytes is full.
    pub(crate) fn segment_bytes(&self) -> u64 {
        SEGMENT_BYTES.min(self.bytes_max / 8)
    }

    /// Returns how much is in the files.
    pub(crate) fn size(&self) -> Size {
        self.state().size()
    }

    /// The file with the positions.
    pub(crate) fn note(&self) -> PathBuf {
        files::positions_path(&self.dir)
    }

    /// The directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the segments before the kept position. The newest one stays, because it may be in use.
    fn remove_unneeded(&self) -> io::Result<()> {
        loop {
            let mut state = self.state();
            let keep = state.keep;
            let is_unneeded = |segment: &Segment| segment.id < keep.segment && segment.waiting() == 0;
            if state.segments.len() < 2 || !state.segments.front().is_some_and(is_unneeded) {
                return Ok(());
            }
            let Some(oldest) = state.segments.pop_front() else { return Ok(()) };
            drop(state);
            files::remove(&self.dir, oldest.id)?;
        }
    }

    /// Writes the note of the positions and of the newest segment.
    fn save(&self) -> io::Result<()> {
        let _one_at_a_time = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let (sent, keep, last) = {
            let state = self.state();
            (state.sent, state.keep, state.next_id.saturating_sub(1))
        };
        files::save(&self.dir, sent, keep, last)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn size(&self) -> Size {
        let bytes = self.segments.iter().map(|segment| segment.bytes).sum();
        let waiting = self.segments.iter().map(Segment::waiting).sum();
        Size { bytes, waiting }
    }
}

impl From<Scanned> for Segment {
    fn from(scanned: Scanned) -> Self {
        Self { id: scanned.id, bytes: scanned.bytes, points: scanned.points, sent: scanned.before }
    }
}

/// How many segments are missing: those between the first that is kept and the newest.
fn missing(noted: Noted, ids: &[u64]) -> u64 {
    let first = match noted.last {
        Some(_) => noted.keep.segment,
        None => ids.first().copied().unwrap_or_default(),
    };
    let Some(last) = noted.last.max(ids.last().copied()) else { return 0 };
    let present = ids.iter().filter(|id| (first..=last).contains(id)).count() as u64;
    (last + 1).saturating_sub(first).saturating_sub(present)
}

/// The whole frames at the beginning of `bytes`, which were read at position `at`.
fn frames(bytes: &[u8], at: Position) -> Vec<Frame> {
    let (mut frames, mut begin) = (Vec::new(), 0);
    while let Some(header) = bytes.get(begin..).and_then(Header::read) {
        let end = begin + HEADER + header.length;
        if !bytes.get(begin..end).is_some_and(|frame| header.matches(frame)) {
            break;
        }
        let position = Position { segment: at.segment, offset: at.offset + end as u64 };
        frames.push(Frame { header, points: begin + HEADER..end, end: position });
        begin = end;
    }
    frames
}
