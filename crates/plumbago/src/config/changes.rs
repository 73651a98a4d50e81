//! Compares the settings of a running daemon with those of a reload.

use std::sync::OnceLock;

use serde_json::Value;

use super::{DEFAULT_TOML, keys, show, suggest};

/// The mark of keys that a reload applies, in the comments of [`DEFAULT_TOML`].
const MARK: &str = "[reload]";

/// A key whose value differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path of the key.
    pub key: &'static str,
    /// The old value, as the file writes it. Secrets are hidden.
    pub old: String,
    /// The new value.
    pub new: String,
}

/// Returns all keys whose values differ. `old` and `new` have the settings of file and environment; keys that they
/// do not set have their defaults.
pub fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let differ = |key: &&'static str| value(old, key) != value(new, key);
    let change = |key| Change { key, old: shown(key, value(old, key)), new: shown(key, value(new, key)) };
    suggest::keys().iter().map(String::as_str).filter(differ).map(change).collect()
}

/// Returns whether a reload applies a change of this key.
pub fn is_reloadable(key: &str) -> bool {
    static KEYS: OnceLock<Vec<String>> = OnceLock::new();
    KEYS.get_or_init(|| marked(DEFAULT_TOML)).iter().any(|marked| marked == key)
}

/// Returns the reloadable keys that name files.
pub fn file_keys() -> impl Iterator<Item = &'static str> {
    let names_file =
        |key: &&str| is_reloadable(key) && *key != "log.level" && !key.starts_with("api.limits.");
    suggest::keys().iter().map(String::as_str).filter(names_file)
}

/// Copies the value of `key` from `new` to `set`. If `new` does not have the key, removes it from `set`.
pub fn take(set: &mut Value, new: &Value, key: &str) {
    let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut table = set;
    for part in section.split('.').filter(|part| !part.is_empty()) {
        if !table[part].is_object() {
            table[part] = Value::Object(Default::default());
        }
        table = &mut table[part];
    }
    match (new.pointer(&pointer(key)), table.as_object_mut()) {
        (Some(value), Some(table)) => drop(table.insert(name.to_owned(), value.clone())),
        (None, Some(table)) => drop(table.remove(name)),
        (_, None) => {}
    }
}

/// Returns the text value of a key, or `None` if it is empty or not a text.
pub fn text<'a>(set: &'a Value, key: &str) -> Option<&'a str> {
    value(set, key).as_str().filter(|text| !text.is_empty())
}

fn value<'a>(set: &'a Value, key: &str) -> &'a Value {
    let found = set.pointer(&pointer(key)).or_else(|| keys::defaults().pointer(&pointer(key)));
    found.unwrap_or(&Value::Null)
}

fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}

fn shown(key: &str, value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        value => show::shown(key.rsplit('.').next().unwrap_or(key), value),
    }
}

/// The keys of a documented file whose comments have the mark.
fn marked(text: &str) -> Vec<String> {
    let (mut section, mut is_marked, mut found) = ("", false, Vec::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            is_marked |= comment.contains(MARK);
        } else if let Some(name) = line.strip_prefix('[') {
            (section, is_marked) = (name.trim_end_matches(']'), false);
        } else if let Some((key, _)) = line.trim_start_matches('#').split_once(" = ") {
            if is_marked {
                found.push(if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") });
            }
            is_marked = false;
        } else {
            is_marked = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_marked_keys_are_reloadable() {
        for key in
            ["storage_schemas", "log.level", "ingest.blacklist", "ingest.line.tls.client_ca", "api.tls.cert"]
        {
            assert!(is_reloadable(key), "{key}");
        }
        for key in ["data_dir", "api.listen", "cluster.ca", "store.cassandra.tls.cert", "ingest.line.listen"]
        {
            assert!(!is_reloadable(key), "{key}");
        }
    }

    #[test]
    fn changes_are_found_and_secrets_are_hidden() {
        let old = json!({"log": {"level": "info"}, "admin": {"token": "0123456789abcdef"}});
        let new = json!({"log": {"level": "debug"}, "admin": {"token": "fedcba9876543210"}, "api": {"gzip": true},
            "journal": {"max_bytes": "1GiB", "segment": "5m"}});
        let found = changes(&old, &new);
        let lines: Vec<String> = found.iter().map(|c| format!("{} {} {}", c.key, c.old, c.new)).collect();
        let expected = [
            "admin.token \"***\" \"***\"",
            "api.gzip false true",
            "journal.max_bytes not set \"1GiB\"",
            "log.level \"info\" \"debug\"",
        ];
        assert_eq!(lines, expected);
        assert!(changes(&old, &old).is_empty());
    }

    #[test]
    fn a_value_or_its_absence_is_taken() {
        let mut set = json!({"log": {"level": "info"}, "storage_schemas": "a"});
        let new = json!({"log": {"level": "debug"}, "ingest": {"line": {"tls": {"cert": "c"}}}});
        for key in ["log.level", "storage_schemas", "ingest.line.tls.cert", "ingest.blacklist"] {
            take(&mut set, &new, key);
        }
        let expected = json!({"log": {"level": "debug"}, "ingest": {"line": {"tls": {"cert": "c"}}}});
        assert_eq!(set, expected);
        assert_eq!((text(&set, "log.level"), text(&set, "ingest.blacklist")), (Some("debug"), None));
    }
}
