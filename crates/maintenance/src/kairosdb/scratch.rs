//! The files of a run: the points, divided by series, and the progress of the run.
//!
//! All points of a series are in one part. A part is a sequence of records: the length of the name as two
//! bytes, the name, four counts of four bytes (points, values that are not kept, points with a time to live,
//! rows that no index lists), and 16 bytes for each point. Numbers are little-endian.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use plumbago_kairosdb::history::Entry;
use serde::{Deserialize, Serialize};

use super::report::ImportKairosdbReport;
use super::suggest::Suggestions;
use crate::alone;
use crate::backup::take::free_at;
use crate::kairosdb::ImportKairosdb;
use crate::skipped::unwritable;
use crate::verb::{Verb as _, VerbError};

/// Number of parts. Each is an open file while the points are divided.
pub(super) const PARTS: usize = 256;
/// Size of the counts of a record, in bytes.
const COUNTS_BYTES: usize = 16;
/// Size of a point, in bytes.
const POINT_BYTES: usize = 16;
/// Size of the write buffer of each part, in bytes.
const BUFFER_BYTES: usize = 1 << 16;
/// The free space on the disk is checked after this many appended bytes.
const LOOK_BYTES: u64 = 1 << 20;
/// Largest number of points in a record.
const RECORD_POINTS: usize = 1 << 16;

const STATE: &str = "state.json";

/// Where reading continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The file, the part of the token ring, or the metric.
    pub(super) source: usize,
    /// How many lines of the file are done; 0 for the other sources.
    pub(super) done: u64,
}

/// The progress of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct State {
    /// The parameters that determine the content of the files. A run with other parameters begins again.
    made_for: serde_json::Value,
    /// The position up to which everything was read.
    pub(super) position: Position,
    /// The length of each part at that time.
    lengths: Vec<u64>,
    /// Whether everything has been read.
    pub(super) is_split: bool,
    /// The parts that are already stored.
    pub(super) stored: BTreeSet<usize>,
    report: ImportKairosdbReport,
    suggestions: Suggestions,
}

/// The directory and the files that are open.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: PathBuf,
    state: State,
    parts: Vec<BufWriter<File>>,
    lengths: Vec<u64>,
    /// Bytes that must stay free on the disk, because the journal of the data directory needs some space
    /// there too.
    min_free: u64,
    /// Number of bytes appended since the last check of the free space.
    since_look: u64,
    /// The lock is beside the directory, because a run may recreate the directory.
    _lock: File,
}

/// The data of one series in a part.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) not_kept: u64,
    pub(super) with_ttl: u64,
    pub(super) unlisted_rows: u64,
    /// For each point, a key and the value. The key is twice the milliseconds, plus one for a floating point
    /// number, so that points sort by time and the one that wins comes last.
    pub(super) points: Vec<(i64, f64)>,
}

