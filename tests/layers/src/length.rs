//! Finds files that are too long to be read at once.

use std::path::Path;

use crate::metadata::Metadata;
use crate::unused::{read, sources};

/// Maximum number of lines of a file.
const LINES_MAX: usize = 500;

/// One message per Rust file of this repository that is too long.
///
/// # Errors
/// If a file cannot be read.
pub fn check(metadata: &Metadata) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for package in metadata.members() {
        let directory = package.manifest_path.parent().unwrap_or(Path::new(""));
        for file in sources(directory)? {
            let lines = read(&file)?.lines().count();
            if lines > LINES_MAX {
                let file = file.display();
                problems.push(format!("{file}: {lines} lines; split it by subject, at most {LINES_MAX}"));
            }
        }
    }
    Ok(problems)
}
