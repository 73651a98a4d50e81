//! Reads requests from files, which may be access logs or captures.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::packet::Magic;
use super::pcap::{Capture, is_capture};
use super::text::next_line;
use super::{Recorded, Skipped, access_log, gzip};
use crate::BenchError;

/// The requests of some files, one file after the other.
pub(super) struct Requests {
    files: VecDeque<PathBuf>,
    current: Option<(PathBuf, Source)>,
    /// The number of lines and requests left out so far, by reason.
    pub(super) skipped: Skipped,
}

enum Source {
    Log(Box<dyn BufRead>),
    Capture(Box<Capture>),
}

impl Requests {
    pub(super) fn new(files: &[PathBuf]) -> Self {
        Self { files: files.iter().cloned().collect(), current: None, skipped: Skipped::new() }
    }

    /// The next request; `None` after the last one.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn next(&mut self) -> Result<Option<Recorded>, BenchError> {
        loop {
            if self.current.is_none() {
                let Some(file) = self.files.pop_front() else { return Ok(None) };
                let source = Source::open(&file).map_err(BenchError::io(action(&file)))?;
                self.current = Some((file, source));
            }
            if let Some((file, source)) = &mut self.current
                && let Some(request) = source.next(&mut self.skipped).map_err(BenchError::io(action(file)))?
            {
                return Ok(Some(request));
            }
            self.current = None;
        }
    }
}

impl Source {
    fn open(file: &Path) -> io::Result<Self> {
        let mut reader = open(file)?;
        let mut first = Vec::new();
        (&mut reader).take(4).read_to_end(&mut first)?;
        if let Ok(magic) = Magic::try_from(first.as_slice())
            && is_capture(magic)
        {
            return Ok(Self::Capture(Box::new(Capture::new(magic, reader)?)));
        }
        Ok(Self::Log(Box::new(BufReader::new(io::Cursor::new(first).chain(reader)))))
    }

    fn next(&mut self, skipped: &mut Skipped) -> io::Result<Option<Recorded>> {
        let log = match self {
            Self::Capture(capture) => return capture.next(skipped),
            Self::Log(log) => log,
        };
        while let Some(line) = next_line(log, skipped)? {
            match access_log::read(&line) {
                Ok(request) => return Ok(Some(request)),
                Err(_) if line.trim().is_empty() => {}
                Err(why) => *skipped.entry(why).or_default() += 1,
            }
        }
        Ok(None)
    }
}

/// Describes the reading of a file, for error messages.
pub(super) fn action(file: &Path) -> String {
    format!("cannot read {}", file.display())
}

/// Opens a file for reading, and decompresses it if it is a gzip file; `-` is standard input.
pub(super) fn open(file: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut reader: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        Box::new(BufReader::new(File::open(file)?))
    };
    let mut first = Vec::new();
    (&mut reader).take(gzip::MAGIC.len() as u64).read_to_end(&mut first)?;
    let is_gzip = first == gzip::MAGIC;
    let whole = io::Cursor::new(first).chain(reader);
    if is_gzip { Ok(Box::new(BufReader::new(gzip::Plain::new(whole)))) } else { Ok(Box::new(whole)) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn files_of_each_kind_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let line = "- - - [10/Oct/2000:13:55:36 -0700] \"GET /render?target=a HTTP/1.0\" 200 2326\n";
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(line.as_bytes()).unwrap();
        let packed = packed.finish().unwrap();
        let logs = [
            file("a", format!("{line}\nodd\n{line}").as_bytes()),
            file("b", b"x"),
            file("c", b""),
            file("d", &packed),
        ];
        let mut requests = Requests::new(&logs);
        let mut found = 0;
        while requests.next().unwrap().is_some() {
            found += 1;
        }
        assert_eq!((found, requests.skipped.values().sum::<u64>()), (3, 2));
        for (name, bytes, said) in [
            ("ng", b"\x0a\x0d\x0d\x0a........".as_slice(), "damaged"),
            ("gz", b"\x1f\x8b\x08\0....".as_slice(), "cut or damaged"),
            ("cut", b"\xd4\xc3\xb2\xa1".as_slice(), "cut"),
        ] {
            let error = Requests::new(&[file(name, bytes)]).next().unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
        assert!(Requests::new(&[dir.path().join("none")]).next().is_err());
    }
}