impl Scratch {
    /// Opens the directory. Files of an earlier run with the same parameters are used again. `min_free` bytes
    /// of the disk are left free.
    ///
    /// # Errors
    /// If the directory cannot be written, or another run uses it.
    pub(super) fn open(
        directory: &Path,
        made_for: serde_json::Value,
        min_free: u64,
    ) -> Result<Self, VerbError> {
        let lock = alone::lock(&directory.with_extension("lock"), ImportKairosdb::NAME)?;
        let state = fs::read(directory.join(STATE)).ok();
        let state = state.and_then(|bytes| serde_json::from_slice::<State>(&bytes).ok());
        let state = state.filter(|state| state.made_for == made_for && is_whole(directory, state));
        let state = match state {
            Some(state) => state,
            None => {
                match fs::remove_dir_all(directory) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        return Err(unwritable(directory, &error));
                    }
                    _ => {}
                }
                State { made_for, lengths: vec![0; PARTS], ..State::default() }
            }
        };
        fs::create_dir_all(directory).map_err(|error| unwritable(directory, &error))?;
        let lengths = state.lengths.clone();
        let mut scratch = Self {
            directory: directory.to_owned(),
            state,
            parts: Vec::new(),
            lengths,
            min_free,
            since_look: 0,
            _lock: lock,
        };
        if !scratch.state.is_split {
            scratch.open_parts()?;
            scratch.check_room()?;
        }
        Ok(scratch)
    }

    fn open_parts(&mut self) -> Result<(), VerbError> {
        for part in 0..PARTS {
            let path = self.path(part);
            let failed = |error| unwritable(&path, &error);
            let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
            // Everything that was written after the last checkpoint is read again.
            file.set_len(self.lengths[part]).map_err(failed)?;
            self.parts.push(BufWriter::with_capacity(BUFFER_BYTES, file));
        }
        Ok(())
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn report(&mut self) -> &mut ImportKairosdbReport {
        &mut self.state.report
    }

    /// The file of a part.
    pub(super) fn path(&self, part: usize) -> PathBuf {
        self.directory.join(format!("{part:03}"))
    }

    /// About how many points a part has.
    pub(super) fn points(&self, part: usize) -> u64 {
        self.lengths[part] / POINT_BYTES as u64
    }

    /// Appends an entry to the part of its series.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub(super) fn write(&mut self, entry: &Entry, is_unlisted: bool) -> Result<(), VerbError> {
        let part = part_of(&entry.name);
        let mut counts = [entry.not_kept_len(), entry.with_ttl, u64::from(is_unlisted)];
        let mut rest = entry.points.as_slice();
        loop {
            let (points, others) = rest.split_at(rest.len().min(RECORD_POINTS));
            let mut header = Vec::with_capacity(entry.name.len() + 2 + COUNTS_BYTES);
            // A name has at most some thousand bytes.
            header.extend((entry.name.len() as u16).to_le_bytes());
            header.extend(entry.name.as_bytes());
            for count in [points.len() as u64].into_iter().chain(counts) {
                header.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
            }
            self.append(part, &header)?;
            for point in points {
                let key = point.time_ms.saturating_mul(2).saturating_add(i64::from(point.is_double));
                let mut bytes = [0; POINT_BYTES];
                bytes[..8].copy_from_slice(&key.to_le_bytes());
                bytes[8..].copy_from_slice(&point.value.to_le_bytes());
                self.append(part, &bytes)?;
            }
            (rest, counts) = (others, [0; 3]);
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    fn append(&mut self, part: usize, bytes: &[u8]) -> Result<(), VerbError> {
        let len = bytes.len() as u64;
        self.lengths[part] += len;
        self.since_look += len;
        if self.since_look >= LOOK_BYTES {
            self.since_look = 0;
            self.check_room()?;
        }
        let written = self.parts[part].write_all(bytes);
        written.map_err(|error| self.failed(part, &error))
    }

    /// Fails before the space runs out that a daemon needs for its own files. Bytes in the buffers count as
    /// written.
    fn check_room(&mut self) -> Result<(), VerbError> {
        let Some(free) = free_at(&self.directory) else { return Ok(()) };
        let waiting: u64 = self.parts.iter().map(|part| part.buffer().len() as u64).sum();
        let free = free.saturating_sub(waiting);
        if free >= self.min_free {
            return Ok(());
        }
        self.cut_back();
        let why = format!(
            "{free} bytes are left for the files of the import, and {} of them are kept free for the journal and the store \
             (their min_free_bytes)",
            self.min_free
        );
        Err(VerbError::DiskFull { path: self.directory.clone(), why })
    }

    /// Notes that a part cannot be written. In that case the run has to end.
    fn failed(&mut self, part: usize, error: &std::io::Error) -> VerbError {
        self.cut_back();
        unwritable(&self.path(part), error)
    }

    /// Closes the parts at their lengths of the last checkpoint, because data that will be read again must
    /// not fill the disk.
    fn cut_back(&mut self) {
        for (part, length) in std::mem::take(&mut self.parts).into_iter().zip(&self.state.lengths) {
            let (file, _) = part.into_parts();
            // If this fails, the next run does it.
            let _ = file.set_len(*length);
        }
    }

    /// Makes sure that a run that is killed from here on continues at `position`.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub(super) fn checkpoint(&mut self, position: Position) -> Result<(), VerbError> {
        for part in 0..PARTS {
            let writer = &mut self.parts[part];
            let synced = writer.flush().and_then(|()| writer.get_ref().sync_data());
            synced.map_err(|error| self.failed(part, &error))?;
        }
        self.state.lengths.clone_from(&self.lengths);
        self.state.position = position;
        self.save()
    }

    /// Notes that everything is read.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub(super) fn finish_split(&mut self) -> Result<(), VerbError> {
        self.checkpoint(self.state.position)?;
        self.state.is_split = true;
        self.parts.clear();
        self.save()
    }

    /// Notes that a part is stored.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub(super) fn note_stored(
        &mut self,
        part: usize,
        report: &ImportKairosdbReport,
        suggestions: Suggestions,
    ) -> Result<(), VerbError> {
        self.state.report.add(report);
        self.state.suggestions.add(suggestions);
        self.state.stored.insert(part);
        self.save()
    }

    /// Removes the directory. Returns the report of the run.
    ///
    /// # Errors
    /// If the directory cannot be removed.
    pub(super) fn remove(self) -> Result<(ImportKairosdbReport, Suggestions), VerbError> {
        fs::remove_dir_all(&self.directory).map_err(|error| unwritable(&self.directory, &error))?;
        Ok((self.state.report, self.state.suggestions))
    }

    fn save(&self) -> Result<(), VerbError> {
        let (path, new) = (self.directory.join(STATE), self.directory.join("state.new"));
        let bytes = serde_json::to_vec(&self.state).map_err(|error| VerbError::Failed(error.to_string()))?;
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&bytes)?;
            file.sync_data()?;
            fs::rename(&new, &path)
        };
        write().map_err(|error| unwritable(&path, &error))
    }
}

