//! Replays the journal: reads all records of the live segments.

use std::cmp::Reverse;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::{FileId, LogFile};
use crate::frame::visit_frame;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::scan::{Damage, FrameAt, FrameReader, scan};
use crate::{JournalError, Record};

/// The result of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Number of live segments.
    pub segments: usize,
    /// Number of frames that were read.
    pub frames: u64,
    /// Number of points in them.
    pub points: u64,
    /// Number of creations and removals in them.
    pub events: u64,
    /// Size of the frames in bytes.
    pub bytes: u64,
    /// Number of damaged places that were skipped. Each held one or more frames.
    pub corrupt_frames: u64,
}

/// The files to replay.
pub(crate) fn sources(log: &Log) -> Vec<Source> {
    let files = log.files.iter().filter(|(_, file)| file.end > 0);
    let source = |(id, file): (&FileId, &LogFile)| Source {
        first: file.first_sequence,
        id: *id,
        path: file.path.clone(),
        end: file.end,
    };
    files.map(source).collect()
}

/// A file to replay.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    /// The smallest sequence number in the file.
    first: u64,
    id: FileId,
    path: PathBuf,
    /// Byte offset at which its frames end.
    end: u64,
}

/// Visits all records of these files in the order of their sequence numbers. The numbers in different files
/// overlap, because each shard moves to the next segment at its own time, so the files are merged. A frame
/// that is in two files because it was written again after a failed sync is visited once.
///
/// # Errors
///
/// `Failed` if a file cannot be read. Damaged frames are not an error.
pub(crate) fn replay(
    mut sources: Vec<Source>,
    metrics: &Metrics,
    visit: &mut dyn FnMut(Record<'_>),
) -> Result<ReplayReport, JournalError> {
    let mut report = ReplayReport { segments: count_segments(&sources), ..ReplayReport::default() };
    let files: Vec<(Source, File)> = {
        // The file with the smallest sequence number comes last, to be popped first.
        sources.sort_by(|a, b| b.cmp(a));
        let opened = sources.into_iter().map(|source| {
            let file = File::open(&source.path).map_err(|error| failed(&source.path, error))?;
            Ok((source, file))
        });
        opened.collect::<Result<_, JournalError>>()?
    };
    let mut waiting: Vec<&(Source, File)> = files.iter().collect();
    let mut open: Vec<Cursor<'_>> = Vec::new();
    let mut next_sequence = 0;
    loop {
        let next = open.iter().enumerate().min_by_key(|(_, cursor)| cursor.first_sequence()).map(|(i, _)| i);
        let due =
            |entry: &mut &(Source, File)| next.is_none_or(|i| entry.0.first <= open[i].first_sequence());
        if let Some((source, file)) = waiting.pop_if(due) {
            open.push(Cursor::open(source, file, metrics, &mut report)?);
            continue;
        }
        let Some(i) = next else { return Ok(report) };
        let cursor = &mut open[i];
        match cursor.frames.pop() {
            None => {
                open.swap_remove(i);
            }
            Some(frame) if frame.first_sequence < next_sequence => {}
            Some(frame) => {
                next_sequence = frame.first_sequence + 1;
                cursor.visit(frame, metrics, &mut report, visit)?;
            }
        }
    }
}

fn count_segments(sources: &[Source]) -> usize {
    let mut segments: Vec<u32> = sources.iter().map(|source| source.id.segment).collect();
    segments.dedup();
    segments.len()
}

/// A file that is being read.
struct Cursor<'a> {
    source: &'a Source,
    reader: FrameReader<'a>,
    /// The frames still to visit. The one with the smallest sequence number comes last.
    frames: Vec<FrameAt>,
}

impl<'a> Cursor<'a> {
    fn open(
        source: &'a Source,
        file: &'a File,
        metrics: &Metrics,
        report: &mut ReplayReport,
    ) -> Result<Self, JournalError> {
        let segment = source.id.segment;
        let read = || Ok((scan(file, segment, 0)?, FrameReader::new(file, segment)?));
        let (mut found, reader) = read().map_err(|error| failed(&source.path, error))?;
        // After a clean close, opening the journal has not checked the end of the file.
        let at_end = found.damage_before(source.end);
        found.damage.extend(at_end);
        let mut cursor = Self { source, reader, frames: found.frames };
        // Several writers append to one file, so its frames are not in order.
        cursor.frames.sort_by_key(|frame| Reverse(frame.first_sequence));
        metrics.note_damage(&source.path, &found.damage);
        report.corrupt_frames += found.damage.len() as u64;
        Ok(cursor)
    }

    /// The next sequence number. 0 if no frames are left, so that the cursor is closed at once.
    fn first_sequence(&self) -> u64 {
        self.frames.last().map_or(0, |frame| frame.first_sequence)
    }

    fn visit(
        &mut self,
        frame: FrameAt,
        metrics: &Metrics,
        report: &mut ReplayReport,
        visit: &mut dyn FnMut(Record<'_>),
    ) -> Result<(), JournalError> {
        let read = self.reader.frame(frame.at).map_err(|error| failed(&self.source.path, error))?;
        let visited = read.map(|bytes| (bytes.len(), visit_frame(bytes, visit)));
        match visited {
            Some((len, Ok(counts))) => {
                report.frames += 1;
                report.points += counts.points as u64;
                report.events += counts.events as u64;
                report.bytes += len as u64;
            }
            _ => {
                // The frame was intact when the file was scanned, so it was damaged or lost since then.
                let damage = Damage { from: frame.at, to: frame.at, hole: false, points: 0 };
                metrics.note_damage(&self.source.path, &[damage]);
                report.corrupt_frames += 1;
            }
        }
        Ok(())
    }
}

fn failed(path: &Path, error: io::Error) -> JournalError {
    JournalError::failed(format!("read {}", path.display()), error)
}
