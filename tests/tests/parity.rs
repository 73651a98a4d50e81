//! `docs/parity.md`: each row with the status *done* or *partly* names tests that exist. Each other row states a
//! reason.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use regex::Regex;

/// The rows of the two lists: of BigGraphite's features and of Graphite's.
const ROWS: [usize; 2] = [125, 49];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names of all tests below a directory, as `path::name`, with the path of the file in the repository. These are
/// functions with `#[test]` or a similar attribute, and tests that macros define.
fn tests() -> BTreeSet<String> {
    let function = Regex::new(
        r"(?m)^\s*#\[(?:tokio::)?test[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub )?(?:async )?fn ([a-z0-9_]+)",
    )
    .unwrap();
    let property = Regex::new(r"(?m)^\s+#\[test\]\s+fn ([a-z0-9_]+)\(").unwrap();
    let mut found = BTreeSet::new();
    let mut paths = vec![root().join("crates"), root().join("tests")];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let file = path.strip_prefix(root()).unwrap().display().to_string();
            let names = function.captures_iter(&text).chain(property.captures_iter(&text));
            found.extend(names.map(|name| format!("{file}::{}", &name[1])));
        }
    }
    found
}

/// The rows of a table: number, feature, status, and the tests that show it.
fn rows(section: &str) -> Vec<[String; 4]> {
    let row = Regex::new(r"(?m)^\| (\d+) \| (.*?) \| (done|partly|no) \| (.*) \|$").unwrap();
    let cells = row.captures_iter(section).map(|found| [1, 2, 3, 4].map(|cell| found[cell].to_owned()));
    cells.collect()
}

#[test]
fn each_row_names_a_test_or_a_reason() {
    let page = std::fs::read_to_string(root().join("docs/parity.md")).unwrap();
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert_eq!(sections.len(), ROWS.len());
    let name = Regex::new(r"`([a-z_/0-9-]+\.rs::[a-z0-9_]+)`").unwrap();
    let tests = tests();
    let mut wrong = Vec::new();
    for (section, count) in sections.iter().zip(ROWS) {
        let rows = rows(section);
        let numbers: Vec<String> = rows.iter().map(|row| row[0].clone()).collect();
        let wanted: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
        assert_eq!(numbers, wanted, "every row is there once, with a status");
        for [number, feature, status, shown] in rows {
            let named: Vec<&str> =
                name.captures_iter(&shown).map(|found| found.get(1).unwrap().as_str()).collect();
            let reason = shown.split(" (`").next().unwrap();
            wrong.extend(
                named
                    .iter()
                    .filter(|name| !tests.contains(**name))
                    .map(|name| format!("{number} {feature}: no test {name}")),
            );
            if named.is_empty() && status != "no" {
                wrong.push(format!("{number} {feature}: {status}, and no test"));
            }
            if status != "done" && reason.split_whitespace().count() < 3 {
                wrong.push(format!("{number} {feature}: {status}, and no reason"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
