//! The verb `import-kairosdb`.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::kairosdb::{ImportKairosdbReport, import};
use crate::verb::{Verb, VerbError, Work};

/// Largest number of blocks that are read, or parts that are stored, at the same time.
const WORKERS_MAX: usize = 64;

/// Imports the history of a KairosDB or an OpenTSDB.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportKairosdb {
    /// Files of KairosDB's `export` or OpenTSDB's `scan --import`, as absolute paths.
    pub paths: Vec<PathBuf>,
    /// The keyspace of a KairosDB to read instead of files.
    pub keyspace: Option<String>,
    /// The servers, as `host:port`; empty for those in the settings of the store.
    pub contact_points: Vec<String>,
    /// Only these metrics; empty for all.
    pub metrics: Vec<String>,
    /// The start of the import in seconds since the epoch; earlier points are left out.
    pub from: Option<i64>,
    /// The end of the import in seconds since the epoch; points at or after it are left out.
    pub until: Option<i64>,
    /// How many blocks are read, or parts are stored, at the same time.
    pub workers: usize,
    /// Largest number of points stored per second; 0 for no limit.
    pub rate: u32,
    /// Whether points of the history replace stored ones.
    pub overwrite: bool,
    /// Whether to find the coarsest storage rules that lose no more points than slots of one second would.
    pub suggest_rules: bool,
    /// The file in which to list what was skipped.
    pub skipped: Option<PathBuf>,
    /// Whether to only count the changes without making them.
    pub dry_run: bool,
}

#[async_trait]
impl Verb for ImportKairosdb {
    const NAME: &'static str = "import-kairosdb";
    const NEEDS_DATA: bool = false;
    type Answer = ImportKairosdbReport;

    fn check(&self) -> Result<(), String> {
        match (&self.keyspace, self.paths.is_empty()) {
            (None, true) => return Err("name the files to import, or a keyspace with --keyspace".to_owned()),
            (Some(_), false) => return Err("name files or a keyspace, not both".to_owned()),
            _ => {}
        }
        if let Some(path) = self.paths.iter().find(|path| !path.is_absolute()) {
            return Err(format!("{} is not an absolute path", path.display()));
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return Err(format!("--workers is a number from 1 to {WORKERS_MAX}"));
        }
        Ok(())
    }

    async fn run(&self, work: &Work) -> Result<ImportKairosdbReport, VerbError> {
        import(self, work).await
    }
}
