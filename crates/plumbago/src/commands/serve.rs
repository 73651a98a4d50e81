//! `plumbago serve`.

use std::path::Path;

use crate::config;
use crate::error::{Exit, Failure};

/// Runs the daemon until it is told to stop.
pub fn run(file: Option<&Path>) -> Result<(), Failure> {
    let loaded = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?;
    crate::serve::run(loaded, file)
}
