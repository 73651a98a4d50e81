//! `plumbago serve`.

use std::path::Path;

use crate::config;
use crate::error::{Exit, Failure};

/// Runs the daemon until it is told to stop.
pub fn run(file: Option<&Path>) -> Result<(), Failure> {
    let loaded = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?;
    let (store, journal) = (loaded.config.store_dir(), loaded.config.journal_dir());
    Err(Failure::new(
        Exit::Internal,
        anyhow::anyhow!("the daemon is not wired yet (data directory {data_dir})"),
    ))
}
