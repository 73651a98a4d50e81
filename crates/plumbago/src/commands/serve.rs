//! `plumbago serve`.

use std::path::Path;

use crate::config;
use crate::error::{Exit, Failure};

/// Runs the daemon until a signal or the admin port stops it.
///
/// # Errors
///
/// If the configuration has errors, or the daemon cannot start or cannot close its stores.
pub fn run(file: Option<&Path>) -> Result<(), Failure> {
    let loaded = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?;
    crate::serve::run(loaded, file)
}
