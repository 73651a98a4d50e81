//! Problems of a configuration, with file and line.

use std::fmt;
use std::path::PathBuf;

/// Where a setting was set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line of a file, counted from 1; 0 for the file as a whole.
    File(PathBuf, usize),
    /// The environment variable of this name.
    Environment(String),
    /// Nowhere, so the setting has its default.
    Default,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, 0) => write!(f, "{}", path.display()),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A problem of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where the setting with the problem was set.
    pub place: Place,
    /// The path of the key (`engine.shards`), or the section of a rules file (`[name]`). May be empty.
    pub key: String,
    /// The problem, as a sentence.
    pub message: String,
    /// Whether the daemon refuses to start because of it. If `false`, it is a warning.
    pub error: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.place, if self.error { "error" } else { "warning" })?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// All problems of a configuration.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Adds an error.
    pub fn error(&mut self, place: Place, key: &str, message: impl Into<String>) {
        self.0.push(Problem { place, key: key.to_owned(), message: message.into(), error: true });
    }

    /// Adds a warning.
    pub fn warning(&mut self, place: Place, key: &str, message: impl Into<String>) {
        self.0.push(Problem { place, key: key.to_owned(), message: message.into(), error: false });
    }

    /// Returns whether at least one problem is an error.
    pub fn any_error(&self) -> bool {
        self.0.iter().any(|p| p.error)
    }

    /// Returns the problems, in the order in which they were added.
    pub fn into_vec(self) -> Vec<Problem> {
        self.0
    }

    /// Iterates over the problems.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// Writes each problem to the log, as a line of its own.
    pub fn log(&self) {
        for problem in &self.0 {
            match problem.error {
                true => tracing::error!("{problem}"),
                false => tracing::warn!("{problem}"),
            }
        }
    }

    /// Sorts by place, so that the problems of a file are in the order of its lines.
    pub(super) fn sort(&mut self) {
        self.0.sort_by(|a, b| a.place.cmp(&b.place));
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
