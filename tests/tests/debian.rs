//! The Debian package and the image, tested in a small Debian: the package under a real systemd, the steps of the
//! image in a chroot. If there is a container engine, it builds the image too.

mod image;

use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use plumbago_tests::answer::{self, Series};
use plumbago_tests::counterpart;
use plumbago_tests::daemon::binary;
use plumbago_tests::debian::{Machine, Root, said};
use plumbago_tests::http;
use plumbago_tests::own_network;
use plumbago_tests::send::{LineSender, Point};
use plumbago_tests::wait::wait_for;
use tempfile::TempDir;

const CONFIGURATION: &str = "/etc/plumbago/plumbago.toml";
const DATA: &str = "/var/lib/plumbago";
/// The first line of the configuration of a later version of the package.
const LATER: &str = "# A later version.";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A directory with copies of everything that the package contains, except the binary.
fn sources() -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    let parts =
        ["README.md", "CHANGELOG.md", "docs", "deploy", "page/dist/licences.txt", "crates/graph/fonts"];
    let output = Command::new("cp")
        .args(["-R", "--parents"])
        .args(parts)
        .arg(copy.path())
        .current_dir(root())
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", said(&output));
    copy
}

/// Builds a package. It is not compressed, because that would take most of the time. `None` if the tools are missing.
fn package(sources: &Path, version: &str, place: &Path) -> Option<PathBuf> {
    counterpart::on_path("dpkg-deb")?;
    counterpart::on_path("readelf")?;
    let mut command = Command::new(sources.join("deploy/debian/build"));
    command.arg(binary()).arg(version).arg(place).env("DPKG_DEB_COMPRESSOR_TYPE", "none");
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    Some(String::from_utf8(output.stdout).unwrap().trim().into())
}

