//! Finds unused dependencies. A dependency counts as used if its name occurs as a word in the code, outside
//! comments. This is rough, but it is rarely wrong and needs no compiler.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::metadata::{Kind, Metadata, Package};

/// Dependencies that no code names, because they only pin a version.
const PINS: &[&str] = &[];

/// One message per dependency of a crate that its code never names, and per entry of
/// `[workspace.dependencies]` that no crate depends on.
///
/// # Errors
/// If a source file or the root manifest cannot be read.
pub fn check(metadata: &Metadata) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    let mut asked_for = BTreeSet::new();
    for package in metadata.members() {
        asked_for.extend(package.dependencies.iter().map(|dependency| dependency.name.clone()));
        problems.extend(unused(package)?);
    }
    let manifest = metadata.workspace_root.join("Cargo.toml");
    let table: toml::Table =
        read(&manifest)?.parse().map_err(|error| format!("{}: {error}", manifest.display()))?;
    let entries = table.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    for (name, _) in entries.and_then(toml::Value::as_table).into_iter().flatten() {
        if !asked_for.contains(name) {
            problems.push(format!("{name} is in [workspace.dependencies], but no crate depends on it"));
        }
    }
    Ok(problems)
}

fn unused(package: &Package) -> Result<Vec<String>, String> {
    let directory = package.manifest_path.parent().unwrap_or(Path::new(""));
    let mut used = BTreeSet::new();
    for file in sources(directory)? {
        words(&read(&file)?, &mut used);
    }
    let names_itself = |name: &str| name == package.name;
    let problem = |dependency: &&crate::metadata::Dependency| {
        let word = dependency.rename.as_ref().unwrap_or(&dependency.name).replace('-', "_");
        !used.contains(&word) && !names_itself(&dependency.name) && !PINS.contains(&dependency.name.as_str())
    };
    let message = |dependency: &crate::metadata::Dependency| {
        let table = match dependency.kind {
            Kind::Normal => "dependencies",
            Kind::Dev => "dev-dependencies",
            Kind::Build => "build-dependencies",
        };
        format!("{}: {} is in [{table}], but the code does not use it", package.name, dependency.name)
    };
    Ok(package.dependencies.iter().filter(problem).map(message).collect())
}

/// The Rust files of a package, without packages in directories below it.
pub(crate) fn sources(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    let entries = fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.ends_with("target") && !path.join("Cargo.toml").exists() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

fn words(code: &str, into: &mut BTreeSet<String>) {
    for line in code.lines() {
        let line = line.split_once("//").map_or(line, |(before, _)| before);
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        into.extend(words.filter(|word| !word.is_empty()).map(str::to_owned));
    }
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_code_but_not_of_comments() {
        let mut found = BTreeSet::new();
        words("use serde_json::Value; // not tokio\n//! nor axum\n#[derive(thiserror::Error)]", &mut found);
        for word in ["serde_json", "thiserror"] {
            assert!(found.contains(word), "{word}");
        }
        for word in ["tokio", "axum", "serde"] {
            assert!(!found.contains(word), "{word}");
        }
    }
}
