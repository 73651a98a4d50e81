//! Finds the existing key that a misspelt key was probably meant to be.

use std::sync::OnceLock;

use serde_json::Value;

use super::keys;

/// Returns the path of the key that `path` probably means.
pub(super) fn similar(path: &str) -> Option<&'static str> {
    let wanted = letters(path);
    if let Some(key) = keys().iter().find(|key| letters(key) == wanted) {
        return Some(key);
    }
    let near = |key: &&String| distance(&letters(key), &wanted) <= 2 && wanted.len() > 4;
    let in_section = |key: &&String| section(key) == section(path);
    let last = |key: &&String| name(key) == name(path) && in_same_root(key, path);
    // Every listener has some keys with the same names. Usually the key of the line protocol is meant.
    let usual = |key: &&String| last(key) && section(key) == "ingest.line";
    let found = keys().iter().filter(in_section).find(near).or_else(|| keys().iter().find(near));
    found.or_else(|| keys().iter().find(usual)).or_else(|| keys().iter().find(last)).map(String::as_str)
}

/// Returns the key that has exactly these letters, whatever separates them: `API_LISTEN` means `api.listen`.
pub(super) fn same_letters(path: &str) -> Option<&'static str> {
    let wanted = letters(path);
    keys().iter().find(|key| letters(key) == wanted).map(String::as_str)
}

/// The environment variable that sets a key.
pub(super) fn variable(key: &str) -> String {
    format!("PLUMBAGO__{}", key.to_uppercase().replace('.', "__"))
}

/// The paths of all keys that have a value.
pub(super) fn keys() -> &'static [String] {
    static KEYS: OnceLock<Vec<String>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let mut found = Vec::new();
        collect("", keys::all_keys(), &mut found);
        found
    })
}

fn collect(path: &str, value: &Value, found: &mut Vec<String>) {
    match value.as_object() {
        Some(table) => table.iter().for_each(|(key, value)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            collect(&path, value, found);
        }),
        None => found.push(path.to_owned()),
    }
}

fn letters(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn section(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(section, _)| section)
}

fn name(path: &str) -> &str {
    path.rsplit_once('.').map_or(path, |(_, name)| name)
}

fn in_same_root(key: &str, path: &str) -> bool {
    key.split('.').next() == path.split('.').next()
}

/// The edit distance between two words: how many letters must be inserted, deleted or replaced.
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let cost = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = cost.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_recognised() {
        for (path, meant) in [
            ("journal.sinc", Some("journal.sync")),
            ("api_listen", Some("api.listen")),
            ("log.levle", Some("log.level")),
            ("store.cassandra.contactpoints", Some("store.cassandra.contact_points")),
            ("ingest.listen", Some("ingest.line.listen")),
            ("xyzzy", None),
            ("log.colour", None),
        ] {
            assert_eq!(similar(path), meant, "{path}");
        }
        assert_eq!(variable("api.tls.cert"), "PLUMBAGO__API__TLS__CERT");
        assert_eq!([distance("abc", "abd"), distance("abc", "ab"), distance("", "ab")], [1, 1, 2]);
    }
}
