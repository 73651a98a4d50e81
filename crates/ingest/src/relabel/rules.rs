//! Loads and reloads the files of the lists and rules.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::{Passage, Relabel};
use crate::name::NameOptions;

/// The lists and rewrite rules in use. Clones share them: after a reload every listener uses the new
/// ones from its next batch on.
#[derive(Debug, Clone)]
pub struct Rules {
    current: Arc<ArcSwap<Relabel>>,
    /// Whether the rules under `[post]` apply later, by [`Post`](super::Post).
    post_is_later: bool,
}

/// The files of the lists and rules, as configured. An empty one stands for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleFiles<'a> {
    /// `blacklist.conf`.
    pub blacklist: &'a str,
    /// `whitelist.conf`.
    pub whitelist: &'a str,
    /// `rewrite-rules.conf`.
    pub rewrite_rules: &'a str,
}

/// A problem in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem {
    /// The setting of `[ingest]` that names the file: `blacklist`, `whitelist` or `rewrite_rules`.
    pub setting: &'static str,
    /// The path of the file, as configured.
    pub file: PathBuf,
    /// The line, counted from 1. 0 if the file could not be read.
    pub line: usize,
    /// The problem, as text.
    pub message: String,
}

impl fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.message),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.message),
        }
    }
}

/// All problems of the lists and rewrite rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct RulesError(pub Vec<RuleProblem>);

impl Rules {
    /// Reads the files.
    ///
    /// # Errors
    /// All problems at once, if a file cannot be read or parsed.
    pub fn load(files: RuleFiles<'_>) -> Result<Self, RulesError> {
        Self::read(files, false)
    }

    /// Reads the files. The rules under `[post]` do not apply on arrival, but later, by
    /// [`Post`](super::Post).
    ///
    /// # Errors
    /// The same as [`Self::load`].
    pub fn load_post_later(files: RuleFiles<'_>) -> Result<Self, RulesError> {
        Self::read(files, true)
    }

    fn read(files: RuleFiles<'_>, post_is_later: bool) -> Result<Self, RulesError> {
        let current = Arc::new(ArcSwap::from_pointee(read(files, post_is_later)?));
        Ok(Self { current, post_is_later })
    }

    /// Reads the files again. If any of them has a problem, all lists and rules stay as they were.
    ///
    /// # Errors
    /// The same as [`Self::load`].
    pub fn reload(&self, files: RuleFiles<'_>) -> Result<(), RulesError> {
        self.current.store(Arc::new(read(files, self.post_is_later)?));
        Ok(())
    }

    /// How the lists and rules in use change a name as it was received.
    pub fn explain(&self, name: &str, names: NameOptions) -> Passage {
        self.current().explain(name, names)
    }

    /// The lists and rules in use.
    pub(crate) fn current(&self) -> arc_swap::Guard<Arc<Relabel>> {
        self.current.load()
    }
}

fn read(files: RuleFiles<'_>, post_is_later: bool) -> Result<Relabel, RulesError> {
    let files = [
        ("blacklist", files.blacklist),
        ("whitelist", files.whitelist),
        ("rewrite_rules", files.rewrite_rules),
    ];
    let mut found = Vec::new();
    let mut problem = |(setting, file): (&'static str, &str), line: usize, message: String| {
        found.push(RuleProblem { setting, file: PathBuf::from(file), line, message });
    };
    let texts = files.map(|(setting, file)| {
        if file.is_empty() {
            return String::new();
        }
        std::fs::read_to_string(file).unwrap_or_else(|error| {
            problem((setting, file), 0, format!("cannot be read: {error}"));
            String::new()
        })
    });
    let (mut relabel, problems) = Relabel::parse_apart(&texts[0], &texts[1], &texts[2]);
    relabel.files = files.map(|(_, file)| file.to_owned());
    for (file, problems) in files.into_iter().zip(problems) {
        problems.into_iter().for_each(|(line, message)| problem(file, line, message));
    }
    if !found.is_empty() {
        return Err(RulesError(found));
    }
    Ok(if post_is_later { relabel } else { relabel.all_on_arrival() })
}
