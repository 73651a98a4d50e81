//! The position of a job, saved in a small file so that the next run continues from there.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use plumbago_store::Share;
use serde::{Deserialize, Serialize};

use crate::report::Report;

/// Positions older than this are ignored, and the job starts from the beginning.
const AGE_MAX_SECONDS: i64 = 7 * 86_400;

/// The directory of the position files; `None` to save nothing.
#[derive(Debug, Clone, Default)]
pub struct Checkpoints(Option<PathBuf>);

/// A saved position, the time when it was saved (seconds since the epoch), and the report up to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) position: Vec<u8>,
    pub(crate) written_on: i64,
    /// The parameters of the run.
    #[serde(default)]
    pub(crate) asked: String,
    pub(crate) report: Report,
}

impl Checkpoints {
    /// Saves positions in this directory, which is created if needed.
    pub fn new(dir: PathBuf) -> Self {
        Self(Some(dir))
    }

    /// Saves nothing.
    pub fn none() -> Self {
        Self(None)
    }

    /// Whether the last run of this job ended early.
    pub fn is_unfinished(&self, job: &str, share: Share) -> bool {
        self.path(job, share, false).is_some_and(|path| path.exists())
    }

    /// A dry run has its own file: it changes nothing, so a real run must not continue after it.
    fn path(&self, job: &str, share: Share, dry_run: bool) -> Option<PathBuf> {
        let dry = if dry_run { ".dry-run" } else { "" };
        let Share { index, of } = share;
        self.0.as_ref().map(|dir| dir.join(format!("{job}.{index}-of-{of}{dry}.json")))
    }

    pub(crate) fn load(&self, job: &str, share: Share, dry_run: bool, now: i64) -> Option<Checkpoint> {
        let text = fs::read(self.path(job, share, dry_run)?).ok()?;
        let found: Checkpoint = serde_json::from_slice(&text).ok()?;
        (now - found.written_on < AGE_MAX_SECONDS).then_some(found)
    }

    pub(crate) fn save(
        &self,
        job: &str,
        share: Share,
        dry_run: bool,
        checkpoint: &Checkpoint,
    ) -> io::Result<()> {
        let Some(path) = self.path(job, share, dry_run) else { return Ok(()) };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        let new = path.with_extension("json.new");
        let mut file = fs::File::create(&new)?;
        file.write_all(&serde_json::to_vec(checkpoint)?)?;
        file.sync_data()?;
        fs::rename(new, path)
    }

    pub(crate) fn clear(&self, job: &str, share: Share, dry_run: bool) -> io::Result<()> {
        let Some(path) = self.path(job, share, dry_run) else { return Ok(()) };
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