fn field(package: &Path, name: &str) -> String {
    let output = Command::new("dpkg-deb").arg("-f").arg(package).arg(name).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_package_is_the_same_each_time_it_is_built() {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let Some(one) = package(&root(), "1.0", places[0].path()) else { return };
    let copy = sources();
    let other = package(copy.path(), "1.0", places[1].path()).unwrap();
    assert_eq!(one.file_name(), other.file_name());
    // Not `assert_eq!`, which would print the bytes of both packages.
    assert!(std::fs::read(&one).unwrap() == std::fs::read(&other).unwrap(), "the packages differ");
}

/// The package depends on exactly the libraries that Debian's own tool finds.
#[test]
fn the_package_depends_on_what_the_binary_needs() {
    let place = tempfile::tempdir().unwrap();
    let Some(package) = package(&root(), "1:2.3~rc1-4", place.path()) else { return };
    let Some(mut tool) = counterpart::on_path("dpkg-shlibdeps") else { return };
    let name = package.file_name().and_then(|name| name.to_str()).unwrap();
    assert!(name.starts_with("plumbago_2.3~rc1-4_") && name.ends_with(".deb"), "{name}");
    assert_eq!(field(&package, "Version"), "1:2.3~rc1-4");

    std::fs::create_dir(place.path().join("debian")).unwrap();
    let control = "Source: plumbago\nMaintainer: a <a@example.org>\n\nPackage: plumbago\nArchitecture: any\n";
    std::fs::write(place.path().join("debian/control"), control).unwrap();
    let output = tool.arg("-O").arg(binary()).current_dir(place.path()).output().unwrap();
    let found = String::from_utf8(output.stdout).unwrap();
    let libraries = found.trim().strip_prefix("shlibs:Depends=").unwrap_or_else(|| panic!("{found}"));
    let depends = field(&package, "Depends");
    assert!(depends.ends_with(&format!(", {libraries}")), "{depends}, not {libraries}");
}

#[test]
fn a_wrong_version_or_binary_makes_no_package() {
    if counterpart::on_path("dpkg").is_none() || counterpart::on_path("readelf").is_none() {
        return;
    }
    let script = root().join("deploy/debian/build");
    let empty = tempfile::tempdir().unwrap();
    let refused = |binary: &Path, version: &str| {
        let mut command = Command::new(&script);
        let output = command.arg(binary).arg(version).arg(empty.path()).output().unwrap();
        assert!(!output.status.success(), "{}", said(&output));
        said(&output)
    };
    assert!(refused(&binary(), "one").contains("not a valid Debian version"));
    assert!(refused(&empty.path().join("none"), "1.0").contains("missing"));
    assert!(refused(&script, "1.0").contains("readelf"), "a script is no binary");
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
}

/// A machine with two versions of the package in /packages. The later one has another default configuration.
struct Installation {
    machine: Machine,
    packages: [String; 2],
}

impl Installation {
    fn new() -> Option<Self> {
        let root_directory = Root::new()?;
        let place = root_directory.path("/packages");
        let first = package(&root(), "1.0", &place)?;
        let copy = sources();
        for file in ["deploy/debian/plumbago.toml", "deploy/examples/storage-schemas.conf"] {
            let path = copy.path().join(file);
            std::fs::write(&path, format!("{LATER}\n{}", read(&path))).unwrap();
        }
        let second = package(copy.path(), "1.1", &place)?;
        let packages =
            [first, second].map(|path| format!("/packages/{}", path.file_name().unwrap().to_str().unwrap()));
        Some(Self { machine: Machine::start(root_directory), packages })
    }

    /// Installs a version non-interactively, as a script does.
    fn install(&self, version: usize) -> String {
        self.machine.run(&["dpkg", "--force-confold", "-i", &self.packages[version]])
    }

    fn exists(&self, path: &str) -> bool {
        std::fs::symlink_metadata(self.machine.path(path)).is_ok()
    }

    fn enabled(&self, unit: &str) -> bool {
        let output = self.machine.command(&["systemctl", "is-enabled", unit]).output().unwrap();
        said(&output).trim() == "enabled"
    }

    /// The daemon's process id, as the machine counts processes.
    fn daemon(&self) -> String {
        assert_eq!(self.machine.state("plumbago"), "active", "{}", self.journal());
        self.machine.run(&["systemctl", "show", "-P", "MainPID", "plumbago"]).trim().to_owned()
    }

    fn journal(&self) -> String {
        self.machine.run(&["journalctl", "--no-pager", "-u", "plumbago"])
    }

    /// User and group of the package, as numbers.
    fn user(&self) -> (u32, u32) {
        let entry = self.machine.run(&["getent", "passwd", "plumbago"]);
        let fields: Vec<&str> = entry.trim().split(':').collect();
        assert_eq!(fields[5..], [DATA, "/usr/sbin/nologin"], "{entry}");
        (fields[2].parse().unwrap(), fields[3].parse().unwrap())
    }
}

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// The start of the current slot: the default retention has one-minute slots.
fn slot() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    i64::try_from(now).unwrap() / 60 * 60
}

fn send(name: &str, timestamp: i64, value: f64) {
    LineSender::connect(address(2003)).send(&[Point::new(name, timestamp, value)]);
}

/// Waits until the API at this port returns exactly these points, as numbers and as a picture.
fn draws(port: u16, name: &str, points: &[(i64, f64)]) {
    let query = |format| http::url("/render", &[("target", name), ("from", "-30min"), ("format", format)]);
    wait_for(name, || {
        let series = answer::raw(&http::get(address(port), &query("raw")).body).unwrap();
        let known: Vec<(i64, f64)> = series.iter().flat_map(Series::known).collect();
        (known == points).then_some(())
    });
    assert!(http::get(address(port), &query("png")).bytes.starts_with(b"\x89PNG"));
}

