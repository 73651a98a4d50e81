//! All maintenance jobs that stores support.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::config::Config;
use crate::directories::{CleanDirectories, RepairDirectories};
use crate::expire::Expire;
use crate::job::{Job, Stores};
use crate::rows::CleanRows;
use crate::windows::{RepairNewWriter, RepairWindows};

/// How often it is checked whether windows of a new writer id can be repaired.
const NEW_WRITER_EVERY: Duration = Duration::from_secs(300);

/// Returns all jobs that these stores support, with their intervals. A zero interval switches a job off. Jobs
/// keep their files in `dir`.
pub fn jobs(config: &Config, stores: &Stores, dir: &Path) -> Vec<(Arc<dyn Job>, Duration)> {
    let clean_rows = CleanRows { rows: stores.rows.clone(), metadata: stores.listing.clone() };
    let mut jobs: Vec<(Arc<dyn Job>, Duration)> = vec![(Arc::new(clean_rows), config.clean_rows_every)];
    if let Some(directories) = stores.directories.clone() {
        let repair = RepairDirectories { rows: stores.rows.clone(), directories: directories.clone() };
        jobs.push((Arc::new(CleanDirectories(directories)), config.clean_directories_every));
        jobs.push((Arc::new(repair), config.repair_directories_every));
    }
    if let Some(windows) = stores.windows.clone() {
        let (rows, points) = (stores.rows.clone(), stores.points.clone());
        let repair = RepairWindows { rows, points, windows, after: config.repair_windows_after };
        let new_writer = RepairNewWriter { repair: repair.clone(), file: dir.join("new-writer.json") };
        jobs.push((Arc::new(repair), config.repair_windows_every));
        jobs.push((Arc::new(new_writer), NEW_WRITER_EVERY));
    }
    if !config.expire_after.is_zero() {
        let expire = Expire { stores: stores.clone(), after: config.expire_after };
        jobs.push((Arc::new(expire), config.expire_every));
    }
    jobs
}
