//! Problems of a rules file.

use std::fmt;
use std::path::Path;

/// A file with rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleFile {
    /// `storage-schemas.conf`.
    Schemas,
    /// `storage-aggregation.conf`.
    Aggregation,
    /// `relay-rules.conf`.
    Relay,
    /// `carbon.conf`.
    Carbon,
    /// `aggregation-rules.conf`.
    AggregationRules,
    /// The file of quotas.
    Quotas,
}

impl fmt::Display for RuleFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Schemas => "storage-schemas.conf",
            Self::Aggregation => "storage-aggregation.conf",
            Self::Relay => "relay-rules.conf",
            Self::Carbon => "carbon.conf",
            Self::AggregationRules => "aggregation-rules.conf",
            Self::Quotas => "quotas.conf",
        })
    }
}

/// Whether a problem keeps the daemon from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// Carbon starts with this problem, because it skips the section or never reads the wrong part.
    Warning,
    /// Carbon does not start with this problem, and Plumbago does not either.
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

/// A problem of a rules file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file that has the problem.
    pub file: RuleFile,
    /// The line, counted from 1; 0 if the problem concerns the whole file.
    pub line: usize,
    /// The section of the line; empty before the first section.
    pub section: String,
    /// A description of the problem.
    pub message: String,
    /// Whether the problem keeps the daemon from starting.
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

impl Problem {
    /// The problem with the path of the file: `PATH:LINE: [SECTION] MESSAGE`. Line and section are left out if there
    /// are none.
    pub fn within(&self, path: &Path) -> String {
        let line = if self.line == 0 { String::new() } else { format!(":{}", self.line) };
        let section = if self.section.is_empty() { String::new() } else { format!(" [{}]", self.section) };
        format!("{}{line}:{section} {}", path.display(), self.message)
    }
}

/// Collects the problems of a file.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_the_whole_file_has_no_line() {
        let (file, severity) = (RuleFile::Relay, Severity::Error);
        let mut problem =
            Problem { file, line: 2, section: "a".to_owned(), message: "wrong".to_owned(), severity };
        assert_eq!(problem.within(Path::new("/x.conf")), "/x.conf:2: [a] wrong");
        (problem.line, problem.section) = (0, String::new());
        assert_eq!(problem.within(Path::new("/x.conf")), "/x.conf: wrong");
    }
}
