//! Cassandra's jars: fetched once with Maven, which knows the repositories of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cache;
use crate::error::NodeError;

const POM: &str = include_str!("../pom.xml");

/// The pinned version.
pub fn version() -> &'static str {
    let after = POM.split("<artifactId>cassandra-all</artifactId>").nth(1).unwrap_or_default();
    let version = after.split("<version>").nth(1).and_then(|rest| rest.split("</version>").next());
    version.unwrap_or_default().trim()
}

/// The jars on this machine.
#[derive(Debug, Clone)]
pub struct Artifacts {
    jars: Vec<PathBuf>,
}

impl Artifacts {
    /// The jars in the cache, fetched first when they are not there.
    pub fn provide() -> Result<Self, NodeError> {
        let home = cache::cassandra()?;
        let jars = home.join(version());
        let lock = cache::lock_file(&home.join("lock"))?;
        lock.lock().map_err(NodeError::io("waiting for another download"))?;
        if !jars.is_dir() {
            fetch(&home, &jars)?;
        }
        Self::read(&jars)
    }

    fn read(directory: &Path) -> Result<Self, NodeError> {
        let entries =
            fs::read_dir(directory).map_err(NodeError::io(format!("reading {}", directory.display())))?;
        let mut jars: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        jars.retain(|path| path.extension().is_some_and(|e| e == "jar"));
        jars.sort();
        Ok(Self { jars })
    }

    /// For `java -cp`.
    pub(crate) fn class_path(&self) -> String {
        let jars: Vec<_> = self.jars.iter().map(|jar| jar.to_string_lossy()).collect();
        jars.join(":")
    }

    /// The one whose name starts so.
    pub(crate) fn jar(&self, name: &str) -> Result<&Path, NodeError> {
        let named = |path: &&PathBuf| {
            path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{name}-")))
        };
        let found = self.jars.iter().find(named).map(PathBuf::as_path);
        found.ok_or_else(|| NodeError::Missing(format!("{name}.jar among Cassandra's jars")))
    }
}

/// Fetches into a directory of its own that gets its name when it is complete.
fn fetch(home: &Path, jars: &Path) -> Result<(), NodeError> {
    let unfinished = home.join(format!("{}.unfinished", version()));
    let _ = fs::remove_dir_all(&unfinished);
    cache::make(unfinished.clone())?;
    let pom = home.join("pom.xml");
    fs::write(&pom, POM).map_err(NodeError::io(format!("writing {}", pom.display())))?;
    let output = Command::new("mvn")
        .args(["-q", "-B", "-f"])
        .arg(&pom)
        .arg("dependency:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", unfinished.display()))
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
    fs::rename(&unfinished, jars).map_err(NodeError::io(format!("naming {}", jars.display())))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_read_from_the_pom() {
        let parts: Vec<u32> = super::version().split('.').map(|p| p.parse().unwrap()).collect();
        assert_eq!(parts[..2], [5, 0]);
    }
}
