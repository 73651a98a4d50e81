//! What is wrong with a configuration, and where it stands.

use std::fmt;
use std::path::PathBuf;

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A line of a file; 0 when the file as a whole is meant.
    File(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// Nowhere: it is a default.
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

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// The path of the key (`engine.shards`), or the section of a rules file.
    pub key: String,
    /// What, in plain words.
    pub message: String,
    /// Whether it stops the start.
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

/// All problems found in one go.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Notes an error.
    pub fn error(&mut self, place: Place, key: &str, message: impl Into<String>) {
        self.0.push(Problem { place, key: key.to_owned(), message: message.into(), error: true });
    }

    /// Notes a warning.
    pub fn warning(&mut self, place: Place, key: &str, message: impl Into<String>) {
        self.0.push(Problem { place, key: key.to_owned(), message: message.into(), error: false });
    }

    /// True when one of them is an error.
    pub fn any_error(&self) -> bool {
        self.0.iter().any(|p| p.error)
    }

    /// The problems.
    pub fn into_vec(self) -> Vec<Problem> {
        self.0
    }

    /// The problems, one after the other.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// By place, so that a file is read from top to bottom.
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
