//! Reads the files of one metric, even while they are being written.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plumbago_store::{History, HistoryStage};
use plumbago_whisper::{File, Problem};

use super::walk::{FoundFile, Metric};

/// The largest file that is read.
const BYTES_MAX: u64 = 1 << 30;
/// How often a file is read at most if it changes while it is read.
const TRIES: u32 = 10;
/// Pause before a file is read again.
const PAUSE: Duration = Duration::from_millis(20);

/// Why a file was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: &'static str,
    pub(super) text: String,
}

/// The result of reading a metric.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The history; `None` if no file could be read.
    pub(super) history: Option<History>,
    pub(super) problems: Vec<(PathBuf, Trouble)>,
    /// How often a file was read again because it had changed.
    pub(super) read_again: u64,
    /// Number of slots whose value is not a number, so that no reader shows it.
    pub(super) unknown_values: u64,
    /// The files as they were when they were read.
    pub(super) stamps: Vec<FoundFile>,
}

/// Reads all files of a metric and merges them. A later file only fills gaps of the earlier ones.
pub(super) fn read_metric(metric: &Metric, since: Option<i64>, now: i64) -> Reading {
    let mut reading = Reading::default();
    for found in &metric.files {
        match read_file(&found.path, &mut reading.read_again) {
            Ok((stamp, bytes)) => {
                reading.stamps.push(stamp);
                match File::parse(&bytes) {
                    Ok(file) => reading.add(&metric.name, &file, since, now),
                    Err(problem) => reading.problems.push((found.path.clone(), problem.into())),
                }
            }
            Err(trouble) => reading.problems.push((found.path.clone(), trouble)),
        }
    }
    reading
}

impl From<Problem> for Trouble {
    fn from(problem: Problem) -> Self {
        Self { reason: problem.reason(), text: format!("it {problem}") }
    }
}

impl Reading {
    fn add(&mut self, name: &str, file: &File<'_>, since: Option<i64>, now: i64) {
        let history = self.history.get_or_insert_with(|| {
            let config = Arc::new(file.header.config());
            History { name: name.to_owned(), config, stages: Vec::new() }
        });
        for (at, archive) in file.header.archives.iter().enumerate() {
            let points =
                file.points(at, now).filter(|(time, _)| since.is_none_or(|since| i64::from(*time) >= since));
            let mut known: Vec<(u32, f64)> = points.collect();
            let all = known.len();
            known.retain(|(_, value)| !value.is_nan());
            self.unknown_values += (all - known.len()) as u64;
            let resolution = archive.stage.resolution;
            match history.stages.iter_mut().find(|stage| stage.resolution == resolution) {
                None => {
                    history.stages.push(HistoryStage {
                        resolution,
                        points: known,
                        ..HistoryStage::default()
                    });
                }
                Some(stage) => stage.points = filled(&stage.points, &known),
            }
        }
        history.stages.sort_by_key(|stage| stage.resolution);
    }
}

/// The points of `first`, with the points of `other` between them.
fn filled(first: &[(u32, f64)], other: &[(u32, f64)]) -> Vec<(u32, f64)> {
    let mut all = Vec::with_capacity(first.len().max(other.len()));
    let mut others = other.iter().copied().peekable();
    for point in first {
        while let Some(before) = others.next_if(|(time, _)| *time < point.0) {
            all.push(before);
        }
        others.next_if(|(time, _)| *time == point.0);
        all.push(*point);
    }
    all.extend(others);
    all
}

/// Reads a file until it has not changed during the read.
fn read_file(path: &Path, read_again: &mut u64) -> Result<(FoundFile, Vec<u8>), Trouble> {
    let unreadable = |error: std::io::Error| Trouble { reason: "unreadable", text: error.to_string() };
    for try_number in 1..=TRIES {
        let mut file = fs::File::open(path).map_err(unreadable)?;
        let before = stamp(path, &file.metadata().map_err(unreadable)?);
        if before.bytes > BYTES_MAX {
            let text =
                format!("it has {} bytes, and files over {BYTES_MAX} bytes are not read", before.bytes);
            return Err(Trouble { reason: "too_large", text });
        }
        let mut bytes = Vec::with_capacity(before.bytes as usize + 1);
        file.by_ref().take(BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
        let after = stamp(path, &file.metadata().map_err(unreadable)?);
        let is_whole = bytes.len() as u64 == after.bytes && before == after;
        if is_whole {
            return Ok((before, bytes));
        }
        // A complete file with one point of the next write is as good as one read a moment later.
        if try_number == TRIES && bytes.len() as u64 == after.bytes {
            return Ok((FoundFile { changed: 0, ..before }, bytes));
        }
        *read_again += 1;
        std::thread::sleep(PAUSE);
    }
    let text = format!("it changed {TRIES} times while it was read; import it again");
    Err(Trouble { reason: "changing", text })
}

fn stamp(path: &Path, metadata: &fs::Metadata) -> FoundFile {
    let changed = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
    FoundFile { path: path.to_owned(), bytes: metadata.len(), changed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_tree_only_fills_gaps() {
        let first = [(10, 1.0), (30, 3.0)];
        let other = [(0, 0.5), (10, 9.0), (20, 2.0), (40, 4.0)];
        assert_eq!(filled(&first, &other), [(0, 0.5), (10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0)]);
        assert_eq!(filled(&[], &other), other);
        assert_eq!(filled(&first, &[]), first);
    }
}
