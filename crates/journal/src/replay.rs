//! Reading the journal back.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use fjall::{Iter, Slice};

use crate::database::Database;
use crate::frame::visit_frame;
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
    let mut closed: Vec<(u64, u32, &Segment)> = database
        .segments()
        .iter()
        .filter_map(|(number, segment)| Some((segment.first_sequence()?, *number, segment)))
        .collect();
    // The one that starts first comes last, to be popped.
    closed.sort_by_key(|(first, number, _)| Reverse((*first, *number)));
    let mut open: Vec<Cursor<'_>> = Vec::new();
    loop {
        let next = open.iter().enumerate().min_by_key(|(_, cursor)| cursor.key.clone()).map(|(i, _)| i);
        let due = closed.last().is_some_and(|(first, ..)| {
            next.is_none_or(|i| first.to_be_bytes().as_slice() <= &open[i].key[..])
        });
        if due && let Some((_, number, segment)) = closed.pop() {
            open.extend(Cursor::open(number, segment, metrics, &mut report));
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
    number: u32,
    segment: &'a Segment,
    frames: Iter,
    key: Slice,
    value: Slice,
    errors: u32,
}

impl<'a> Cursor<'a> {
    /// `None` when nothing in it can be read.
    fn open(number: u32, segment: &'a Segment, metrics: &Metrics, report: &mut ReplayReport) -> Option<Self> {
        segment.bytes.store(0, Ordering::Relaxed);
        let mut cursor = Self {
            number,
            segment,
            frames: segment.keyspace.iter(),
            key: Slice::new(&[]),
            value: Slice::new(&[]),
            errors: 0,
        };
        cursor.advance(metrics, report).then_some(cursor)
    }

    /// Moves to the next frame that can be read; false at the end.
    fn advance(&mut self, metrics: &Metrics, report: &mut ReplayReport) -> bool {
        loop {
            match self.frames.next().map(fjall::Guard::into_inner) {
                None => return false,
                Some(Ok((key, value))) => {
                    (self.key, self.value) = (key, value);
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

    /// Goes on behind a damaged block. fjall's iterators end at one, and up to two frames before it
    /// since they look ahead; where it ends can only be tried out.
    fn go_round(&mut self) -> bool {
        let keyspace = &self.segment.keyspace;
        let blocked = |from: u64| {
            matches!(keyspace.range(from.to_be_bytes()..).next().map(fjall::Guard::key), Some(Err(_)))
        };
        let mut low = number(&self.key);
        let mut step = 1;
        while blocked(low.saturating_add(step)) {
            low = low.saturating_add(step);
            if low == u64::MAX {
                return false;
            }
            step = step.saturating_mul(2);
        }
        let mut high = low.saturating_add(step);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if blocked(middle) { low = middle } else { high = middle }
        }
        self.frames = keyspace.range(high.to_be_bytes()..);
        true
    }

    fn visit(&self, metrics: &Metrics, report: &mut ReplayReport, visit: &mut dyn FnMut(Record<'_>)) {
        let bytes = self.value.len() as u64;
        self.segment.bytes.fetch_add(bytes, Ordering::Relaxed);
        match visit_frame(&self.key, &self.value, visit) {
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
            segment = self.number,
            path = %self.segment.keyspace.path().display(),
            frame = ?&self.key[..],
            %error,
            "damaged journal frame skipped, its points are lost unless they were flushed"
        );
    }
}

/// The number that a key stands for; 0 before the first.
fn number(key: &[u8]) -> u64 {
    key.try_into().map_or(0, u64::from_be_bytes)
}
