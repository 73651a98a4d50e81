//! Reads the files of a journal that is in use, starting at a position.

use std::fs::File;
use std::path::PathBuf;

use crate::files::FileId;
use crate::frame::{self, visit_frame};
use crate::log::Log;
use crate::metrics::Metrics;
use crate::scan::FrameReader;
use crate::{JournalError, Record};

/// A place in the journal. Positions increase in the order in which a writer's records are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    segment: u32,
    part: u32,
    /// Byte offset in the file.
    offset: u64,
}

impl Position {
    /// The beginning of a segment.
    pub fn of_segment(segment: u32) -> Self {
        Self { segment, part: 0, offset: 0 }
    }
}

/// A file, and where to read it.
pub(crate) struct Source {
    id: FileId,
    path: PathBuf,
    from: u64,
    end: u64,
}

/// The files from a position on, oldest first.
pub(crate) fn sources(log: &Log, position: Position) -> Vec<Source> {
    let first = FileId { segment: position.segment, part: position.part };
    let files = log.files.range(first..).map(|(id, file)| Source {
        id: *id,
        path: file.path.clone(),
        from: if *id == first { position.offset } else { 0 },
        end: file.end,
    });
    files.filter(|source| source.from < source.end).collect()
}

/// Visits the records of these files in the order in which they were written. Stops after the frame that
/// makes the bytes read reach `bytes_max`. Returns where to continue, and whether all files were read to
/// their end.
///
/// # Errors
///
/// `Failed` if a file cannot be read. Damaged frames are not an error.
pub(crate) fn read(
    sources: &[Source],
    position: Position,
    bytes_max: u64,
    metrics: &Metrics,
    visit: &mut dyn FnMut(Record<'_>),
) -> Result<(Position, bool), JournalError> {
    let (mut next, mut read) = (position, 0);
    for source in sources {
        let failed = |error| JournalError::failed(format!("read {}", source.path.display()), error);
        let file = File::open(&source.path).map_err(failed)?;
        let mut reader = FrameReader::until(&file, source.id.segment, source.end).map_err(failed)?;
        let mut at = source.from;
        while at < source.end {
            if read >= bytes_max {
                return Ok((next, false));
            }
            let from = at;
            if let Some(bytes) = reader.frame(at).map_err(failed)? {
                at += frame::stored_len(bytes.len());
                // The reader has checked the frame, so visiting it cannot fail.
                let _ = visit_frame(bytes, visit);
            } else {
                at = reader.next_frame(at).map_err(failed)?.unwrap_or(source.end);
                metrics.corrupt_frames.add(1);
                tracing::error!(
                    file = %source.path.display(), from, to = at,
                    "a damaged part of the journal was skipped"
                );
            }
            read += at - from;
            next = Position { segment: source.id.segment, part: source.id.part, offset: at };
        }
    }
    Ok((next, true))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plumbago_model::ManualClock;
    use plumbago_telemetry::Registry;

    use super::*;
    use crate::{Config, Journal, JournalWriter};

    /// Appends points with increasing timestamps.
    fn append(writer: &mut JournalWriter, metric: u32, points: std::ops::Range<u32>) {
        points.for_each(|timestamp| {
            writer.point(metric, timestamp, 0.5);
        });
        writer.write_out().unwrap();
    }

    #[test]
    fn records_are_read_again_in_order_while_others_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::at(1_700_000_100));
        let config = Config { min_free_bytes: 0, ..Config::default() };
        let journal = Journal::open(dir.path(), config, clock.clone(), &Registry::new()).unwrap();
        let (mut one, mut two) = (journal.writer(), journal.writer());
        append(&mut one, 1, 0..3000);
        append(&mut two, 2, 0..3000);
        let mut seen = [Vec::new(), Vec::new()];
        let mut position = Position::default();
        let mut calls = 0;
        let mut appended = 3000;
        loop {
            let mut note = |record: Record<'_>| match record {
                Record::Point { metric, timestamp, .. } => seen[metric as usize - 1].push(timestamp),
                other => panic!("{other:?}"),
            };
            let (next, is_end) = journal.read_again(position, 1000, &mut note).unwrap();
            assert!(next >= position);
            position = next;
            calls += 1;
            if appended < 9000 {
                // Each batch of points goes to a later segment.
                clock.advance(300);
                one.write_out().unwrap();
                append(&mut one, 1, appended..appended + 1000);
                appended += 1000;
            } else if is_end {
                break;
            }
        }
        assert!(seen[0].iter().copied().eq(0..9000) && seen[1].iter().copied().eq(0..3000));
        assert!(calls >= 8, "{calls} calls");
        // A read can begin at the start of any segment. If that segment was dropped, it begins at the next
        // one.
        let segment = journal.segments()[2].number;
        journal.drop_before(segment).unwrap();
        for from in [segment, segment - 1] {
            let mut points = 0;
            journal.read_again(Position::of_segment(from), u64::MAX, &mut |_| points += 1).unwrap();
            assert_eq!(points, 5000);
        }
    }
}
