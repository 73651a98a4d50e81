//! The verb `import-kairosdb`.

use std::path::PathBuf;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::kairosdb::{ImportKairosdbReport, import};
use crate::verb::{Verb, VerbError, Work};

/// The most blocks that are read and parts that are stored at a time.
const WORKERS_MAX: usize = 64;

/// Stores the history of a KairosDB or an OpenTSDB.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportKairosdb {
    /// Files of KairosDB's `export` or OpenTSDB's `scan --import`, as absolute paths.
    pub paths: Vec<PathBuf>,
    /// A keyspace of a KairosDB to read, instead of files.
    pub keyspace: Option<String>,
    /// Its servers, as `host:port`; empty for those of the store's settings.
    pub contact_points: Vec<String>,
    /// Only these metrics; empty for all.
    pub metrics: Vec<String>,
    /// Earlier points are left out; seconds since the epoch.
    pub from: Option<i64>,
    /// Points from then on are left out; seconds since the epoch.
    pub until: Option<i64>,
    /// How many blocks are read and parts are stored at a time.
    pub workers: usize,
    /// Most points that are stored in a second; 0 for no limit.
    pub rate: u32,
    /// The history wins a slot that is stored already.
    pub overwrite: bool,
    /// Finds the coarsest storage rules that lose no more than slots of a second.
    pub suggest_rules: bool,
    /// Where to list what was skipped.
    pub skipped: Option<PathBuf>,
    /// Count what would be done and change nothing.
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
            return Err(format!("--workers must be a number from 1 to {WORKERS_MAX}"));
        }
        Ok(())
    }

    async fn run(&self, work: &Work) -> Result<ImportKairosdbReport, VerbError> {
        import(self, work).await
    }
}
