//! Imports the points in files.

use plumbago_kairosdb::history::{Entry, HistoryLines};

use super::files::{Block, Files};
use super::scratch::Position;
use super::split::Splitter;
use crate::verb::VerbError;

/// A line that was read, or why it could not be read.
type Line = (u64, Result<Entry, String>);

/// Imports the rest of the files.
///
/// # Errors
///
/// If a file cannot be opened, the scratch directory cannot be written, or the run is cancelled.
pub(super) fn take(splitter: &mut Splitter, files: &Files, workers: usize) -> Result<(), VerbError> {
    splitter.work.progress.begin("reading: points", None);
    let Position { source, done } = splitter.position();
    for at in source..files.len() {
        file(splitter, files, at, if at == source { done } else { 0 }, workers)?;
        splitter.checkpoint(Position { source: at + 1, done: 0 })?;
    }
    let report = splitter.report();
    (report.files, report.bytes) = (files.len() as u64, files.bytes());
    Ok(())
}

fn file(
    splitter: &mut Splitter,
    files: &Files,
    at: usize,
    skip: u64,
    workers: usize,
) -> Result<(), VerbError> {
    let mut lines = files.open(at, skip)?;
    let path = files.path(at).display().to_string();
    let mut blocks: Vec<Block> = (0..workers).map(|_| Block::default()).collect();
    loop {
        splitter.work.go_on()?;
        blocks.iter_mut().for_each(Block::clear);
        // After an error, the following blocks are empty.
        let broken = blocks.iter_mut().try_for_each(|block| lines.block(block)).err();
        let too_long = blocks.iter().flat_map(|block| &block.too_long);
        let too_long = too_long.map(|number| (*number, Err("it is longer than 256 MiB".to_owned())));
        for (number, line) in read_side_by_side(&blocks).into_iter().flatten().chain(too_long) {
            match line {
                Ok(entry) => splitter.take(entry, false)?,
                Err(why) => splitter.skip("unreadable_line", &format!("{path}:{}", number + 1), &why)?,
            }
        }
        if let Some(error) = broken {
            // The lines read from a truncated file are used.
            return splitter.skip("unreadable", &path, &error.to_string());
        }
        if blocks.last().is_none_or(|block| block.ends.is_empty()) {
            return Ok(());
        }
        if splitter.is_checkpoint_due() {
            splitter.checkpoint(Position { source: at, done: lines.next() })?;
        }
    }
}

/// Reads blocks, each in a thread of its own.
fn read_side_by_side(blocks: &[Block]) -> Vec<Vec<Line>> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = blocks.iter().map(|block| scope.spawn(|| read(block))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// Reads the lines of a block. Points of one series in consecutive lines become one entry.
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
