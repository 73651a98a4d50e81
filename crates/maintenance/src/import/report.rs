//! What an import has done.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use plumbago_store::HistoryReport;
use serde::{Deserialize, Serialize};

use super::VerbError;

/// Names of skipped files in the report.
const EXAMPLES_MAX: usize = 5;

/// The results of an import so far.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Whisper files that were found.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Metrics to import.
    pub metrics: u64,
    /// Metrics left out because their files have not changed since they were imported.
    pub unchanged: u64,
    /// Metrics that did not exist.
    pub created: u64,
    /// Metrics that existed with other settings than their files have. They keep theirs.
    pub other_settings: u64,
    /// Points that were stored; in a dry run, that would be.
    pub stored: u64,
    /// Points whose slot was known already.
    pub kept: u64,
    /// Windows folded anew from stored and imported points.
    pub folded: u64,
    /// Points that no stage of their metric takes, or that have expired.
    pub left_out: u64,
    /// Slots whose value is not a number.
    pub unknown_values: u64,
    /// How often a file was read again because it had changed while it was read.
    pub read_again: u64,
    /// Files that were skipped or need attention, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// A few of them for each reason.
    pub examples: BTreeMap<String, Vec<String>>,
    /// True if nothing was changed.
    pub dry_run: bool,
    /// How long it took.
    pub seconds: f64,
}

impl ImportReport {
    pub(super) fn add(&mut self, stored: &HistoryReport) {
        self.created += u64::from(stored.created);
        self.other_settings += u64::from(stored.differs);
        self.stored += stored.stored;
        self.kept += stored.kept;
        self.folded += stored.folded;
        self.left_out += stored.left_out;
    }
}

/// The list of skipped files.
pub(super) struct Skipped(Option<(PathBuf, BufWriter<fs::File>)>);

impl Skipped {
    /// Lists them in a file, or nowhere.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, VerbError> {
        let Some(path) = path else { return Ok(Self(None)) };
        let file = fs::File::create(path);
        let file = file.map_err(|error| unwritable(path, &error))?;
        Ok(Self(Some((path.to_owned(), BufWriter::new(file)))))
    }

    /// Counts and lists a file.
    pub(super) fn note(
        &mut self,
        report: &mut ImportReport,
        file: &Path,
        reason: &str,
        text: &str,
    ) -> Result<(), VerbError> {
        *report.skipped.entry(reason.to_owned()).or_default() += 1;
        let shown = format!("{file:?}");
        let shown = shown.trim_matches('"');
        let examples = report.examples.entry(reason.to_owned()).or_default();
        if examples.len() < EXAMPLES_MAX {
            examples.push(format!("{shown}: {text}"));
        }
        let Some((path, out)) = &mut self.0 else { return Ok(()) };
        writeln!(out, "{reason}\t{shown}\t{text}").map_err(|error| unwritable(path, &error))
    }

    pub(super) fn close(&mut self) -> Result<(), VerbError> {
        let Some((path, out)) = &mut self.0 else { return Ok(()) };
        out.flush().map_err(|error| unwritable(path, &error))
    }
}

/// The error of a file of an import's own.
pub(crate) fn unwritable(path: &Path, error: &std::io::Error) -> VerbError {
    VerbError::Failed(format!("cannot write {}: {error}", path.display()))
}
