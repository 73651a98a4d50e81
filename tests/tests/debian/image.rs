//! The image: its steps in a chroot and, if there is a container engine, built by it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use plumbago_tests::child::Guarded;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::binary;
use plumbago_tests::debian::{Root, said};
use plumbago_tests::own_network;
use plumbago_tests::wait::wait_until;

use super::{draws, read, root, send, slot};

/// The file system that the last stage of the Containerfile makes.
#[derive(Debug, Default)]
struct Image {
    steps: Vec<(String, String)>,
    user: String,
    volume: String,
    environment: BTreeMap<String, String>,
    healthcheck: Vec<String>,
    entrypoint: Vec<String>,
}

impl Image {
    fn read() -> Self {
        let mut image = Self::default();
        for line in stage().lines() {
            let (instruction, rest) = line.split_once(' ').unwrap();
            let list = |text: &str| serde_json::from_str::<Vec<String>>(text).unwrap();
            match instruction {
                "FROM" => assert_eq!(rest, "debian:bookworm-slim"),
                "COPY" | "RUN" => image.steps.push((instruction.to_owned(), rest.to_owned())),
                "USER" => rest.clone_into(&mut image.user),
                "VOLUME" => rest.clone_into(&mut image.volume),
                "ENV" => {
                    let (name, value) = rest.split_once('=').unwrap();
                    image.environment.insert(name.to_owned(), value.to_owned());
                }
                "HEALTHCHECK" => image.healthcheck = list(rest.split_once("CMD ").unwrap().1),
                "ENTRYPOINT" => image.entrypoint = list(rest),
                "EXPOSE" => {}
                "STOPSIGNAL" => assert_eq!(rest, "SIGTERM"),
                _ => panic!("the test does not know what {line:?} does"),
            }
        }
        image
    }
}

/// The last stage of the Containerfile, without comments.
fn stage() -> String {
    let text = read(root().join("deploy/container/Containerfile"));
    let start = text.rfind("\nFROM ").unwrap() + 1;
    text[start..]
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// The file that a step copies from the first stage.
fn of_first_stage(path: &str) -> PathBuf {
    match path.strip_prefix("/source/").unwrap() {
        "target/dist/plumbago" => binary(),
        file => root().join(file),
    }
}

#[test]
fn the_steps_of_the_image_make_a_daemon_that_runs_on_a_read_only_root() {
    let name = "debian::image::the_steps_of_the_image_make_a_daemon_that_runs_on_a_read_only_root";
    if !own_network::inside_as_root(name) {
        return;
    }
    let Some(there) = Root::new() else { return };
    let image = Image::read();
    for (instruction, rest) in &image.steps {
        if instruction == "RUN" {
            there.run(&["sh", "-c", rest]);
            continue;
        }
        let paths: Vec<&str> = rest.strip_prefix("--from=build ").unwrap().split(' ').collect();
        let target = there.path(paths[1]);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(of_first_stage(paths[0]), target).unwrap();
    }
    let run = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
        there.sealed(&image.user, &image.volume, &image.environment, &arguments)
    };
    let healthy = || {
        let health: Vec<&str> = image.healthcheck.iter().map(String::as_str).collect();
        run(&health).output().unwrap().status.success()
    };
    for path in ["/etc/x", "/tmp/x", "/usr/lib/plumbago/x"] {
        let refused = said(&run(&["touch", path]).output().unwrap());
        assert!(refused.contains("Read-only file system"), "{path}: {refused}");
    }
    assert!(!healthy(), "nothing runs yet");

    let log = tempfile::NamedTempFile::new().unwrap();
    let entrypoint: Vec<&str> = image.entrypoint.iter().map(String::as_str).collect();
    let mut daemon = Guarded::start(run(&entrypoint), log.path());
    wait_until("the daemon to be healthy", || {
        assert!(daemon.runs(), "{}", daemon.output());
        healthy()
    });
    let status = read(format!("/proc/{}/status", daemon.id()));
    assert!(status.contains("Uid:\t10001\t10001\t10001\t10001\n"), "{status}");
    assert!(status.contains("Name:\tplumbago\n"), "{status}");
    let slot = slot();
    send("servers.a.load", slot, 5.0);
    draws(8080, "servers.a.load", &[(slot, 5.0)]);
    let found = run(&["plumbago", "test"]).output().unwrap();
    assert!(found.status.success() && said(&found).matches(" ok: ").count() == 3, "{}", said(&found));

    daemon.signal(Signal::SIGTERM);
    assert!(daemon.wait().success(), "{}", daemon.output());
    assert!(daemon.output().contains("missing 0"), "{}", daemon.output());
    assert!(!healthy());
}

