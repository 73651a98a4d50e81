//! Reading the journal back.

use std::cmp::Reverse;

use fjall::{Iter, Slice};

use crate::database::Database;
use crate::frame::{Key, visit_frame};
use crate::metrics::Metrics;
use crate::segment::Segment;
use crate::{JournalError, Record};

/// A segment is given up after so many unreadable places.
const READ_ERRORS_MAX: u32 = 1000;

/// What a replay saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Live segments.
    pub segments: usize,
    /// Frames that were read.
    pub frames: u64,
    /// Points in them.
    pub points: u64,
    /// Creations and removals in them.
    pub events: u64,
    /// Bytes of frames.
    pub bytes: u64,
    /// Damaged frames that were skipped.
    pub corrupt_frames: u64,
}

/// Visits all records of all segments by rising sequence number. Segments overlap a little in
/// numbers (each shard turns to the next one on its own), so they are merged.
pub(crate) fn replay(
    database: &Database,
    metrics: &Metrics,
    visit: &mut dyn FnMut(Record<'_>),
) -> Result<ReplayReport, JournalError> {
    let mut report = ReplayReport { segments: database.segments().len(), ..ReplayReport::default() };
    let segments = database.segments().iter();
    let mut closed: Vec<_> = segments.map(|(number, segment)| (segment.first_sequence(), *number)).collect();
    // The one that starts first comes last, to be popped.
    closed.sort_by_key(|start| Reverse(*start));
    let mut open: Vec<Cursor<'_>> = Vec::new();
    loop {
        let next = open.iter().enumerate().min_by_key(|(_, cursor)| cursor.first_sequence()).map(|(i, _)| i);
        let due = |(first, _): &(u64, u32)| next.is_none_or(|i| *first <= open[i].first_sequence());
        if let Some((_, number)) = closed.pop_if(|start| due(start)) {
            open.extend(Cursor::open(database, number, metrics, &mut report));
            continue;
        }
        let Some(i) = next else { return Ok(report) };
        open[i].visit(metrics, &mut report, visit);
        if !open[i].advance(metrics, &mut report) {
            open.swap_remove(i);
        }
    }
}

/// A segment being read, with the frame that is next in it.
struct Cursor<'a> {
    database: &'a Database,
    segment: Option<&'a Segment>,
    frames: Iter,
    key: Key,
    key_bytes: Slice,
    value: Slice,
    errors: u32,
}

impl<'a> Cursor<'a> {
    /// `None` when nothing in it can be read.
    fn open(
        database: &'a Database,
        number: u32,
        metrics: &Metrics,
        report: &mut ReplayReport,
    ) -> Option<Self> {
        let segment = database.segments().get(&number);
        if let Some(segment) = segment {
            segment.forget_bytes();
        }
        let mut cursor = Self {
            database,
            segment,
            frames: database.rows(Key::all_of(number)),
            key: Key::new(number, 0),
            key_bytes: Slice::new(&[]),
            value: Slice::new(&[]),
            errors: 0,
        };
        cursor.advance(metrics, report).then_some(cursor)
    }

    fn first_sequence(&self) -> u64 {
        self.key.first_sequence
    }

    /// Moves to the next frame that can be read; false at the end.
    fn advance(&mut self, metrics: &Metrics, report: &mut ReplayReport) -> bool {
        loop {
            match self.frames.next().map(fjall::Guard::into_inner) {
                None => return false,
                Some(Ok((key, value))) => {
                    self.key = Key::read(&key).unwrap_or(self.key);
                    (self.key_bytes, self.value) = (key, value);
                    return true;
                }
                Some(Err(error)) => {
                    self.skip(&error, metrics, report);
                    self.errors += 1;
                    if self.errors == READ_ERRORS_MAX || !self.go_round() {
                        return false;
                    }
                }
            }
        }
    }

    /// Goes on behind a damaged block. Up to two sound frames before it are lost with it, since
    /// fjall's iterators look ahead.
    fn go_round(&mut self) -> bool {
        let end = Key::new(self.key.segment, u64::MAX);
        let Some(behind) = self.database.first_readable(self.key, end) else { return false };
        self.frames = self.database.rows(behind..=end);
        true
    }

    fn visit(&self, metrics: &Metrics, report: &mut ReplayReport, visit: &mut dyn FnMut(Record<'_>)) {
        let bytes = self.value.len() as u64;
        if let Some(segment) = self.segment {
            segment.add(self.key.first_sequence, bytes);
        }
        match visit_frame(&self.key_bytes, &self.value, visit) {
            Ok(counts) => {
                report.frames += 1;
                report.points += counts.points as u64;
                report.events += counts.events as u64;
                report.bytes += bytes;
            }
            Err(error) => self.skip(&error, metrics, report),
        }
    }

    fn skip(&self, error: &dyn std::fmt::Display, metrics: &Metrics, report: &mut ReplayReport) {
        report.corrupt_frames += 1;
        metrics.corrupt_frames.add(1);
        tracing::error!(
            segment = self.key.segment,
            frame = self.key.first_sequence,
            %error,
            "damaged journal frame skipped, its points are lost unless they were flushed"
        );
    }
}
