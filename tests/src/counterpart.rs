//! Where the programs are that `tests/install.sh` gets, and what happens when one is missing.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Python with graphite-web, whisper and carbon of `tests/requirements.txt`.
pub fn python() -> Option<PathBuf> {
    environment("python", "requirements.txt", include_str!("../requirements.txt"))
}

/// Python with BigGraphite, of `tests/requirements-biggraphite.txt`.
pub fn python_biggraphite() -> Option<PathBuf> {
    let wanted = include_str!("../requirements-biggraphite.txt");
    environment("biggraphite", "requirements-biggraphite.txt", wanted)
}

fn environment(name: &str, requirements: &str, wanted: &str) -> Option<PathBuf> {
    let environment = cache()?.join(name);
    let installed = std::fs::read_to_string(environment.join("requirements.txt")).unwrap_or_default();
    if installed != wanted {
        return skip(&format!("the Python environment of tests/{requirements}"));
    }
    Some(environment.join("bin/python"))
}

/// A script of the Python environment, like `carbon-relay.py`.
pub fn python_script(name: &str) -> Option<Command> {
    let python = python()?;
    let mut command = Command::new(&python);
    command.arg(python.parent()?.join(name));
    Some(command)
}

/// carbonapi, of `tests/carbonapi/go.mod`.
pub fn carbonapi() -> Option<Command> {
    let home = cache()?.join("carbonapi");
    let built = std::fs::read_to_string(home.join("go.sum")).unwrap_or_default();
    if built != include_str!("../carbonapi/go.sum") {
        return skip("carbonapi of tests/carbonapi");
    }
    Some(Command::new(home.join("carbonapi")))
}

/// A command of a Debian package, and the directory it is unpacked in ("/" when it is installed).
pub fn debian(program: &str) -> Option<(Command, PathBuf)> {
    let unpacked = cache()?.join("debian");
    for root in [unpacked.as_path(), Path::new("/")] {
        for directory in ["usr/sbin", "usr/bin"] {
            let path = root.join(directory).join(program);
            if path.is_file() {
                let mut command = Command::new(path);
                command.env("LD_LIBRARY_PATH", root.join("usr/lib/x86_64-linux-gnu"));
                return Some((command, root.to_owned()));
            }
        }
    }
    skip(program)
}

/// A program that belongs to the machine.
pub fn on_path(program: &str) -> Option<Command> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|d| d.join(program)).find(|p| p.is_file());
    match found {
        Some(path) => Some(Command::new(path)),
        None => skip(program),
    }
}

/// True for root, which some tests need.
pub fn root(why: &str) -> Option<()> {
    let owner = std::fs::metadata("/proc/self").map(|m| m.uid());
    if owner.is_ok_and(|uid| uid == 0) { Some(()) } else { skip(&format!("root, {why}")) }
}

/// Records that this test cannot run. Always `None`; under `CI=true` it is a failure.
pub fn skip<T>(missing: &str) -> Option<T> {
    let thread = std::thread::current();
    let line = format!("{}: not to be had: {missing}", thread.name().unwrap_or("?"));
    if std::env::var_os("CI").is_some_and(|v| v == "true") {
        panic!("{line} (run tests/install.sh)");
    }
    // Straight to the descriptor: the harness shows nothing of a test that passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {line}");
    if let Some(path) = std::env::var_os("PLUMBAGO_SKIPPED")
        && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = writeln!(file, "{line}");
    }
    None
}

/// The cache directory of `tests/install.sh`.
fn cache() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("PLUMBAGO_TEST_CACHE") {
        return Some(path.into());
    }
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache")));
    match base {
        Some(base) => Some(base.join("plumbago-tests")),
        None => skip("a home directory to cache programs in"),
    }
}
