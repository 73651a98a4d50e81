//! The parts of `cargo metadata` that the checks need.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// The workspace.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// All packages, members and others.
    pub packages: Vec<Package>,
    /// Ids of the packages of this repository.
    pub workspace_members: Vec<String>,
    /// The directory of the root manifest.
    pub workspace_root: PathBuf,
}

/// One package at one version.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Name, as in its manifest.
    pub name: String,
    /// Unique id; opaque.
    pub id: String,
    /// The dependencies in its manifest.
    pub dependencies: Vec<Dependency>,
    /// Path of its `Cargo.toml`.
    pub manifest_path: PathBuf,
}

/// A dependency as a manifest states it.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// Package name.
    pub name: String,
    /// The name used in the code, if it differs from the package's.
    pub rename: Option<String>,
    /// Normal, development or build dependency.
    #[serde(default)]
    pub kind: Kind,
}

/// What a dependency is needed for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "Option<String>")]
pub enum Kind {
    /// Needed by the library or the binary.
    #[default]
    Normal,
    /// Needed only by tests and benchmarks.
    Dev,
    /// Needed only by the build script.
    Build,
}

impl From<Option<String>> for Kind {
    fn from(kind: Option<String>) -> Self {
        match kind.as_deref() {
            Some("dev") => Self::Dev,
            Some("build") => Self::Build,
            _ => Self::Normal,
        }
    }
}

impl Metadata {
    /// Runs `cargo metadata` in a directory of the workspace, for the host platform. Downloads missing crates.
    ///
    /// # Errors
    /// The message of `cargo`, if that command fails or the lock file is not up to date.
    pub fn load(directory: &Path) -> Result<Self, String> {
        let host = run(directory, "rustc", &["-vV"])?;
        let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().to_owned();
        let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &host];
        let text = run(directory, "cargo", &arguments)?;
        serde_json::from_str(&text).map_err(|error| format!("read the output of cargo metadata: {error}"))
    }

    /// The packages of this repository.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.workspace_members.contains(&package.id))
    }
}

/// A package that is needed to build another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// Package name.
    pub name: String,
    /// Version, like `1.0.2`.
    pub version: String,
    /// SPDX expression; empty if the manifest has none.
    pub licence: String,
    /// The path or the address that the package comes from; `None` for crates.io.
    pub origin: Option<String>,
}

/// Every package that is needed to build `package` for the host, including `package` itself, but without
/// development dependencies. Uses `cargo tree`, because `cargo metadata` also lists disabled optional
/// dependencies.
///
/// # Errors
/// The message of `cargo`.
pub fn tree(directory: &Path, package: &str) -> Result<Vec<Built>, String> {
    let edges = ["--edges", "normal,build"];
    let arguments = ["tree", "--locked", "--package", package, "--prefix", "none", "--format", "{p}|{l}"];
    let text = run(directory, "cargo", &[&arguments[..], &edges[..]].concat())?;
    let mut packages: Vec<Built> = text.lines().filter_map(built).collect();
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    packages.dedup();
    Ok(packages)
}

/// Reads a line like `syn v3.0.9 (proc-macro)|MIT OR Apache-2.0 (*)`.
fn built(line: &str) -> Option<Built> {
    let (package, licence) = line.split_once('|')?;
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.trim_start_matches('v'));
    let notes = words.map(|word| word.trim_matches(['(', ')']));
    let origin = notes.filter(|note| *note != "proc-macro").find(|note| note.contains('/'));
    Some(Built {
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.trim_end_matches("(*)").trim().to_owned(),
        origin: origin.map(str::to_owned),
    })
}

fn run(directory: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(directory).output();
    let output = output.map_err(|error| format!("run {program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{program}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_tree() {
        let syn = built("syn v3.0.9 (proc-macro)|MIT OR Apache-2.0 (*)").unwrap();
        assert_eq!((syn.name.as_str(), syn.version.as_str()), ("syn", "3.0.9"));
        assert_eq!((syn.licence.as_str(), syn.origin), ("MIT OR Apache-2.0", None));
        let ours = built("plumbago-model v0.1.0 (/src/crates/model)|Apache-2.0").unwrap();
        assert_eq!(ours.origin.as_deref(), Some("/src/crates/model"));
        let git = built("a v1.0.0 (https://example.org/a#1234)|").unwrap();
        assert_eq!((git.origin.as_deref(), git.licence.as_str()), (Some("https://example.org/a#1234"), ""));
        assert_eq!(built(""), None);
    }
}
