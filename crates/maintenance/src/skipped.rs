//! A file that lists what an import has skipped. The counts are in the report of the import ([`SkipCounts`]).

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::counts::SkipCounts;
use crate::verb_error::VerbError;

/// The list in a file, or no list.
pub(crate) struct Skipped(Option<(PathBuf, BufWriter<File>)>);

impl Skipped {
    /// Opens the list in a file; without a path, nothing is listed. A run that continues appends to the list.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(crate) fn open(path: Option<&Path>, goes_on: bool) -> Result<Self, VerbError> {
        let Some(path) = path else { return Ok(Self(None)) };
        let mut options = OpenOptions::new();
        let file = options.create(true).write(true).append(goes_on).truncate(!goes_on).open(path);
        let file = file.map_err(|error| match unwritable(path, &error) {
            VerbError::Failed(text) => VerbError::Invalid(text),
            error => error,
        })?;
        Ok(Self(Some((path.to_owned(), BufWriter::new(file)))))
    }

    /// Counts and lists one skipped item.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub(crate) fn note(
        &mut self,
        counts: &mut SkipCounts,
        reason: &str,
        what: &str,
        text: &str,
    ) -> Result<(), VerbError> {
        counts.note(reason, what, text);
        self.list(reason, what, text)
    }

    /// Lists an item that does not count as skipped.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub(crate) fn list(&mut self, reason: &str, what: &str, text: &str) -> Result<(), VerbError> {
        let Some((path, out)) = &mut self.0 else { return Ok(()) };
        writeln!(out, "{reason}\t{what}\t{text}").map_err(|error| unwritable(path, &error))
    }

    /// Writes the buffered lines.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub(crate) fn flush(&mut self) -> Result<(), VerbError> {
        let Some((path, out)) = &mut self.0 else { return Ok(()) };
        out.flush().map_err(|error| unwritable(path, &error))
    }
}

/// The error for a file of the import that cannot be written.
pub(crate) fn unwritable(path: &Path, error: &std::io::Error) -> VerbError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            VerbError::DiskFull { path: path.to_owned(), why: error.to_string() }
        }
        _ => VerbError::Failed(format!("cannot write {}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verb_error::FailureKind;

    #[test]
    fn a_full_disk_is_said() {
        let path = Path::new("/data/list");
        let full = unwritable(path, &ErrorKind::StorageFull.into());
        assert_eq!(full.kind(), FailureKind::Store);
        let text = full.text();
        assert!(text.contains("the disk of /data/list is full") && text.contains("it continues"), "{text}");
        let other = unwritable(path, &ErrorKind::PermissionDenied.into());
        assert_eq!(other.kind(), FailureKind::Failed);
        assert!(other.text().contains("cannot write /data/list"), "{}", other.text());
    }
}
