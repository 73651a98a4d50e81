//! What is wrong with a rules file, and where.

use std::fmt;

/// One of the two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleFile {
    /// `storage-schemas.conf`.
    Schemas,
    /// `storage-aggregation.conf`.
    Aggregation,
}

impl fmt::Display for RuleFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Schemas => "storage-schemas.conf",
            Self::Aggregation => "storage-aggregation.conf",
        })
    }
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Carbon starts all the same: it skips the section, or never looks at what is wrong.
    Warning,
    /// Carbon does not start with it, and neither do we.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One thing that is wrong with a rules file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: RuleFile,
    /// Its line, counted from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// The section that the line belongs to; empty before the first one.
    pub section: String,
    /// What is wrong, in plain words.
    pub message: String,
    /// Whether it stops the start.
    pub severity: Severity,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if !self.section.is_empty() {
            write!(f, "[{}] ", self.section)?;
        }
        write!(f, "{}: {}", self.severity, self.message)
    }
}

/// Collects the problems of one file.
#[derive(Debug)]
pub(super) struct Problems<'a> {
    pub(super) file: RuleFile,
    pub(super) found: &'a mut Vec<Problem>,
}

impl Problems<'_> {
    pub(super) fn error(&mut self, line: usize, section: &str, message: impl Into<String>) {
        self.push(line, section, message.into(), Severity::Error);
    }

    pub(super) fn warning(&mut self, line: usize, section: &str, message: impl Into<String>) {
        self.push(line, section, message.into(), Severity::Warning);
    }

    fn push(&mut self, line: usize, section: &str, message: String, severity: Severity) {
        self.found.push(Problem { file: self.file, line, section: section.to_owned(), message, severity });
    }
}