/// A container engine that runs on this machine. If there is none, no skip is recorded, because the test
/// above runs the same steps.
fn engine() -> Option<&'static str> {
    let runs = |engine: &&str| {
        let output = Command::new(engine).arg("info").stdin(Stdio::null()).output();
        output.is_ok_and(|output| output.status.success())
    };
    ["podman", "docker"].into_iter().find(runs)
}

/// Removes the container, its volume and the images, however the test ends.
struct Container {
    engine: &'static str,
    name: String,
}

impl Container {
    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(self.engine);
        // Without this variable, podman drops the health check.
        command.args(arguments).env("BUILDAH_FORMAT", "docker").stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{} {arguments:?}: {}", self.engine, said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn inside(&self, arguments: &[&str]) -> String {
        self.run(&[&["exec", &self.name][..], arguments].concat())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let debian = format!("{}-debian", self.name);
        for arguments in [&["rm", "-f", "-v", &self.name][..], &["rmi", "-f", &self.name, &debian]] {
            let _ = Command::new(self.engine).args(arguments).output();
        }
    }
}

/// The last stage, built by a real engine. Its base is the Debian of the tests and its binary is the one under test,
/// so that this needs no registry and compiles nothing.
#[test]
fn an_engine_builds_the_image_and_runs_it() {
    let Some(engine) = engine() else { return };
    let Some(debian) = counterpart::debian_root() else { return };
    let name = format!("plumbago-test-{}", std::process::id());
    let container = Container { engine, name: name.clone() };
    let base = format!("{name}-debian");
    let import = format!("tar -C \"$1\" -c . | {engine} import - {base}");
    let output = Command::new("sh").args(["-c", &import, "sh"]).arg(&debian).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));

    let context = tempfile::tempdir().unwrap();
    for (_, rest) in Image::read().steps.iter().filter(|(instruction, _)| instruction == "COPY") {
        let from = rest.split(' ').nth(1).unwrap();
        let to = context.path().join(from.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(of_first_stage(from), to).unwrap();
    }
    let file = stage().replace("debian:bookworm-slim", &base).replace("--from=build ", "");
    std::fs::write(context.path().join("Containerfile"), file).unwrap();
    let directory = context.path().to_str().unwrap();
    container.run(&["build", "-f", &format!("{directory}/Containerfile"), "-t", &name, directory]);

    container.run(&["run", "-d", "--name", &container.name, "--read-only", "-v", "/var/lib/plumbago", &name]);
    let health = Image::read().healthcheck;
    let health: Vec<&str> = health.iter().map(String::as_str).collect();
    wait_until("the container to be healthy", || {
        let mut command = Command::new(engine);
        let output = command.args(["exec", &container.name]).args(&health).output().unwrap();
        output.status.success()
    });
    assert_eq!(container.inside(&["id", "-u"]).trim(), "10001");
    container.inside(&["plumbago", "write", "servers.a.load", "5"]);
    assert!(container.inside(&["plumbago", "read", "servers.a.load"]).ends_with("\t5\n"));
    assert_eq!(container.inside(&["plumbago", "test"]).matches(" ok: ").count(), 3);
    container.run(&["stop", "-t", "120", &container.name]);
    let log = Command::new(engine).args(["logs", &container.name]).output().unwrap();
    assert!(said(&log).contains("missing 0"), "{}", said(&log));
}
