//! Downloads Cassandra's jars once. Uses Maven, so that the mirrors configured on the machine apply.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cache;
use crate::error::NodeError;
use crate::release::{POM, Release};

/// The jars of a release on this machine.
#[derive(Debug, Clone)]
pub struct Artifacts {
    jars: Vec<PathBuf>,
    classes: Option<PathBuf>,
}

impl Artifacts {
    /// The jars of a release, from the cache. Downloads them if they are missing.
    ///
    /// # Errors
    ///
    /// [`NodeError::Missing`] if Maven is not installed, [`NodeError::Fetch`] if the download fails,
    /// [`NodeError::Io`] if the cache cannot be read or written.
    pub fn provide(release: Release) -> Result<Self, NodeError> {
        Self::read(&cache::once(release.version(), |unfinished| fetch(release, unfinished))?)
    }

    fn read(directory: &Path) -> Result<Self, NodeError> {
        let entries =
            fs::read_dir(directory).map_err(NodeError::io(format!("reading {}", directory.display())))?;
        let mut jars: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        jars.retain(|path| path.extension().is_some_and(|e| e == "jar"));
        jars.sort();
        Ok(Self { jars, classes: None })
    }

    /// The same jars with an archive of their classes, for a quick start.
    pub(crate) fn with_classes(self, classes: Option<PathBuf>) -> Self {
        Self { classes, ..self }
    }

    /// The archive of the classes, if there is one.
    pub(crate) fn classes(&self) -> Option<&Path> {
        self.classes.as_deref()
    }

    /// The jars as the argument of `java -cp`.
    pub(crate) fn class_path(&self) -> String {
        let jars: Vec<_> = self.jars.iter().map(|jar| jar.to_string_lossy()).collect();
        jars.join(":")
    }

    /// The jar of the artifact `name`, whatever its version.
    pub(crate) fn jar(&self, name: &str) -> Result<&Path, NodeError> {
        let named = |path: &&PathBuf| {
            path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{name}-")))
        };
        let found = self.jars.iter().find(named).map(PathBuf::as_path);
        found.ok_or_else(|| NodeError::Missing(format!("{name}.jar among Cassandra's jars")))
    }
}

fn fetch(release: Release, directory: &Path) -> Result<(), NodeError> {
    let pom = cache::cassandra()?.join("pom.xml");
    fs::write(&pom, POM).map_err(NodeError::io(format!("writing {}", pom.display())))?;
    copy_jars(&pom, &[format!("-Dcassandra={}", release.version())], directory)
}

/// Copies the jars that a POM names, and the jars that these need, into a directory.
///
/// # Errors
///
/// [`NodeError::Missing`] if Maven is not installed, [`NodeError::Fetch`] if the download fails.
pub fn copy_jars(pom: &Path, arguments: &[String], directory: &Path) -> Result<(), NodeError> {
    let output = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(pom)
        .arg("dependency:copy-dependencies")
        .args(arguments)
        .arg(format!("-DoutputDirectory={}", directory.display()))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => NodeError::Missing("mvn (Debian: maven)".to_owned()),
            _ => NodeError::Fetch(error.to_string()),
        })?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        return Err(NodeError::Fetch(String::from_utf8_lossy(&said).into_owned()));
    }
    Ok(())
}
