//! Licences, sources, banned and duplicate crates, checked by the rules of `deny.toml`, which is a file of
//! cargo-deny. The rules that need no network are checked here too, because the installation of cargo-deny
//! takes minutes, and a build machine may be unable to reach the host of its advisory database.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use crate::metadata::Built;

/// One message per rule of `deny_toml` that the packages of the binary break.
///
/// # Errors
/// If `deny_toml` is not TOML.
pub fn check(packages: &[Built], deny_toml: &str) -> Result<Vec<String>, String> {
    let rules: Table = deny_toml.parse().map_err(|error| format!("deny.toml: {error}"))?;
    let mut problems = Vec::new();
    for package in packages {
        let at = format!("{} {}", package.name, package.version);
        problems.extend(licence(package, &strings(&rules, "licenses", "allow")));
        let ours = package.name == "plumbago" || package.name.starts_with("plumbago-");
        if let Some(origin) = package.origin.as_ref().filter(|_| !ours) {
            problems.push(format!("{at}: comes from {origin}, not from crates.io"));
        }
        if strings(&rules, "bans", "deny").contains(&package.name) {
            problems.push(format!("{at}: banned by deny.toml"));
        }
    }
    problems.extend(duplicates(packages, &strings(&rules, "bans", "skip")));
    Ok(problems)
}

fn licence(package: &Built, allowed: &BTreeSet<String>) -> Option<String> {
    let (at, text) = (format!("{} {}", package.name, package.version), &package.licence);
    let Ok(expression) = spdx::Expression::parse_mode(text, spdx::ParseMode::LAX) else {
        return Some(format!("{at}: licence {text:?} is not an SPDX expression"));
    };
    let fits = expression.evaluate(|requirement| allowed.contains(&requirement.license.to_string()));
    (!fits).then(|| format!("{at}: licence {text:?} is not allowed by deny.toml"))
}

/// Crates with several versions. All versions except the newest must be listed as `name@version`, and every
/// listed version must be in use.
fn duplicates(packages: &[Built], skipped: &BTreeSet<String>) -> Vec<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let mut problems = Vec::new();
    let mut older = BTreeSet::new();
    for (name, mut versions) in versions {
        versions.sort_by_key(|version| numbers(version));
        versions.pop();
        older.extend(versions.into_iter().map(|version| format!("{name}@{version}")));
    }
    for entry in older.difference(skipped) {
        problems
            .push(format!("{entry}: older duplicate; see cargo tree -i {entry}, or list it in deny.toml"));
    }
    for entry in skipped.difference(&older) {
        problems.push(format!("{entry}: listed as a duplicate in deny.toml, but is none"));
    }
    problems
}

fn numbers(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0)).collect()
}

/// A list of `deny.toml`, whose items are texts or tables with a key `crate`.
fn strings(rules: &Table, section: &str, key: &str) -> BTreeSet<String> {
    let list = rules.get(section).and_then(|section| section.get(key)).and_then(Value::as_array);
    let text = |item: &Value| item.as_str().or_else(|| item.get("crate")?.as_str()).map(str::to_owned);
    list.into_iter().flatten().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, licence: &str) -> Built {
        let [name, version, licence] = [name, version, licence].map(str::to_owned);
        Built { name, version, licence, origin: None }
    }

    #[test]
    fn licences_are_expressions() {
        let allowed = BTreeSet::from(["MIT".to_owned(), "ISC".to_owned()]);
        for good in ["MIT", "MIT OR Apache-2.0", "Apache-2.0/MIT", "ISC AND (MIT OR GPL-3.0-only)"] {
            assert_eq!(licence(&package("a", "1.0.0", good), &allowed), None, "{good}");
        }
        for bad in ["Apache-2.0", "MIT AND Apache-2.0", "whatever", ""] {
            assert!(licence(&package("a", "1.0.0", bad), &allowed).is_some(), "{bad}");
        }
    }

    #[test]
    fn older_duplicates_have_to_be_listed_and_no_others() {
        let packages =
            [package("a", "0.9.1", "MIT"), package("a", "0.10.0", "MIT"), package("b", "1.0.0", "MIT")];
        let with = |skipped: &[&str]| {
            duplicates(&packages, &skipped.iter().map(|entry| (*entry).to_owned()).collect()).len()
        };
        assert_eq!((with(&["a@0.9.1"]), with(&[]), with(&["a@0.9.1", "b@0.1.0"])), (0, 1, 1));
    }

    #[test]
    fn banned_and_foreign_crates_are_named() {
        let rules = "[licenses]\nallow = [\"MIT\"]\n[bans]\ndeny = [{ crate = \"b\", reason = \"old\" }]";
        let git = Built { origin: Some("https://example.org".to_owned()), ..package("a", "1.0.0", "MIT") };
        let problems = check(&[git, package("b", "1.0.0", "MIT")], rules).unwrap();
        assert_eq!(problems.len(), 2, "{problems:?}");
    }
}
