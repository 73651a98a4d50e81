//! The sections of the two files.

use std::cmp::Reverse;

use super::ini::{self, Entry, Section};
use super::pattern::Pattern;
use super::problem::Problems;
use super::{Rule, RuleSource, X_FILES_FACTOR};
use crate::{Aggregation, Retention, RetentionError};

/// The keys of `storage-schemas.conf`. The last two are go-carbon's.
const SCHEMA_KEYS: [&str; 4] = ["pattern", "retentions", "priority", "compressed"];
const AGGREGATION_KEYS: [&str; 3] = ["pattern", "xfilesfactor", "aggregationmethod"];

/// The sections with their patterns and retentions, in the order in which they are tried.
pub(super) fn schemas(text: &str, problems: &mut Problems<'_>) -> Vec<Rule<Retention>> {
    let mut rules = Vec::new();
    for section in ini::read(text, problems) {
        unknown_keys(&section, &SCHEMA_KEYS, problems);
        let priority = priority(&section, problems);
        let retention = retention(&section, problems);
        let pattern = pattern(&section, problems);
        if let (Some(pattern), Some(retention)) = (pattern, retention) {
            rules.push((priority, source(&section), pattern, retention));
        }
    }
    // The sort is stable, so sections of equal priority stay in the order of the file.
    rules.sort_by_key(|(priority, ..)| Reverse(*priority));
    rules.into_iter().map(|(_, source, pattern, retention)| (source, pattern, retention)).collect()
}

/// The sections with their patterns, aggregation methods and factors, in the order in which they are tried.
pub(super) fn aggregations(text: &str, problems: &mut Problems<'_>) -> Vec<Rule<(Aggregation, f64)>> {
    let mut rules = Vec::new();
    for section in ini::read(text, problems) {
        unknown_keys(&section, &AGGREGATION_KEYS, problems);
        let factor = x_files_factor(&section, problems);
        let method = aggregation_method(&section, problems);
        let pattern = pattern(&section, problems);
        if let (Some(pattern), Some(factor), Some(method)) = (pattern, factor, method) {
            rules.push((source(&section), pattern, (method, factor)));
        }
    }
    rules
}

fn source(section: &Section) -> RuleSource {
    let pattern = section.entry("pattern").map_or_else(String::new, |entry| section.value(entry));
    RuleSource { section: section.name.clone(), line: section.line, pattern }
}

pub(super) fn unknown_keys(section: &Section, known: &[&str], problems: &mut Problems<'_>) {
    for entry in section.entries.iter().filter(|e| !known.contains(&e.key.as_str())) {
        let message = format!("key {} is not known here and has no effect", entry.key);
        problems.warning(entry.line, &section.name, message);
    }
}

fn pattern(section: &Section, problems: &mut Problems<'_>) -> Option<Pattern> {
    let entry = required(section, "pattern", problems)?;
    let text = section.value(entry);
    match Pattern::new(&text) {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            problems.error(entry.line, &section.name, format!("pattern {text:?}: {error}"));
            None
        }
    }
}

/// A key that must have a value. As in carbon, an empty pattern counts as missing.
fn required<'a>(section: &'a Section, key: &str, problems: &mut Problems<'_>) -> Option<&'a Entry> {
    let entry = section.entry(key).filter(|e| key != "pattern" || !e.value.is_empty());
    if entry.is_none() {
        problems.warning(section.line, &section.name, format!("no {key}, so the section is skipped"));
    }
    entry
}

fn retention(section: &Section, problems: &mut Problems<'_>) -> Option<Retention> {
    let entry = required(section, "retentions", problems)?;
    match section.value(entry).parse() {
        Ok(retention) => Some(retention),
        Err(error) => {
            retention_problem(section, entry, &error, problems);
            None
        }
    }
}

/// Decides how serious a problem of a retention is. Carbon does not start with a retention that it cannot
/// read, and skips one that breaks whisper's rules.
fn retention_problem(section: &Section, entry: &Entry, error: &RetentionError, problems: &mut Problems<'_>) {
    use RetentionError as E;
    match error {
        E::Empty | E::Form(_) | E::Duration(_) | E::TooLong(_) => {
            problems.error(entry.line, &section.name, format!("retentions: {error}"));
        }
        E::DuplicateResolution(_) | E::NotDivisible(..) | E::NotLonger(..) | E::TooFewPoints(..) => {
            let message = format!("retentions: {error}, so the section is skipped");
            problems.warning(entry.line, &section.name, message);
        }
    }
}

fn priority(section: &Section, problems: &mut Problems<'_>) -> i64 {
    let Some(entry) = section.entry("priority") else { return 0 };
    let text = section.value(entry);
    text.trim().parse().unwrap_or_else(|_| {
        problems.error(entry.line, &section.name, format!("priority: {text:?} is not a whole number"));
        0
    })
}

/// The factor of a section; `None` if the section cannot be used.
fn x_files_factor(section: &Section, problems: &mut Problems<'_>) -> Option<f64> {
    let Some(entry) = section.entry("xfilesfactor") else { return Some(X_FILES_FACTOR) };
    let text = section.value(entry);
    match text.trim().parse::<f64>() {
        Ok(factor) if (0.0..=1.0).contains(&factor) => Some(factor),
        Ok(_) => {
            problems.error(entry.line, &section.name, format!("xFilesFactor: {text} is not within 0 and 1"));
            None
        }
        Err(_) => {
            let message = format!("xFilesFactor: {text:?} is not a number, so the section is skipped");
            problems.warning(entry.line, &section.name, message);
            None
        }
    }
}

fn aggregation_method(section: &Section, problems: &mut Problems<'_>) -> Option<Aggregation> {
    let Some(entry) = section.entry("aggregationmethod") else { return Some(Aggregation::Average) };
    match section.value(entry).parse() {
        Ok(method) => Some(method),
        Err(error) => {
            problems.error(entry.line, &section.name, format!("aggregationMethod: {error}"));
            None
        }
    }
}
