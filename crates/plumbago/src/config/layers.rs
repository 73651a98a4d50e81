//! Merges the settings of the file with those of the environment, which win. Values are not typed yet.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use config::{File, FileFormat, Map, Source, Value};
use toml::de::{DeTable, DeValue};

use super::problem::{Place, Problems};

/// The variable `PLUMBAGO__SECTION__KEY` sets the key `section.key`.
const PREFIX: &str = "PLUMBAGO";
const SEPARATOR: &str = "__";

/// Environment variables: names and values.
pub(super) type Environment = HashMap<String, String>;

/// The merged settings, and where each one was set.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) root: Map<String, Value>,
    file: Option<(PathBuf, String)>,
    /// Names of environment variables, by the path of the key that they set (`section.key`).
    variables: HashMap<String, String>,
}

/// Returns the environment variables of this process that set keys or appear to do so.
pub(super) fn environment() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
        .filter(|(name, _)| name.starts_with("PLUMBAGO_"))
        .collect()
}

/// Reads the file and merges the environment into it. A file that cannot be read or parsed is reported to
/// `problems` and left out.
pub(super) fn read(file: Option<&Path>, environment: Environment, problems: &mut Problems) -> Layers {
    let mut layers = Layers { variables: variables(&environment), ..Layers::default() };
    if let Some(path) = file {
        match std::fs::read_to_string(path) {
            Ok(text) => layers.file = Some((path.to_owned(), text)),
            Err(error) => {
                problems.error(Place::File(path.to_owned(), 0), "", format!("cannot be read: {error}"));
            }
        }
    }
    layers.root = layers.merge(environment, problems);
    layers
}

fn variables(environment: &Environment) -> HashMap<String, String> {
    let path =
        |name: &str| name.strip_prefix("PLUMBAGO__").map(|rest| rest.to_lowercase().replace("__", "."));
    environment.keys().filter_map(|name| Some((path(name)?, name.clone()))).collect()
}

impl Layers {
    fn merge(&self, environment: Environment, problems: &mut Problems) -> Map<String, Value> {
        let mut builder = config::Config::builder();
        if let Some((path, text)) = &self.file {
            match DeTable::parse(text) {
                Ok(_) => builder = builder.add_source(File::from_str(text, FileFormat::Toml)),
                Err(error) => {
                    let line = error.span().map_or(0, |span| line_at(text, span.start));
                    problems.error(Place::File(path.clone(), line), "", error.message().to_owned());
                }
            }
        }
        let environment = config::Environment::with_prefix(PREFIX)
            .prefix_separator(SEPARATOR)
            .separator(SEPARATOR)
            .source(Some(environment));
        match builder.add_source(environment).build().and_then(|config| config.collect()) {
            Ok(root) => root,
            Err(error) => {
                problems.error(self.place(""), "", error.to_string());
                Map::default()
            }
        }
    }

    /// Returns where the key at `path` was set.
    pub(super) fn place(&self, path: &str) -> Place {
        if let Some(name) = self.variables.get(path) {
            return Place::Environment(name.clone());
        }
        match &self.file {
            Some((file, text)) => match line_of(text, path) {
                Some(line) => Place::File(file.clone(), line),
                None if path.is_empty() => Place::File(file.clone(), 0),
                None => Place::Default,
            },
            None => Place::Default,
        }
    }

    /// Returns where the key at `path` was set. A key inside it that the environment set counts too. If neither
    /// exists, returns where the nearest enclosing section was set.
    pub(super) fn near(&self, path: &str) -> Place {
        let inside = format!("{path}.");
        if let Some((_, name)) = self.variables.iter().find(|(key, _)| key.starts_with(&inside)) {
            return Place::Environment(name.clone());
        }
        match (self.place(path), path.rsplit_once('.')) {
            (Place::Default, Some((section, _))) => self.near(section),
            (place, _) => place,
        }
    }

    /// Returns whether the environment set the key. Values from the environment are always text.
    pub(super) fn in_environment(&self, path: &str) -> bool {
        self.variables.contains_key(path)
    }
}

/// Returns the line of a key in the file, counted from 1.
fn line_of(text: &str, path: &str) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut keys = path.split('.').peekable();
    while let Some(key) = keys.next() {
        let (name, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
        if keys.peek().is_none() {
            return Some(line_at(text, name.span().start));
        }
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => return None,
        }
    }
    None
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count() + 1
}
