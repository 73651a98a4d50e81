//! The list of files that were stored, each with its size and the time of its last change. With it, a run
//! after a kill continues, and a second run imports only changed files.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;

use super::walk::{FoundFile, Metric};
use super::{ImportWhisper, VerbError};
use crate::skipped::unwritable;

/// The list, and the file to which it is appended.
pub(super) struct StoredFiles {
    path: PathBuf,
    /// The options of the import. With other options, the files are imported again.
    options: String,
    known: HashMap<String, (u64, i128)>,
    out: Option<BufWriter<fs::File>>,
}

impl StoredFiles {
    /// Reads the list, and opens it for appending. Lines that cannot be read are ignored: their files are stored again,
    /// which changes nothing.
    pub(super) fn open(path: Option<PathBuf>, plan: &ImportWhisper) -> Result<Self, VerbError> {
        let options = format!(
            "{} {} {}",
            plan.prefix,
            plan.since.map_or_else(|| "all".to_owned(), |since| since.to_string()),
            u8::from(plan.overwrite) + 2 * u8::from(plan.rules)
        );
        let mut list =
            Self { path: path.clone().unwrap_or_default(), options, known: HashMap::new(), out: None };
        let Some(path) = &path else { return Ok(list) };
        let failed = |error| unwritable(path, &error);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        if let Ok(file) = fs::File::open(path) {
            let lines = BufReader::new(file).lines().map_while(Result::ok);
            for (key, stamp) in lines.filter_map(|line| parse(&line)) {
                list.known.insert(key, stamp);
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
        list.out = Some(BufWriter::new(file));
        // A line that a crash has cut off must not damage the next line.
        list.write(b"\n")?;
        Ok(list)
    }

    /// Whether all files of the metric were stored in their present state.
    pub(super) fn has(&self, metric: &Metric) -> bool {
        metric.files.iter().all(|file| {
            self.key(file).is_some_and(|key| self.known.get(&key) == Some(&(file.bytes, file.changed)))
        })
    }

    /// Notes that these files were stored.
    pub(super) fn note(&mut self, files: &[FoundFile]) -> Result<(), VerbError> {
        for file in files {
            if let Some(key) = self.key(file) {
                let line = serde_json::json!([key, file.bytes, file.changed.to_string()]);
                self.write(format!("{line}\n").as_bytes())?;
            }
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), VerbError> {
        let flushed = self.out.as_mut().map_or(Ok(()), Write::flush);
        flushed.map_err(|error| unwritable(&self.path, &error))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), VerbError> {
        let written = self.out.as_mut().map_or(Ok(()), |out| out.write_all(bytes));
        written.map_err(|error| unwritable(&self.path, &error))
    }

    fn key(&self, file: &FoundFile) -> Option<String> {
        let path = fs::canonicalize(&file.path).ok()?;
        Some(format!("{} {}", self.options, path.to_str()?))
    }
}

fn parse(line: &str) -> Option<(String, (u64, i128))> {
    let (key, bytes, changed): (String, u64, String) = serde_json::from_str(line).ok()?;
    Some((key, (bytes, changed.parse().ok()?)))
}
