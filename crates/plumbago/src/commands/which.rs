//! The options by which commands select metrics.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use plumbago_maintenance::select::Which;

use crate::error::{Exit, Failure};

/// Largest list of names that is read.
const LIST_BYTES_MAX: u64 = 48 << 20;

/// Options that select metrics; one of the three ways.
#[derive(Debug, Clone, Default, Args)]
pub struct WhichArgs {
    /// Metrics whose names match this glob, as in Graphite; `**` matches any number of components
    #[arg(value_name = "GLOB")]
    pub glob: Option<String>,
    /// Tagged series that match this tag expression, like host=a or dc!=~^eu; may be repeated
    #[arg(long, value_name = "EXPRESSION")]
    pub tag: Vec<String>,
    /// The metrics named in this file, one per line; - for standard input
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
}

impl WhichArgs {
    /// Returns the selection. Without any option it is `otherwise`, if there is such a default.
    ///
    /// # Errors
    ///
    /// If there is not exactly one way of selecting, or the list cannot be read.
    pub(super) fn which(&self, otherwise: Option<&str>) -> Result<Which, Failure> {
        let names = self.names.as_deref().map(read_list).transpose()?;
        let mut which = Which { glob: self.glob.clone(), tags: self.tag.clone(), names };
        if which == Which::default() {
            which.glob = otherwise.map(str::to_owned);
        }
        which.check().map_err(|why| Failure::new(Exit::Usage, anyhow!(why)))?;
        Ok(which)
    }
}

fn read_list(path: &Path) -> Result<Vec<String>, Failure> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(LIST_BYTES_MAX + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(LIST_BYTES_MAX + 1).read_to_string(&mut text))
    };
    let read = read.with_context(|| format!("cannot read the list of names {}", path.display()));
    let bytes = read.map_err(|error| Failure::new(Exit::Usage, error))?;
    if bytes as u64 > LIST_BYTES_MAX {
        let error = anyhow!("the list of names {} is longer than 48 MiB; divide it", path.display());
        return Err(Failure::new(Exit::Usage, error));
    }
    Ok(names_in(&text))
}

/// The names in a list: one a line. Some editors begin a file with a byte order mark.
fn names_in(text: &str) -> Vec<String> {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::names_in;

    #[test]
    fn lists_of_any_editor_are_read() {
        assert_eq!(names_in("\u{feff}a.b\r\n# c\n\n  d;e=f  \n"), ["a.b", "d;e=f"]);
    }
}
