//! Settings of carbon, go-carbon, BigGraphite and graphite-web, read as settings of Plumbago. Pure: texts in,
//! settings and remarks out. Python files are read, never run.
//!
//! Must not know: files, the command line, the daemon's own configuration beyond the names of its keys. Start at
//! [`import`].

mod biggraphite;
mod carbon;
mod draft;
mod go_carbon;
mod graphite_web;
mod parse;
mod python;
mod toml_text;

use std::path::Path;

pub use draft::{Import, Origin, Remark, RemarkKind, Setting, Value};
pub use toml_text::to_toml;

use draft::Draft;

/// Which program a file configures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `carbon.conf`, with BigGraphite's keys if there are any.
    Carbon,
    /// go-carbon's TOML.
    GoCarbon,
    /// The `local_settings.py` of graphite-web, with BigGraphite's keys if there are any.
    GraphiteWeb,
}

/// A file to import.
#[derive(Debug, Clone)]
pub struct File {
    /// The path, as remarks show it. Relative paths in the file are resolved against the directory of this
    /// path.
    pub path: String,
    /// The whole content of the file.
    pub text: String,
    /// Which program it configures; `None` if this is to be determined from its name and content.
    pub format: Option<Format>,
}

/// A program that `carbon.conf` configures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// carbon-cache.
    Cache,
    /// carbon-relay.
    Relay,
    /// carbon-aggregator.
    Aggregator,
}

impl Program {
    /// All programs.
    pub const ALL: [Self; 3] = [Self::Cache, Self::Relay, Self::Aggregator];

    /// The section in `carbon.conf`.
    pub fn section(self) -> &'static str {
        match self {
            Self::Cache => "cache",
            Self::Relay => "relay",
            Self::Aggregator => "aggregator",
        }
    }
}

/// Reads files as settings of Plumbago. `programs` are the programs of `carbon.conf` that run, because the
/// file does not say which do. `exists` returns whether a file exists.
pub fn import(files: &[File], programs: &[Program], exists: &dyn Fn(&Path) -> bool) -> Import {
    let mut draft = Draft::new(exists);
    for file in files {
        draft.file.clone_from(&file.path);
        match file.format.unwrap_or_else(|| format_of(file)) {
            Format::Carbon => carbon::read(&file.text, programs, &mut draft),
            Format::GoCarbon => go_carbon::read(&file.text, &mut draft),
            Format::GraphiteWeb => graphite_web::read(&file.text, &mut draft),
        }
    }
    draft.finish()
}

/// Recognises Python files by their name. The files of both carbon and go-carbon have a section `[cache]`, so
/// the first key decides between them: carbon writes its keys in capitals.
fn format_of(file: &File) -> Format {
    if file.path.ends_with(".py") {
        return Format::GraphiteWeb;
    }
    let key = |line: &str| {
        let key = line.split(['=', ':']).next().unwrap_or_default().trim().to_owned();
        (line.contains(['=', ':']) && !line.trim_start().starts_with(['#', ';', '['])).then_some(key)
    };
    let is_capital = |key: String| key.chars().all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c));
    match file.text.lines().find_map(key).is_none_or(is_capital) {
        true => Format::Carbon,
        false => Format::GoCarbon,
    }
}
