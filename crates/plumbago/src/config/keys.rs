//! All keys of the configuration with values of their types, from the documented defaults ([`super::DEFAULT_TOML`]).

use std::sync::OnceLock;

use config::{Config as Raw, File, FileFormat, Source, Value as RawValue, ValueKind};
use serde_json::Value;

use super::DEFAULT_TOML;

/// Every key with a value of its type: the documented defaults, with optional keys (`#key = …`) set to their
/// examples.
pub(super) fn all_keys() -> &'static Value {
    static KEYS: OnceLock<Value> = OnceLock::new();
    KEYS.get_or_init(|| parse(&with_optional_keys(DEFAULT_TOML)))
}

/// The documented defaults, without optional keys.
pub(super) fn defaults() -> &'static Value {
    static DEFAULTS: OnceLock<Value> = OnceLock::new();
    DEFAULTS.get_or_init(|| parse(DEFAULT_TOML))
}

fn with_optional_keys(text: &str) -> String {
    let is_key = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase()) && rest.contains(" = ");
    let line = |line: &str| match line.strip_prefix('#').filter(|rest| is_key(rest)) {
        Some(key) => key.to_owned() + "\n",
        None => line.to_owned() + "\n",
    };
    text.lines().map(line).collect()
}

/// Parses `default.toml`. A test checks that it is valid; otherwise the result would be an empty table.
fn parse(text: &str) -> Value {
    let source = File::from_str(text, FileFormat::Toml);
    let root = Raw::builder().add_source(source).build().and_then(|raw| raw.collect());
    Value::Object(root.unwrap_or_default().into_iter().filter_map(|(k, v)| Some((k, untyped(v)?))).collect())
}

/// A value as JSON has it. `None` for whole numbers of more than 64 bits.
pub(super) fn untyped(raw: RawValue) -> Option<Value> {
    Some(match raw.kind {
        ValueKind::Nil => Value::Null,
        ValueKind::Boolean(b) => Value::from(b),
        ValueKind::I64(n) => Value::from(n),
        ValueKind::U64(n) => Value::from(n),
        ValueKind::I128(_) | ValueKind::U128(_) => return None,
        ValueKind::Float(x) => Value::from(x),
        ValueKind::String(text) => Value::from(text),
        ValueKind::Array(items) => Value::Array(items.into_iter().map(untyped).collect::<Option<_>>()?),
        ValueKind::Table(table) => {
            Value::Object(table.into_iter().map(|(k, v)| Some((k, untyped(v)?))).collect::<Option<_>>()?)
        }
    })
}
