//! Reads the files of one metric, even while they are being written.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use plumbago_store::{History, HistoryStage};
use plumbago_whisper::{Header, POINT_BYTES, Points, Problem, Ring};

use super::walk::{FoundFile, Metric};

/// The largest file that is read: the offsets in a file have 32 bits.
const BYTES_MAX: u64 = 1 << 32;
/// Maximum number of points that are read from a file, because all of them are in memory at once. Three
/// years of seconds are fewer.
const POINTS_MAX: usize = 100_000_000;
/// Slots of a file that are read at once.
const SLOTS: usize = 64 << 10;
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
        match read_file(&found.path, since.unwrap_or(0), now, &mut reading.read_again) {
            Ok((stamp, contents)) => {
                reading.stamps.push(stamp);
                reading.add(&metric.name, contents);
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

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self { reason: "unreadable", text: error.to_string() }
    }
}

impl Reading {
    fn add(&mut self, name: &str, contents: Contents) {
        let config = contents.header.config();
        let history = self.history.get_or_insert_with(|| History {
            name: name.to_owned(),
            config: Arc::new(config),
            stages: Vec::new(),
        });
        self.unknown_values += contents.unknown_values;
        for (archive, points) in contents.header.archives.iter().zip(contents.points) {
            let resolution = archive.stage.resolution;
            match history.stages.iter_mut().find(|stage| stage.resolution == resolution) {
                None => history.stages.push(HistoryStage { resolution, points, ..HistoryStage::default() }),
                Some(stage) => stage.points = filled(&stage.points, &points),
            }
        }
        history.stages.sort_by_key(|stage| stage.resolution);
    }
}

/// What a file has that whisper shows.
#[derive(Debug)]
struct Contents {
    header: Header,
    /// The points of each archive, in the order of time.
    points: Vec<Vec<(u32, f64)>>,
    /// Number of slots whose value is not a number.
    unknown_values: u64,
}

impl Contents {
    /// Reads a file of this length. Stretches without points take no memory.
    fn read(file: &fs::File, bytes: u64, since: i64, now: i64) -> Result<Self, Trouble> {
        let mut head = vec![0; bytes.min(Header::BYTES_MAX as u64) as usize];
        file.read_exact_at(&mut head, 0)?;
        let header = Header::parse(&head, bytes)?;
        let points = vec![Vec::new(); header.archives.len()];
        let mut contents = Self { header, points, unknown_values: 0 };
        let archives = contents.header.archives.clone();
        let longest = archives.iter().map(|archive| archive.stage.points as usize).max().unwrap_or(0);
        let mut buffer = vec![0; longest.min(SLOTS) * POINT_BYTES];
        let empty = buffer.clone();
        for (at, archive) in archives.into_iter().enumerate() {
            let mut start = [0; POINT_BYTES];
            file.read_exact_at(&mut start, u64::from(archive.offset))?;
            let Some(ring) = Ring::new(archive, &start, now) else { continue };
            for piece in ring.pieces() {
                for offset in piece.clone().step_by(buffer.len()) {
                    let part = (piece.end - offset).min(buffer.len() as u64) as usize;
                    file.read_exact_at(&mut buffer[..part], offset)?;
                    if buffer[..part] != empty[..part] {
                        contents.add(at, ring.points(offset, &buffer[..part]), since)?;
                    }
                }
            }
        }
        Ok(contents)
    }

    fn add(&mut self, at: usize, points: Points<'_>, since: i64) -> Result<(), Trouble> {
        for (time, value) in points.filter(|(time, _)| i64::from(*time) >= since) {
            if value.is_nan() {
                self.unknown_values += 1;
            } else {
                self.points[at].push((time, value));
            }
        }
        if self.points.iter().map(Vec::len).sum::<usize>() <= POINTS_MAX {
            return Ok(());
        }
        let text = format!(
            "it has more than {POINTS_MAX} points, which are too many at once; leave out older ones with --since"
        );
        Err(Trouble { reason: "too_large", text })
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

/// Reads a file until it has not changed during the read. Points before `since` are left out.
fn read_file(
    path: &Path,
    since: i64,
    now: i64,
    read_again: &mut u64,
) -> Result<(FoundFile, Contents), Trouble> {
    for try_number in 1..=TRIES {
        let file = fs::File::open(path)?;
        let before = stamp(path, &file.metadata()?);
        if before.bytes > BYTES_MAX {
            let text =
                format!("it has {} bytes, and files over {BYTES_MAX} bytes are not read", before.bytes);
            return Err(Trouble { reason: "too_large", text });
        }
        let contents = Contents::read(&file, before.bytes, since, now);
        let after = stamp(path, &file.metadata()?);
        if before == after {
            return Ok((before, contents?));
        }
        // The last try accepts a file that kept its length: carbon replaces points in place, so the file
        // was complete all the time.
        if try_number == TRIES && before.bytes == after.bytes {
            return Ok((FoundFile { changed: 0, ..before }, contents?));
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
    use plumbago_model::{Aggregation, Retention};
    use plumbago_whisper::write_sparse;

    use super::*;

    #[test]
    fn a_long_file_with_few_points_is_read() {
        const NOW: i64 = 1_700_000_000;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seconds.wsp");
        let times: [u32; 4] = [1_650_000_000, 1_650_100_000, 1_699_999_999, 1_700_000_000];
        let fine = times.map(|time| (time, f64::from(time))).to_vec();
        let coarse = vec![(1_620_000_000, f64::NAN), (1_650_000_000, 0.1)];
        let retention: Retention = "1s:3y,60s:4y".parse().unwrap();
        let written =
            write_sparse(&retention, Aggregation::Max, 0.5, &[fine.clone(), coarse.clone()]).unwrap();
        assert!(written.len > 1 << 30);
        let file = fs::File::create(&path).unwrap();
        file.set_len(written.len).unwrap();
        for (offset, bytes) in &written.parts {
            file.write_all_at(bytes, *offset).unwrap();
        }
        let found = stamp(&path, &file.metadata().unwrap());
        let metric = Metric { name: "seconds".to_owned(), files: vec![found.clone()] };
        let reading = read_metric(&metric, None, NOW);
        assert!(reading.problems.is_empty(), "{:?}", reading.problems);
        assert_eq!((reading.stamps, reading.unknown_values), (vec![found], 1));
        let history = reading.history.unwrap();
        assert_eq!(history.config.retention, retention);
        let stages = history.stages.iter().map(|stage| stage.points.clone());
        assert!(stages.eq([fine.clone(), coarse[1..].to_vec()]));
        let later = read_metric(&metric, Some(1_699_999_999), NOW).history.unwrap();
        assert!(later.stages[0].points == fine[2..] && later.stages[1].points.is_empty());
        // The offsets of a file have 32 bits.
        file.set_len(BYTES_MAX + 1).unwrap();
        let reading = read_metric(&metric, None, NOW);
        assert_eq!(reading.problems[0].1.reason, "too_large");
    }

    #[test]
    fn a_second_tree_only_fills_gaps() {
        let first = [(10, 1.0), (30, 3.0)];
        let other = [(0, 0.5), (10, 9.0), (20, 2.0), (40, 4.0)];
        assert_eq!(filled(&first, &other), [(0, 0.5), (10, 1.0), (20, 2.0), (30, 3.0), (40, 4.0)]);
        assert_eq!(filled(&[], &other), other);
        assert_eq!(filled(&first, &[]), first);
    }
}
