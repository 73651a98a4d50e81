//! Turns raw values into typed settings without coercion.
//!
//! The `config` crate would turn `20.7` into port 21 and `true` into 1. So the type of each merged value is
//! first compared with that of the documented default of its key ([`super::DEFAULT_TOML`]). Values from the
//! environment are text and are parsed as that type.

use config::{Map, Value as RawValue, ValueKind};
use serde_json::{Map as Table, Value};

use plumbago_model::{ByteSize, Period};

use super::Config;
use super::keys::{all_keys, untyped};
use super::layers::Layers;
use super::problem::Problems;
use super::{renamed, suggest};

/// Converts each setting to the type of its key. Reports unknown keys and values of another type, and leaves
/// them out.
pub(super) fn typed(layers: &Layers, problems: &mut Problems) -> Value {
    let mut walk = Walk { layers, problems };
    Value::Object(walk.table(&layers.root, all_keys(), ""))
}

struct Walk<'a> {
    layers: &'a Layers,
    problems: &'a mut Problems,
}

impl Walk<'_> {
    fn table(&mut self, raw: &Map<String, RawValue>, example: &Value, path: &str) -> Table<String, Value> {
        let mut table = Table::new();
        for (key, value) in raw {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let Some(example) = example.get(key) else {
                self.unknown(value, &path);
                continue;
            };
            if let Some(value) = self.value(value, example, &path) {
                table.insert(key.clone(), value);
            }
        }
        table
    }

    /// Reports an unknown key. If it is a table without a line of its own, reports each key inside it.
    fn unknown(&mut self, value: &RawValue, path: &str) {
        match &value.kind {
            ValueKind::Table(inner) if self.layers.place(path) == super::Place::Default => {
                inner.iter().for_each(|(key, value)| self.unknown(value, &format!("{path}.{key}")));
            }
            _ => match (renamed::new_name(path), suggest::similar(path)) {
                (Some(name), _) => self.problem(path, &format!("is called {name} now; rename it")),
                (None, Some(key)) => {
                    let key = match self.layers.in_environment(path) {
                        true => suggest::variable(key),
                        false => key.to_owned(),
                    };
                    self.problem(path, &format!("there is no such key; did you mean {key}?"));
                }
                (None, None) => {
                    self.problem(path, "there is no such key; `plumbago config default` lists them all");
                }
            },
        }
    }

    fn value(&mut self, raw: &RawValue, example: &Value, path: &str) -> Option<Value> {
        if let (ValueKind::Table(raw), Value::Object(_)) = (&raw.kind, example) {
            return Some(Value::Object(self.table(raw, example, path)));
        }
        let value = match &raw.kind {
            // The key's type parses the word "none" itself.
            ValueKind::String(text) if takes_none(path) && text.trim() == "none" => Some(Value::from("none")),
            ValueKind::String(text) if self.layers.in_environment(path) => from_text(text, example),
            ValueKind::Array(_) if takes_list(path) => untyped(raw.clone()),
            _ => untyped(raw.clone()).and_then(|value| same_type(value, example)),
        };
        if value.is_none() {
            let more = match path {
                _ if takes_list(path) => ", or a list of such texts",
                _ if takes_none(path) => ", or \"none\"",
                _ => "",
            };
            self.problem(path, &(must_be(example, &given(raw)) + more));
        }
        value
    }

    fn problem(&mut self, path: &str, message: &str) {
        self.problems.error(self.layers.place(path), path, message);
    }
}

/// Whether a key accepts a list of texts as well as the single text of its example.
fn takes_list(path: &str) -> bool {
    path.starts_with("ingest.") && path.ends_with(".listen")
}

/// Whether a key accepts the word "none" as well as a number like that of its example.
fn takes_none(path: &str) -> bool {
    path == "engine.max_creates_per_minute"
}

/// Parses the text of an environment variable as the type of the example. List items are separated by commas.
fn from_text(text: &str, example: &Value) -> Option<Value> {
    let trimmed = text.trim();
    match example {
        Value::String(_) => Some(Value::from(text)),
        Value::Bool(_) => trimmed.parse::<bool>().ok().map(Value::from),
        Value::Number(n) if n.is_f64() => trimmed.parse::<f64>().ok().map(Value::from),
        // As in the file, `_` may group digits.
        Value::Number(_) => trimmed.replace('_', "").parse::<i64>().ok().map(Value::from),
        Value::Array(_) if trimmed.is_empty() => Some(Value::Array(Vec::new())),
        Value::Array(_) => Some(trimmed.split(',').map(|item| Value::from(item.trim())).collect()),
        _ => None,
    }
}

