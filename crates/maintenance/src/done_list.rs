//! A list of the metrics that a run has stored, so that a run after a kill can continue. The list is removed
//! at the end of the run.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::alone;
use crate::skipped::unwritable;
use crate::verb_error::VerbError;

/// The list, and the file to which it is appended.
pub(crate) struct DoneList {
    path: PathBuf,
    known: HashSet<String>,
    out: Option<BufWriter<fs::File>>,
}

impl DoneList {
    /// Locks the list's file and reads it.
    ///
    /// # Errors
    /// As [`DoneList::lock`] and [`DoneList::begin`].
    pub(crate) fn open(path: Option<PathBuf>, made_for: &Value, verb: &str) -> Result<Self, VerbError> {
        Self::lock(path, verb)?.begin(made_for)
    }

    /// Locks the list's file until the list is dropped. Without a path, nothing is kept. `verb` names the run in error
    /// messages.
    ///
    /// # Errors
    /// If the file cannot be written, or if another run uses it. That may be the job of a command that was
    /// killed, since the job continues.
    pub(crate) fn lock(path: Option<PathBuf>, verb: &str) -> Result<Self, VerbError> {
        let mut list = Self { path: path.clone().unwrap_or_default(), known: HashSet::new(), out: None };
        let Some(path) = path else { return Ok(list) };
        let failed = |error| unwritable(&path, &error);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        alone::hold(&file, &path, verb)?;
        list.out = Some(BufWriter::new(file));
        Ok(list)
    }

    /// Continues with the list in the file if it was made for the same options; otherwise begins a new one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn begin(mut self, made_for: &Value) -> Result<Self, VerbError> {
        let Some(mut out) = self.out.take() else { return Ok(self) };
        let failed = |error| unwritable(&self.path, &error);
        let found = read(&self.path, made_for);
        let goes_on = found.is_some();
        if !goes_on {
            out.get_ref().set_len(0).map_err(failed)?;
        }
        // A line that a crash has cut off must not damage the next line.
        let first = if goes_on { "\n".to_owned() } else { format!("{made_for}\n") };
        out.write_all(first.as_bytes()).and_then(|()| out.flush()).map_err(failed)?;
        Ok(Self { known: found.unwrap_or_default(), out: Some(out), ..self })
    }

    /// Whether the list continues that of an interrupted run.
    pub(crate) fn goes_on(&self) -> bool {
        !self.known.is_empty()
    }

    /// Whether the interrupted run has stored the metric.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.known.contains(name)
    }

    /// Adds metrics that were stored.
    pub(crate) fn note(&mut self, names: &[&str]) -> Result<(), VerbError> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let written = names.iter().try_for_each(|name| writeln!(out, "{}", Value::from(*name)));
        written.and_then(|()| out.flush()).map_err(|error| unwritable(&self.path, &error))
    }

    /// Removes the list, because the run is complete.
    pub(crate) fn remove(self) -> Result<(), VerbError> {
        if self.out.is_none() {
            return Ok(());
        }
        match fs::remove_file(&self.path) {
            // The file may be gone: this run opened it when the earlier run had ended and was about to remove
            // it.
            Err(error) if error.kind() != ErrorKind::NotFound => Err(unwritable(&self.path, &error)),
            _ => Ok(()),
        }
    }
}

/// The names in a list; `None` if it was made for something else. Lines that cannot be read are ignored:
/// their metrics are stored again, which changes nothing.
fn read(path: &Path, made_for: &Value) -> Option<HashSet<String>> {
    let mut lines = BufReader::new(fs::File::open(path).ok()?).lines().map_while(Result::ok);
    let first: Value = serde_json::from_str(&lines.next()?).ok()?;
    (first == *made_for).then(|| lines.filter_map(|line| serde_json::from_str(&line).ok()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_with_the_same_options_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/list");
        let open = |options: &Value| DoneList::open(Some(path.clone()), options, "import-graphite").unwrap();
        let (same, other) = (json!({"url": "http://a"}), json!({"url": "http://b"}));
        open(&same).note(&["a.b", "c\"d"]).unwrap();
        // A line that was cut off.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"\"e.").unwrap();
        let mut list = open(&same);
        assert!(list.has("a.b") && list.has("c\"d") && !list.has("e."));
        list.note(&["f"]).unwrap();
        for options in [&same, &other] {
            let second = DoneList::open(Some(path.clone()), options, "import-graphite");
            assert!(matches!(second, Err(VerbError::Taken(_))), "the first run still works");
        }
        drop(list);
        let locked = DoneList::lock(Some(path.clone()), "import-graphite").unwrap();
        let second = DoneList::lock(Some(path.clone()), "import-graphite");
        assert!(matches!(second, Err(VerbError::Taken(_))), "a run holds the list before it begins");
        assert!(locked.begin(&same).unwrap().has("f"));
        assert!(!open(&other).has("f"));
        assert!(!open(&same).has("f"), "the other run has begun a new list");
        open(&same).remove().unwrap();
        assert!(!path.exists());
    }
}
