//! Absolute paths, because a daemon has another working directory.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::error::{Exit, Failure};

/// The absolute form of a path; a relative one is below the working directory of this command.
pub(super) fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| path.display().to_string())
}

/// The absolute path of an option's value, if the option was given. `option` is its name, like `--skipped`.
pub(super) fn of_option(option: &'static str, path: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let path = path.map(absolute).transpose().context(option);
    path.map_err(|error| Failure::new(Exit::Usage, error))
}
