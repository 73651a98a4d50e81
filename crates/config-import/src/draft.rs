//! The result of reading so far: settings with their origins, and remarks.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::parse;

/// A value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// Text; periods and sizes too are texts.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}

/// Where a setting or a remark comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The file's path.
    pub file: String,
    /// The line, counted from 1; 0 means the whole file.
    pub line: usize,
    /// The key in the file, with its section in front: `cache.LINE_RECEIVER_PORT`.
    pub key: String,
}

/// A setting of Plumbago.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The key, with the sections: `ingest.line.listen`.
    pub key: String,
    /// The value, in Plumbago's units.
    pub value: Value,
    /// The places that the setting was derived from.
    pub from: Vec<Origin>,
}

/// What a remark means for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemarkKind {
    /// The file or the value cannot be read.
    Error,
    /// The user has to do something manually.
    Todo,
    /// Plumbago cannot do this.
    NoEquivalent,
    /// Plumbago works without this.
    NotNeeded,
}

/// Something that no setting can express.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// The meaning of the remark for the reader.
    pub kind: RemarkKind,
    /// Where the remark comes from.
    pub from: Origin,
    /// A sentence without a full stop.
    pub text: String,
}

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Import {
    /// The settings, in the order of their keys' first appearance.
    pub settings: Vec<Setting>,
    /// The remarks, in the order of the files.
    pub remarks: Vec<Remark>,
}

/// Prefixes of keys, each with the reason why Plumbago has no setting for these keys.
pub(crate) type Table = &'static [(&'static str, &'static str)];

/// Collects settings and remarks.
pub(crate) struct Draft<'a> {
    /// The path of the file that is being read.
    pub(crate) file: String,
    import: Import,
    exists: &'a dyn Fn(&Path) -> bool,
}

/// A key in the file that is being read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) line: usize,
    pub(crate) key: &'a str,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(exists: &'a dyn Fn(&Path) -> bool) -> Self {
        Self { file: String::new(), import: Import::default(), exists }
    }

    pub(crate) fn finish(self) -> Import {
        self.import
    }

    /// Sets a value. If the key already has a different value, this is an error that names both places.
    pub(crate) fn set(&mut self, key: &str, value: Value, at: At<'_>) {
        let origin = self.origin(at);
        match self.import.settings.iter_mut().find(|setting| setting.key == key) {
            None => self.push(key, value, origin),
            Some(setting) if setting.value == value => {
                if !setting.from.contains(&origin) {
                    setting.from.push(origin);
                }
            }
            Some(setting) => {
                let first = &setting.from[0];
                let text =
                    format!("{key} has another value already, from {} line {}", first.file, first.line);
                self.remark(RemarkKind::Todo, at, text);
            }
        }
    }

    pub(crate) fn text(&mut self, key: &str, value: impl Into<String>, at: At<'_>) {
        self.set(key, Value::Text(value.into()), at);
    }

    /// Adds values to a list, without duplicates.
    pub(crate) fn add(&mut self, key: &str, values: impl IntoIterator<Item = String>, at: At<'_>) {
        let origin = self.origin(at);
        let known = self.import.settings.iter().position(|setting| setting.key == key);
        let index = known.unwrap_or_else(|| {
            self.push(key, Value::List(Vec::new()), origin.clone());
            self.import.settings.len() - 1
        });
        let setting = &mut self.import.settings[index];
        let Value::List(list) = &mut setting.value else { return };
        for value in values {
            if !list.contains(&value) {
                list.push(value);
            }
        }
        if known.is_some() && !setting.from.contains(&origin) {
            setting.from.push(origin);
        }
    }

    /// The values of a list.
    pub(crate) fn list(&self, key: &str) -> &[String] {
        match self.value(key) {
            Some(Value::List(list)) => list,
            _ => &[],
        }
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.import.settings.iter().find(|setting| setting.key == key).map(|setting| &setting.value)
    }

    pub(crate) fn remark(&mut self, kind: RemarkKind, at: At<'_>, text: impl Into<String>) {
        let remark = Remark { kind, from: self.origin(at), text: text.into() };
        if !self.import.remarks.contains(&remark) {
            self.import.remarks.push(remark);
        }
    }

    pub(crate) fn error(&mut self, at: At<'_>, text: impl Into<String>) {
        self.remark(RemarkKind::Error, at, text);
    }

    pub(crate) fn todo(&mut self, at: At<'_>, text: impl Into<String>) {
        self.remark(RemarkKind::Todo, at, text);
    }

    pub(crate) fn no_equivalent(&mut self, at: At<'_>, text: impl Into<String>) {
        self.remark(RemarkKind::NoEquivalent, at, text);
    }

    pub(crate) fn not_needed(&mut self, at: At<'_>, text: impl Into<String>) {
        self.remark(RemarkKind::NotNeeded, at, text);
    }

    /// Sets a period from a number of seconds.
    pub(crate) fn seconds(&mut self, key: &str, text: &str, at: At<'_>) {
        match parse::seconds(text) {
            Some(period) => self.text(key, period, at),
            None => self.error(at, format!("{text:?} is not a number of seconds")),
        }
    }

    /// Adds a remark about a key that Plumbago has no setting for. The first entry whose prefix matches gives
    /// the reason.
    pub(crate) fn remark_by(&mut self, not_needed: Table, no_equivalent: Table, at: At<'_>, unknown: &str) {
        let name = at.key.rsplit('.').next().unwrap_or_default();
        let find = |table: Table| table.iter().find(|(beginning, _)| name.starts_with(beginning));
        match (find(not_needed), find(no_equivalent)) {
            (Some((_, why)), _) => self.not_needed(at, *why),
            (None, Some((_, why))) => self.no_equivalent(at, *why),
            (None, None) => self.no_equivalent(at, unknown),
        }
    }

    /// The directory of the file that is being read.
    pub(crate) fn directory(&self) -> PathBuf {
        Path::new(&self.file).parent().map(Path::to_owned).unwrap_or_default()
    }

    pub(crate) fn exists(&self, path: &Path) -> bool {
        (self.exists)(path)
    }

    fn push(&mut self, key: &str, value: Value, origin: Origin) {
        self.import.settings.push(Setting { key: key.to_owned(), value, from: vec![origin] });
    }

    fn origin(&self, at: At<'_>) -> Origin {
        Origin { file: self.file.clone(), line: at.line, key: at.key.to_owned() }
    }
}
