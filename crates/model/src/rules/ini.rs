//! The INI dialect of carbon's files: Python's `ConfigParser` as carbon uses it, with line numbers.
//!
//! Keys are lower-cased. `=` and `:` separate keys from values. `#` and `;` begin comments only at the start of
//! a line. An indented line continues the value before it, also across blank lines. The keys of `[DEFAULT]`
//! apply to all sections.

use std::collections::HashSet;

use super::problem::Problems;

/// References nested deeper than this count as a loop, as in Python.
const INTERPOLATION_DEPTH: usize = 10;

/// A section and its keys, with those of `[DEFAULT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// The text between the brackets.
    pub name: String,
    /// The line of its header, counted from 1.
    pub line: usize,
    /// The keys, in the order of the file.
    pub entries: Vec<Entry>,
}

/// A line `key = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key, in lower case.
    pub key: String,
    /// The value as it is written; see [`Section::value`].
    pub value: String,
    /// The line, counted from 1.
    pub line: usize,
}

impl Section {
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// The value with `%%` and `%(key)s` replaced. Any other `%` is kept, although Python refuses it.
    pub fn value(&self, entry: &Entry) -> String {
        self.interpolate(&entry.value, 0)
    }

    fn interpolate(&self, raw: &str, depth: usize) -> String {
        let mut out = String::with_capacity(raw.len());
        let mut rest = raw;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                out.push('%');
                rest = after;
            } else if let Some((entry, after)) = self.reference(rest).filter(|_| depth < INTERPOLATION_DEPTH)
            {
                out.push_str(&self.interpolate(&entry.value, depth + 1));
                rest = after;
            } else {
                out.push('%');
            }
        }
        out + rest
    }

    fn reference<'a>(&self, rest: &'a str) -> Option<(&Entry, &'a str)> {
        let (key, after) = rest.strip_prefix('(')?.split_once(")s")?;
        Some((self.entry(&key.to_lowercase())?, after))
    }
}

/// Reads a file. The sections are in the order of the file, without those that carbon would ignore.
pub(super) fn read(text: &str, problems: &mut Problems<'_>) -> Vec<Section> {
    let mut reader = Reader { sections: Vec::new(), current: None, option: false, indent: 0 };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (i, line) in text.lines().enumerate() {
        reader.line(i + 1, line, problems);
    }
    finish(reader.sections)
}

struct Reader {
    sections: Vec<(Section, bool)>,
    current: Option<usize>,
    /// Whether the next line may continue the value of a key.
    option: bool,
    indent: usize,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str, problems: &mut Problems<'_>) {
        let text = line.trim();
        if text.starts_with(['#', ';']) {
            return;
        }
        if text.is_empty() {
            self.continue_value("");
            return;
        }
        let indent = line.chars().take_while(|c| c.is_whitespace()).count();
        if self.option && indent > self.indent {
            if text.starts_with('[') && text.ends_with(']') {
                let message = "an indented section header continues the value before it; remove the indent";
                problems.error(number, self.section_name(), message);
            }
            self.continue_value(text);
            return;
        }
        self.indent = indent;
        match header(text) {
            Some(name) => self.start(number, name, text.ends_with(']'), problems),
            None => self.key(number, text, problems),
        }
    }

    fn section_name(&self) -> &str {
        self.current.map_or("", |i| &self.sections[i].0.name)
    }

    fn continue_value(&mut self, text: &str) {
        if !self.option {
            return;
        }
        if let Some(entry) = self.current.and_then(|i| self.sections[i].0.entries.last_mut()) {
            entry.value.push('\n');
            entry.value.push_str(text);
        }
    }

    fn start(&mut self, line: usize, name: &str, seen: bool, problems: &mut Problems<'_>) {
        if !seen {
            problems.warning(
                line,
                name,
                "carbon ignores a section with text after its header, so this section is skipped",
            );
        }
        if let Some((first, _)) = self.sections.iter().find(|(s, _)| s.name == name) {
            problems.error(line, name, format!("section defined twice, first in line {}", first.line));
        }
        self.current = Some(self.sections.len());
        self.sections.push((Section { name: name.to_owned(), line, entries: Vec::new() }, seen));
        self.option = false;
    }

    fn key(&mut self, line: usize, text: &str, problems: &mut Problems<'_>) {
        let Some(current) = self.current else {
            problems.error(line, "", format!("{text:?} is before the first [section]"));
            return;
        };
        let section = &mut self.sections[current].0;
        let Some((key, value)) = text.split_once(['=', ':']).filter(|(key, _)| !key.trim().is_empty()) else {
            problems.error(line, &section.name, format!("{text:?} is not key = value"));
            return;
        };
        let key = key.trim().to_lowercase();
        if let Some(first) = section.entry(&key) {
            problems.error(
                line,
                &section.name,
                format!("key {key} given twice, first in line {}", first.line),
            );
        }
        section.entries.push(Entry { key, value: value.trim().to_owned(), line });
        self.option = true;
    }
}

/// The name of a section: `[name]`, up to the last bracket of the line.
fn header(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('[')?;
    inner.rfind(']').map(|end| &inner[..end]).filter(|name| !name.is_empty())
}

/// Adds the keys of `[DEFAULT]` to all sections, and drops the sections that carbon ignores.
fn finish(sections: Vec<(Section, bool)>) -> Vec<Section> {
    let defaults: Vec<Entry> = sections
        .iter()
        .filter(|(s, _)| s.name == "DEFAULT")
        .flat_map(|(s, _)| s.entries.iter().map(trimmed))
        .collect();
    let mut names = HashSet::new();
    let mut kept = Vec::new();
    for (mut section, seen) in sections {
        if !seen || !names.insert(section.name.clone()) {
            continue;
        }
        section.entries = section.entries.iter().map(trimmed).collect();
        for entry in &defaults {
            if section.entry(&entry.key).is_none() {
                section.entries.push(entry.clone());
            }
        }
        kept.push(section);
    }
    kept
}

/// The entry without the blank lines after its value.
fn trimmed(entry: &Entry) -> Entry {
    Entry { key: entry.key.clone(), value: entry.value.trim_end().to_owned(), line: entry.line }
}