/// The number of the part that contains a series.
fn part_of(name: &str) -> usize {
    xxhash_rust::xxh3::xxh3_64(name.as_bytes()) as usize % PARTS
}

/// Whether the parts have at least the lengths that the state says.
fn is_whole(directory: &Path, state: &State) -> bool {
    let has = |(part, length): (usize, &u64)| {
        let path = directory.join(format!("{part:03}"));
        fs::metadata(path).is_ok_and(|metadata| metadata.len() >= *length)
    };
    state.lengths.len() == PARTS && state.lengths.iter().enumerate().all(has)
}

/// Reads the records of a part.
///
/// # Errors
/// If the file cannot be read or is damaged.
pub(super) fn records(path: &Path, mut take: impl FnMut(Record)) -> Result<(), VerbError> {
    let failed = |error: std::io::Error| {
        VerbError::Failed(format!(
            "cannot read {}: {error}; remove its directory and run the command again",
            path.display()
        ))
    };
    let mut input = BufReader::with_capacity(1 << 18, File::open(path).map_err(failed)?);
    let mut bytes = Vec::new();
    loop {
        let mut length = [0; 2];
        match input.read_exact(&mut length) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read.map_err(failed)?,
        }
        bytes.resize(usize::from(u16::from_le_bytes(length)) + COUNTS_BYTES, 0);
        input.read_exact(&mut bytes).map_err(failed)?;
        let (name, counts) = bytes.split_at(bytes.len() - COUNTS_BYTES);
        let name = String::from_utf8(name.to_vec());
        let name = name.map_err(|_| failed(std::io::Error::other("a name in it is damaged")))?;
        let count = |at: usize| {
            let mut four = [0; 4];
            four.copy_from_slice(&counts[at * 4..at * 4 + 4]);
            u32::from_le_bytes(four)
        };
        let points = count(0) as usize;
        let (not_kept, with_ttl, unlisted_rows) = (count(1).into(), count(2).into(), count(3).into());
        if points > RECORD_POINTS {
            return Err(failed(std::io::Error::other("a record in it is damaged")));
        }
        bytes.resize(points * POINT_BYTES, 0);
        input.read_exact(&mut bytes).map_err(failed)?;
        let points = bytes.as_chunks::<POINT_BYTES>().0.iter().map(point).collect();
        take(Record { name, not_kept, with_ttl, unlisted_rows, points });
    }
}

fn point(bytes: &[u8; POINT_BYTES]) -> (i64, f64) {
    let (mut key, mut value) = ([0; 8], [0; 8]);
    key.copy_from_slice(&bytes[..8]);
    value.copy_from_slice(&bytes[8..]);
    (i64::from_le_bytes(key), f64::from_le_bytes(value))
}

#[cfg(test)]
mod tests {
    use plumbago_kairosdb::history::HistoryPoint;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_second_run_is_refused_while_the_first_one_works() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("jobs").join("import-kairosdb");
        let first = Scratch::open(&path, json!({ "files": ["a"] }), 0).unwrap();
        for made_for in [json!({ "files": ["a"] }), json!({ "files": ["b"] })] {
            let second = Scratch::open(&path, made_for, 0);
            assert!(matches!(second, Err(VerbError::Taken(_))), "{second:?}");
        }
        drop(first);
        Scratch::open(&path, json!({ "files": ["b"] }), 0).unwrap();
    }

    #[test]
    fn a_disk_without_room_ends_a_run_at_its_last_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("import-kairosdb");
        let point = HistoryPoint { time_ms: 1000, value: 1.5, is_double: true };
        let entry = Entry { name: "m;a=b".to_owned(), points: vec![point; 100_000], ..Entry::default() };
        let mut scratch = Scratch::open(&path, json!(1), 0).unwrap();
        scratch.write(&entry, false).unwrap();
        scratch.checkpoint(Position { source: 1, done: 0 }).unwrap();
        let length = fs::metadata(scratch.path(part_of("m;a=b"))).unwrap().len();
        assert!(length > 1_600_000, "{length}");
        scratch.min_free = u64::MAX;
        let error = scratch.write(&entry, false).unwrap_err();
        assert!(matches!(error, VerbError::DiskFull { .. }), "{error}");
        assert_eq!(fs::metadata(scratch.path(part_of("m;a=b"))).unwrap().len(), length);
        drop(scratch);
        let error = Scratch::open(&path, json!(1), u64::MAX).unwrap_err();
        assert!(matches!(error, VerbError::DiskFull { .. }), "{error}");
        let scratch = Scratch::open(&path, json!(1), 0).unwrap();
        assert_eq!(scratch.state().position, Position { source: 1, done: 0 });
        assert_eq!(scratch.points(part_of("m;a=b")), length / POINT_BYTES as u64);
    }
}
