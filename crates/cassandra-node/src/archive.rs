//! An archive of the classes that Cassandra loads, in which they are parsed and verified already (class data sharing
//! of Java 17). A start with it takes 30 % less processor time. Java ignores an archive that does not suit its build,
//! the jars or their order.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::NodeError;
use crate::options::Options;
use crate::release::Release;
use crate::{cache, java};

/// The release that has an archive. Java 11, which the others run on, cannot write one when it ends.
const RELEASE: Release = Release::V5_0;

/// The name of the archive's file in the cache.
const FILE: &str = "classes.jsa";

/// Without these, Java neither writes nor reads an archive beside an agent. Cassandra needs an agent to
/// measure the size of objects.
const BESIDE_AGENT: [&str; 2] = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+AllowArchivingWithJavaAgent"];

/// The arguments of `java` that use an archive.
pub(crate) fn use_by(archive: &Path) -> Vec<String> {
    arguments("SharedArchiveFile", archive)
}

/// The archive for nodes with these options, from the cache. If it is missing, `run` has to make it: it
/// starts a node with the options that it is given, and stops the node cleanly. `None` if that fails, and for
/// nodes that need not start quickly or whose release has no archive. Such nodes start without one.
pub(crate) fn provide(
    options: &Options,
    run: impl FnOnce(&Options) -> Result<(), NodeError>,
) -> Option<PathBuf> {
    // A process tries only once: a failure takes as long as the start of a node.
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    if !options.quick || options.release != RELEASE {
        return None;
    }
    let found = FOUND.get_or_init(|| {
        find_or_make(run)
            .inspect_err(|error| eprintln!("Cassandra starts without an archive of its classes: {error}"))
            .ok()
    });
    found.clone()
}

fn find_or_make(run: impl FnOnce(&Options) -> Result<(), NodeError>) -> Result<PathBuf, NodeError> {
    let java = java::find(RELEASE)?;
    // Another build of Java needs another archive.
    let build = java::full_version(&java).unwrap_or_default();
    let directory = cache::once(&format!("{}-classes-{build}", RELEASE.version()), |unfinished| {
        let archive = unfinished.join(FILE);
        let java = arguments("ArchiveClassesAtExit", &archive);
        run(&Options { release: RELEASE, java, ..Options::default() })?;
        if archive.is_file() {
            Ok(())
        } else {
            Err(NodeError::Missing("the archive after Java's end".to_owned()))
        }
    })?;
    Ok(directory.join(FILE))
}

fn arguments(option: &str, archive: &Path) -> Vec<String> {
    let option = format!("-XX:{option}={}", archive.display());
    BESIDE_AGENT.map(str::to_owned).into_iter().chain([option]).collect()
}
