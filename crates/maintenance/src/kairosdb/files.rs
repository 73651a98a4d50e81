//! The files of an import, read line by line in blocks.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;

use crate::verb::VerbError;

/// About how many bytes of lines one block has.
const BLOCK_BYTES: usize = 1 << 20;
/// The longest line that is read, in bytes. A line contains a storage row of KairosDB, which is three weeks
/// of one series.
const LINE_BYTES_MAX: usize = 256 << 20;
/// The first bytes of a file that is compressed with gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The files, in the order in which they are read.
#[derive(Debug)]
pub(super) struct Files(Vec<FoundFile>);

#[derive(Debug)]
struct FoundFile {
    path: PathBuf,
    bytes: u64,
    changed: String,
}

/// Consecutive lines of one file.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    /// Where each line ends.
    pub(super) ends: Vec<usize>,
    /// The number of its first line, counted from 0.
    pub(super) first: u64,
    /// The numbers of lines that are too long. These lines are empty in the block.
    pub(super) too_long: Vec<u64>,
}

impl Files {
    /// Checks the files.
    ///
    /// # Errors
    ///
    /// If a path is not a file, or cannot be read.
    pub(super) fn look(paths: &[PathBuf]) -> Result<Self, VerbError> {
        let mut files = Vec::new();
        for path in paths {
            let failed = |error: &dyn std::fmt::Display| {
                VerbError::Invalid(format!("cannot read {}: {error}", path.display()))
            };
            let metadata = fs::metadata(path).map_err(|error| failed(&error))?;
            if metadata.is_dir() {
                return Err(failed(&"it is a directory; name the files in it"));
            }
            fs::File::open(path).map_err(|error| failed(&error))?;
            let changed = format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec());
            files.push(FoundFile { path: path.clone(), bytes: metadata.len(), changed });
        }
        Ok(Self(files))
    }

    /// Path, size and time of change of each file. A run uses them to recognise that the files have not
    /// changed.
    pub(super) fn stamps(&self) -> Vec<(&Path, u64, &str)> {
        self.0.iter().map(|file| (&*file.path, file.bytes, &*file.changed)).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Size of all files, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|file| file.bytes).sum()
    }

    pub(super) fn path(&self, at: usize) -> &Path {
        &self.0[at].path
    }

    /// Opens a file and skips lines.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn open(&self, at: usize, skip: u64) -> Result<Lines, VerbError> {
        let path = self.0[at].path.clone();
        let failed = |error| unreadable(&path, &error);
        let mut file = BufReader::with_capacity(1 << 18, fs::File::open(&path).map_err(failed)?);
        let is_gzip = file.fill_buf().map_err(failed)?.starts_with(&GZIP);
        let input: Box<dyn BufRead + Send> = match is_gzip {
            true => Box::new(BufReader::with_capacity(1 << 18, MultiGzDecoder::new(file))),
            false => Box::new(file),
        };
        let mut lines = Lines { input, path, next: 0 };
        let mut block = Block::default();
        while lines.next < skip {
            block.clear();
            if !lines.line(&mut block)? {
                break;
            }
        }
        Ok(lines)
    }
}

/// The lines of a file.
pub(super) struct Lines {
    input: Box<dyn BufRead + Send>,
    path: PathBuf,
    next: u64,
}

impl Lines {
    /// The number of the next line, counted from 0.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Reads the next block; an empty one at the end.
    ///
    /// # Errors
    /// If the file cannot be read. In that case the block has the lines before the failure.
    pub(super) fn block(&mut self, block: &mut Block) -> Result<(), VerbError> {
        block.clear();
        block.first = self.next;
        while block.bytes.len() < BLOCK_BYTES && self.line(block)? {}
        Ok(())
    }

    /// Reads a line. Returns false at the end.
    fn line(&mut self, block: &mut Block) -> Result<bool, VerbError> {
        let from = block.bytes.len();
        let failed = |error| unreadable(&self.path, &error);
        let mut limited = self.input.by_ref().take(LINE_BYTES_MAX as u64 + 1);
        let read = limited.read_until(b'\n', &mut block.bytes).map_err(failed)?;
        if read == 0 {
            return Ok(false);
        }
        if read > LINE_BYTES_MAX {
            block.too_long.push(self.next);
            block.bytes.truncate(from);
            self.input.skip_until(b'\n').map_err(failed)?;
        } else if block.bytes.last() == Some(&b'\n') {
            block.bytes.pop();
        }
        block.ends.push(block.bytes.len());
        self.next += 1;
        Ok(true)
    }
}

impl Block {
    /// The lines with their numbers.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let lines = starts.zip(&self.ends).map(|(from, to)| &self.bytes[*from..*to]);
        (self.first..).zip(lines)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.too_long.clear();
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> VerbError {
    VerbError::Failed(format!("cannot read {}: {error}", path.display()))
}
