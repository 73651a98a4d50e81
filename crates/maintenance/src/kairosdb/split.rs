//! Reads the files once and divides their points by series.

use std::collections::HashSet;
use std::path::Path;

use plumbago_kairosdb::history::{Entry, HistoryLines};
use plumbago_kairosdb::names;

use super::files::{Block, Files};
use super::report::{ImportKairosdbReport, Skipped, reason};
use super::scratch::{Position, Scratch};
use crate::verb::{VerbError, Work};
use crate::verbs::kairosdb::ImportKairosdb;

/// Points between two moments from which a killed run can go on.
const CHECKPOINT_POINTS: u64 = 16 << 20;

/// Divides what is left to divide.
///
/// # Errors
/// If a file cannot be read or the scratch directory not be written, or the run is cancelled.
pub(super) async fn split(
    plan: &ImportKairosdb,
    files: Files,
    scratch: Scratch,
    work: &Work,
) -> Result<Scratch, VerbError> {
    if scratch.state().is_split {
        return Ok(scratch);
    }
    work.progress.begin("reading: points", None);
    let skipped = Skipped::open(plan.skipped.as_deref(), scratch.state().position != Position::default())?;
    let filter = Filter::new(plan);
    let (workers, work) = (plan.workers, work.clone());
    let splitting = move || {
        let mut splitter = Splitter { scratch, skipped, filter, work, since_checkpoint: 0 };
        splitter.files(&files, workers)?;
        splitter.finish(&files)
    };
    tokio::task::spawn_blocking(splitting).await.map_err(|error| VerbError::Failed(error.to_string()))?
}

/// Which points are wanted.
struct Filter {
    /// In milliseconds.
    from: i64,
    until: i64,
    /// As they stand in names; empty for all.
    metrics: HashSet<String>,
}

impl Filter {
    fn new(plan: &ImportKairosdb) -> Self {
        let ms = |time: i64| time.saturating_mul(1000);
        Self {
            from: plan.from.map_or(i64::MIN, ms),
            until: plan.until.map_or(i64::MAX, ms),
            metrics: plan.metrics.iter().map(|metric| names::metric(metric).into_owned()).collect(),
        }
    }

    /// Removes what is not wanted. Returns how many points that are.
    fn apply(&self, entry: &mut Entry) -> u64 {
        let before = entry.points.len();
        let metric = entry.name.split(';').next().unwrap_or_default();
        if !self.metrics.is_empty() && !self.metrics.contains(metric) {
            entry.points.clear();
            entry.not_kept.clear();
        } else {
            entry.points.retain(|point| (self.from..self.until).contains(&point.time_ms));
        }
        (before - entry.points.len()) as u64
    }
}

struct Splitter {
    scratch: Scratch,
    skipped: Skipped,
    filter: Filter,
    work: Work,
    since_checkpoint: u64,
}

/// A line that was read, or why it was not.
type Line = (u64, Result<Entry, String>);

impl Splitter {
    fn files(&mut self, files: &Files, workers: usize) -> Result<(), VerbError> {
        let Position { file, lines } = self.scratch.state().position;
        for at in file..files.len() {
            let skip = if at == file { lines } else { 0 };
            self.file(files, at, skip, workers)?;
            self.checkpoint(Position { file: at + 1, lines: 0 })?;
        }
        Ok(())
    }

    fn file(&mut self, files: &Files, at: usize, skip: u64, workers: usize) -> Result<(), VerbError> {
        let mut lines = files.open(at, skip)?;
        let mut blocks: Vec<Block> = (0..workers).map(|_| Block::default()).collect();
        loop {
            self.work.go_on()?;
            blocks.iter_mut().for_each(Block::clear);
            // After an error the other blocks are empty.
            let broken = blocks.iter_mut().try_for_each(|block| lines.block(block)).err();
            let read = read_side_by_side(&blocks);
            for (number, line) in read.into_iter().flatten() {
                self.line(files.path(at), number, line)?;
            }
            for number in blocks.iter().flat_map(|block| &block.too_long) {
                let why = "it is longer than 256 MiB".to_owned();
                self.line(files.path(at), *number, Err(why))?;
            }
            if let Some(error) = broken {
                // What was read of a file that is cut off counts.
                let report = self.scratch.report();
                let path = files.path(at).display().to_string();
                return self.skipped.note(report, "unreadable", &path, &error.to_string());
            }
            if blocks.last().is_none_or(|block| block.ends.is_empty()) {
                return Ok(());
            }
            if self.since_checkpoint >= CHECKPOINT_POINTS {
                self.checkpoint(Position { file: at, lines: lines.next() })?;
            }
        }
    }

    fn line(&mut self, path: &Path, number: u64, line: Result<Entry, String>) -> Result<(), VerbError> {
        match line {
            Ok(entry) => self.entry(entry),
            Err(why) => {
                let place = format!("{}:{}", path.display(), number + 1);
                self.skipped.note(self.scratch.report(), "unreadable_line", &place, &why)
            }
        }
    }

    fn entry(&mut self, mut entry: Entry) -> Result<(), VerbError> {
        if entry.name.is_empty() {
            return Ok(());
        }
        let read = entry.points.len() as u64;
        let outside = self.filter.apply(&mut entry);
        let report: &mut ImportKairosdbReport = self.scratch.report();
        report.lines += 1;
        report.points += read;
        report.outside += outside;
        report.cut += entry.points.iter().filter(|point| point.time_ms % 1000 != 0).count() as u64;
        report.rounded += entry.rounded;
        report.with_ttl += entry.with_ttl;
        for (kind, count) in &entry.not_kept {
            *report.not_kept.entry(kind.clone()).or_default() += count;
        }
        for (why, count) in &entry.refused {
            *report.refused.entry(reason(*why).to_owned()).or_default() += count;
        }
        self.scratch.write(&entry)?;
        self.since_checkpoint += read;
        self.work.progress.add(read);
        Ok(())
    }

    fn checkpoint(&mut self, position: Position) -> Result<(), VerbError> {
        self.since_checkpoint = 0;
        self.skipped.flush()?;
        self.scratch.checkpoint(position)
    }

    fn finish(mut self, files: &Files) -> Result<Scratch, VerbError> {
        let report = self.scratch.report();
        (report.files, report.bytes) = (files.len() as u64, files.bytes());
        self.skipped.close()?;
        self.scratch.finish_split()?;
        Ok(self.scratch)
    }
}

/// Reads blocks, each in a thread of its own.
fn read_side_by_side(blocks: &[Block]) -> Vec<Vec<Line>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = blocks.iter().map(|block| scope.spawn(|| read(block))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// Reads the lines of a block. Points of one series in lines that follow each other become one entry.
fn read(block: &Block) -> Vec<Line> {
    let mut reader = HistoryLines::default();
    let mut all: Vec<Line> = Vec::new();
    let mut entry = Entry::default();
    for (number, line) in block.lines() {
        match reader.read(line, &mut entry) {
            Err(why) => all.push((number, Err(why))),
            Ok(()) => match all.last_mut() {
                Some((_, Ok(last))) if last.name == entry.name => last.append(&mut entry),
                _ => all.push((number, Ok(std::mem::take(&mut entry)))),
            },
        }
    }
    all
}