fn same_type(value: Value, example: &Value) -> Option<Value> {
    match (&value, example) {
        (Value::String(_), Value::String(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Array(_), Value::Array(_)) => Some(value),
        (Value::Number(_), Value::Number(example)) if example.is_f64() => value.as_f64().map(Value::from),
        (Value::Number(number), Value::Number(_)) => (!number.is_f64()).then_some(value),
        _ => None,
    }
}

fn type_name(example: &Value) -> &'static str {
    match example {
        Value::String(_) => "a text",
        Value::Bool(_) => "true or false",
        Value::Number(n) if n.is_f64() => "a number",
        Value::Number(_) => "a whole number",
        Value::Array(_) => "a list",
        _ => "a [section]",
    }
}

/// A message that says what type a key must have, and which value was given.
fn must_be(example: &Value, given: &str) -> String {
    let (wanted, example) = (type_name(example), shown(example));
    let has_unit = |text: &str| text.parse::<Period>().is_ok() || text.parse::<ByteSize>().is_ok();
    match given {
        "" => format!("must be {wanted}, like {example}"),
        number if has_unit(example.trim_matches('"')) && number.parse::<f64>().is_ok() => {
            format!("must have a unit and quotes, like {example}; {number} has none")
        }
        _ => format!("must be {wanted}, like {example}, not {given}"),
    }
}

/// A value as the user wrote it, if it is short.
fn given(raw: &RawValue) -> String {
    match &raw.kind {
        ValueKind::Boolean(value) => value.to_string(),
        ValueKind::I64(number) => number.to_string(),
        ValueKind::U64(number) => number.to_string(),
        ValueKind::I128(number) => number.to_string(),
        ValueKind::U128(number) => number.to_string(),
        ValueKind::Float(number) => format!("{number:?}"),
        ValueKind::String(text) if text.len() <= 40 => format!("{text:?}"),
        _ => String::new(),
    }
}

fn shown(example: &Value) -> String {
    match example {
        Value::Object(table) => table.keys().next().map_or(String::new(), |key| format!("{key} = …")),
        _ => example.to_string(),
    }
}

/// Builds the settings. A value that its type refuses is reported and removed, and the rest is tried again,
/// so that all such values are found.
pub(super) fn build(set: &Value, layers: &Layers, problems: &mut Problems) -> Config {
    let mut left = set.clone();
    loop {
        let error = match serde_path_to_error::deserialize::<_, Config>(&left) {
            Ok(config) => return config,
            Err(error) => error,
        };
        let path = error.path().to_string();
        let path = path.split('[').next().unwrap_or_default();
        problems.error(layers.place(path), path, plain(&error.inner().to_string()));
        if !remove(&mut left, path) {
            return Config::default();
        }
    }
}

/// Replaces the Rust terms in serde's messages by words that users know.
fn plain(message: &str) -> String {
    let quoted =
        |text: &str| -> Vec<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    if let Some(rest) = message.strip_prefix("invalid value: integer `")
        && let Some((number, expected)) = rest.split_once("`, expected ")
    {
        let most = match expected {
            "u8" => format!("from 0 to {}", u8::MAX),
            "u16" => format!("from 0 to {}", u16::MAX),
            "u32" => format!("from 0 to {}", u32::MAX),
            _ => "of 0 or more".to_owned(),
        };
        return format!("must be a whole number {most}, not {number}");
    }
    if message.starts_with("unknown variant") {
        let words: Vec<String> = quoted(message).iter().map(|word| format!("{word:?}")).collect();
        if let Some((given, known @ [_, ..])) = words.split_first() {
            return format!("must be {}, not {given}", known.join(" or "));
        }
    }
    if message.starts_with("invalid type: ") && message.ends_with("expected a string") {
        return "must be a list of texts in quotes, like [\"a\", \"b\"]".to_owned();
    }
    message.to_owned()
}

fn remove(root: &mut Value, path: &str) -> bool {
    let (parent, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (root.pointer_mut(&format!("/{}", parent.replace('.', "/"))), key),
        None => (Some(root), path),
    };
    parent.and_then(Value::as_object_mut).is_some_and(|table| table.remove(key).is_some())
}