#[test]
fn the_package_is_installed_upgraded_removed_and_purged() {
    if !own_network::inside_as_root("debian::the_package_is_installed_upgraded_removed_and_purged") {
        return;
    }
    let Some(here) = Installation::new() else { return };
    let machine = &here.machine;

    // Installed: user, directories, configuration, units, and a daemon that runs.
    here.install(0);
    let (user, group) = here.user();
    assert_eq!(machine.run(&["dpkg", "--verify", "plumbago"]), "");
    let data = std::fs::metadata(machine.path(DATA)).unwrap();
    assert_eq!((data.uid(), data.gid(), data.mode() & 0o7777), (user, group, 0o750));
    let conffiles = machine.run(&["dpkg-query", "-W", "-f", "${Conffiles}", "plumbago"]);
    for name in ["plumbago.toml", "storage-schemas.conf", "storage-aggregation.conf"] {
        let path = format!("/etc/plumbago/{name}");
        assert!(conffiles.contains(&path), "{conffiles}");
        let file = std::fs::metadata(machine.path(&path)).unwrap();
        assert_eq!((file.uid(), file.gid(), file.mode() & 0o7777), (0, 0, 0o644), "{path}");
    }
    assert!(here.enabled("plumbago") && !here.enabled("plumbago-clean.timer"));
    let units = ["plumbago.service", "plumbago-clean.service", "plumbago-clean.timer"];
    assert_eq!(machine.run(&[&["systemd-analyze", "verify", "--man=no"][..], &units].concat()), "");
    let checked = machine.run(&["plumbago", "--config", CONFIGURATION, "config", "check"]);
    assert!(checked.contains("0 warning(s)"), "{checked}");

    // The daemon runs as that user, has no privileges, and can write to its data and nothing else.
    let daemon = here.daemon();
    let status = read(machine.path(&format!("/proc/{daemon}/status")));
    assert!(status.contains(&format!("Uid:\t{user}\t{user}\t{user}\t{user}\n")), "{status}");
    assert!(status.contains("CapBnd:\t0000000000000000\n"), "{status}");
    let (user, group) = (user.to_string(), group.to_string());
    let place = ["nsenter", "--target", &daemon, "--mount", "--", "setpriv", "--clear-groups"];
    let touch = ["--reuid", &user, "--regid", &group, "touch"];
    let touching = |path: &'static str| [&place[..], &touch, &[path]].concat();
    for path in ["/usr/bin/x", "/etc/x", "/etc/plumbago/x", "/var/lib/x"] {
        let refused = machine.run_badly(&touching(path));
        assert!(
            refused.contains("Read-only file system") || refused.contains("Permission denied"),
            "{path}: {refused}"
        );
    }
    machine.run(&touching("/var/lib/plumbago/x"));

    // The daemon accepts points and draws them. The command and the other unit find the daemon.
    let slot = slot();
    send("servers.a.load", slot, 5.0);
    draws(8080, "servers.a.load", &[(slot, 5.0)]);
    let found = machine.run(&["plumbago", "--config", CONFIGURATION, "test"]);
    assert_eq!(found.matches(" ok: ").count(), 3, "{found}");
    machine.run(&["systemctl", "start", "plumbago-clean.service"]);
    machine.run(&["systemctl", "reload", "plumbago"]);
    assert_eq!(here.daemon(), daemon);

    // An upgrade keeps modified files and their modes, replaces all others, and restarts the daemon.
    let file = machine.path(CONFIGURATION);
    let edited = read(&file).replace("127.0.0.1:8080", "127.0.0.1:8088");
    std::fs::write(&file, &edited).unwrap();
    chown(&file, Some(0), Some(group.parse().unwrap())).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    here.install(1);
    assert_ne!(here.daemon(), daemon);
    assert_eq!(read(&file), edited);
    let kept = std::fs::metadata(&file).unwrap();
    assert_eq!((kept.gid().to_string(), kept.mode() & 0o7777), (group, 0o640));
    assert!(read(machine.path("/etc/plumbago/plumbago.toml.dpkg-dist")).starts_with(LATER));
    assert!(read(machine.path("/etc/plumbago/storage-schemas.conf")).starts_with(LATER));
    draws(8088, "servers.a.load", &[(slot, 5.0)]);

    // A unit that the administrator disabled stays disabled.
    machine.run(&["systemctl", "disable", "plumbago"]);
    here.install(1);
    assert!(!here.enabled("plumbago"));
    machine.run(&["systemctl", "enable", "plumbago"]);

    // Removed: configuration and data stay, and the next installation uses them.
    machine.run(&["systemctl", "start", "plumbago-clean.timer"]);
    machine.run(&["dpkg", "-r", "plumbago"]);
    assert_eq!(machine.state("plumbago"), "inactive");
    assert_eq!(machine.state("plumbago-clean.timer"), "inactive");
    for path in ["/usr/bin/plumbago", "/usr/lib/systemd/system/plumbago.service", "/usr/share/doc/plumbago"] {
        assert!(!here.exists(path), "{path}");
    }
    assert_eq!(read(&file), edited);
    assert!(here.exists(&format!("{DATA}/journal")));
    here.install(1);
    here.daemon();
    draws(8088, "servers.a.load", &[(slot, 5.0)]);

    // Purged: only the user is left.
    machine.run(&["dpkg", "-P", "plumbago"]);
    assert_eq!(
        machine.run(&["find", "/", "-xdev", "-name", "*plumbago*", "-not", "-path", "/packages/*"]),
        ""
    );
    assert_eq!(machine.run(&["find", "/", "-xdev", "-user", "plumbago"]), "");
    machine.run(&["getent", "passwd", "plumbago"]);
}

