//! Finds a Java that Cassandra 5.0 runs on: 17. Later ones have lost the security manager.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::NodeError;

const WANTED: &str = "17";

/// The `java` program of a Java 17: `JAVA_HOME`, the places where distributions put it, the `PATH`.
pub(crate) fn find() -> Result<PathBuf, NodeError> {
    let home = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|e| e.path());
    let homes = home.into_iter().chain(installed).map(|home| home.join("bin/java"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("java"));
    homes
        .chain(on_path)
        .find(|java| java.is_file() && major(java).as_deref() == Some(WANTED))
        .ok_or_else(|| NodeError::Missing(format!("Java {WANTED} (Debian: openjdk-17-jre-headless)")))
}

/// The major version, from `openjdk version "17.0.15" 2025-04-15`.
fn major(java: &Path) -> Option<String> {
    let output = Command::new(java).arg("-version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let version = text.split('"').nth(1)?;
    Some(version.split('.').next()?.to_owned())
}
