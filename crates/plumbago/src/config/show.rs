//! Prints the settings in effect as TOML.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::keys;

/// Keys whose values are hidden.
const SECRETS: [&str; 3] = ["token", "password", "secret"];

/// Returns all settings with the values in effect, as TOML. `set` has the values from the file and the
/// environment; the others are marked as defaults.
pub fn effective(set: &Value) -> String {
    let mut out = String::new();
    section(&mut out, "", keys::all_keys(), Some(keys::defaults()), Some(set));
    out
}

/// Returns all settings with the values in effect, as nested objects. Secrets are replaced as in [`effective`].
pub fn effective_values(set: &Value) -> Value {
    values(keys::all_keys(), Some(keys::defaults()), Some(set))
}

fn values(keys: &Value, defaults: Option<&Value>, set: Option<&Value>) -> Value {
    let Some(table) = keys.as_object() else { return Value::Null };
    let mut out = Map::new();
    for (key, inner) in table {
        let (default, chosen) = (defaults.and_then(|v| v.get(key)), set.and_then(|v| v.get(key)));
        if inner.is_object() {
            out.insert(key.clone(), values(inner, default, chosen));
        } else if let Some(value) = chosen.or(default) {
            let shown = if is_hidden(key, value) { Value::from("***") } else { value.clone() };
            out.insert(key.clone(), shown);
        }
    }
    Value::Object(out)
}

/// Writes the keys of a section, then its subsections.
fn section(out: &mut String, path: &str, keys: &Value, defaults: Option<&Value>, set: Option<&Value>) {
    let Some(table) = keys.as_object() else { return };
    for key in table.iter().filter(|(_, v)| !v.is_object()).map(|(key, _)| key) {
        let chosen = set.and_then(|v| v.get(key));
        if let Some(value) = chosen.or_else(|| defaults.and_then(|v| v.get(key))) {
            let shown = shown(key, value);
            let note = if chosen.is_some() { "" } else { "  # default" };
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{key} = {shown}{note}");
        }
    }
    for (key, inner) in table.iter().filter(|(_, v)| v.is_object()) {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let _ = writeln!(out, "\n[{path}]");
        section(out, &path, inner, defaults.and_then(|v| v.get(key)), set.and_then(|v| v.get(key)));
    }
}

/// Returns a value as TOML, or a substitute if the key (without its section) holds a secret.
pub(super) fn shown(key: &str, value: &Value) -> String {
    if is_hidden(key, value) { "\"***\"".to_owned() } else { value.to_string() }
}

/// Whether a value is a secret that is set.
fn is_hidden(key: &str, value: &Value) -> bool {
    SECRETS.contains(&key) && value.as_str().is_some_and(|text| !text.is_empty())
}