/// A manual installation has a dynamic user, and units in /etc that would take precedence over those of the
/// package.
#[test]
fn the_package_takes_over_from_an_installation_by_hand() {
    if !own_network::inside_as_root("debian::the_package_takes_over_from_an_installation_by_hand") {
        return;
    }
    let Some(here) = Installation::new() else { return };
    let machine = &here.machine;
    let copy = |from: &Path, to: &str| {
        let to = machine.path(to);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, &to).unwrap();
    };
    let example = root().join("deploy/examples/one-node.toml");
    copy(&binary(), "/usr/bin/plumbago");
    copy(&example, CONFIGURATION);
    for name in ["storage-schemas.conf", "storage-aggregation.conf"] {
        copy(&example.with_file_name(name), &format!("/etc/plumbago/{name}"));
    }
    for name in ["plumbago.service", "plumbago-clean.service", "plumbago-clean.timer"] {
        copy(&root().join("deploy/systemd").join(name), &format!("/etc/systemd/system/{name}"));
    }
    machine.run(&["systemctl", "daemon-reload"]);
    machine.run(&["systemctl", "enable", "--now", "plumbago"]);
    let slot = slot();
    send("servers.a.load", slot, 5.0);
    draws(8080, "servers.a.load", &[(slot, 5.0)]);
    assert_eq!(std::fs::read_link(machine.path(DATA)).unwrap(), Path::new("private/plumbago"));

    let refused = machine.run_badly(&["dpkg", "--force-confold", "-i", &here.packages[0]]);
    assert!(refused.contains("/etc/systemd/system/plumbago.service"), "{refused}");
    here.daemon();
    // The advice in the message, executed line by line.
    let advice: Vec<&str> = refused.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    assert_eq!(advice.len(), 3, "{refused}");
    for line in advice {
        machine.run(&["sh", "-ec", line]);
    }
    here.install(0);
    let (user, _) = here.user();
    here.daemon();
    let data = std::fs::symlink_metadata(machine.path(DATA)).unwrap();
    assert!(data.is_dir() && data.uid() == user, "{data:?}");
    draws(8080, "servers.a.load", &[(slot, 5.0)]);
    assert_eq!(read(machine.path(CONFIGURATION)), read(&example), "the configuration is kept");
}
