//! The daemon under a service manager, and the units in `deploy/`.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Setup, binary};
use plumbago_tests::send::Point;
use plumbago_tests::wait::HANG;

/// The service manager's end of `sd_notify`.
struct Manager(UnixDatagram);

impl Manager {
    fn new(setup: &mut Setup) -> Self {
        let path = setup.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        setup.environment("NOTIFY_SOCKET", path.to_str().unwrap());
        Self(socket)
    }

    fn next(&self) -> String {
        let mut buffer = [0; 1024];
        let length = self.0.recv(&mut buffer).expect("the daemon notified");
        String::from_utf8(buffer[..length].to_vec()).unwrap().trim().to_owned()
    }
}

#[test]
fn the_service_manager_is_notified_of_start_life_and_stop() {
    let mut setup = Setup::new();
    let manager = Manager::new(&mut setup);
    setup.environment("WATCHDOG_USEC", "300000");
    let daemon = setup.start();
    assert_eq!(manager.next(), "READY=1");
    for _ in 0..5 {
        assert_eq!(manager.next(), "WATCHDOG=1");
    }
    daemon.signal(Signal::SIGTERM);
    let stopping = std::iter::repeat_with(|| manager.next()).find(|message| message != "WATCHDOG=1");
    assert_eq!(stopping.as_deref(), Some("STOPPING=1"));
    assert!(daemon.wait().status.success());
}

/// Without `WATCHDOG_USEC` the daemon notifies its start and its stop, but sends no watchdog messages.
#[test]
fn a_daemon_without_watchdog_says_nothing_of_life() {
    let mut setup = Setup::new();
    let manager = Manager::new(&mut setup);
    let daemon = setup.start();
    daemon.put(&[Point::new("a.point", 1, 1.0)]);
    daemon.stop_well();
    assert_eq!([manager.next(), manager.next()], ["READY=1", "STOPPING=1"]);
    manager.0.set_nonblocking(true).unwrap();
    assert!(manager.0.recv(&mut [0; 64]).is_err(), "nothing else was sent");
}

/// The units that run a program.
const UNITS: &[&str] = &["plumbago.service", "plumbago-clean.service"];
/// Container files that set variables of the daemon's environment.
const CONTAINERS: &[&str] = &["container/Containerfile", "compose.yaml"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// systemd accepts the units, with the path of the built binary in them.
#[test]
fn systemd_takes_the_units() {
    let Some(mut analyze) = counterpart::on_path("systemd-analyze") else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut units = Vec::new();
    for entry in std::fs::read_dir(deploy().join("systemd")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let copy = directory.path().join(path.file_name().unwrap());
        std::fs::write(&copy, text.replace("/usr/bin/plumbago", binary().to_str().unwrap())).unwrap();
        units.push(copy);
    }
    assert_eq!(units.len(), 3, "{units:?}");
    let output = analyze.args(["verify", "--man=no"]).args(&units).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("plumbago")).collect();
    assert!(output.status.success() && ours.is_empty(), "{:?}\n{said}", output.status);
}

/// Checks systemd's rating of the exposure of each unit. A rating below 2 means "OK".
#[test]
fn the_units_are_closed_off() {
    for unit in UNITS {
        let Some(mut analyze) = counterpart::on_path("systemd-analyze") else { return };
        let path = deploy().join("systemd").join(unit);
        let output =
            analyze.args(["security", "--offline=yes", "--threshold=20"]).arg(&path).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Every example configuration is valid, without warnings.
#[test]
fn the_example_configurations_are_valid() {
    let directory = tempfile::tempdir().unwrap();
    let examples = deploy().join("examples");
    let mut checked = 0;
    for entry in std::fs::read_dir(&examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let copy = directory.path().join(path.file_name().unwrap());
        std::fs::write(&copy, text.replace("/etc/plumbago", examples.to_str().unwrap())).unwrap();
        check(&path.display().to_string(), &["--config", copy.to_str().unwrap()], &[]);
        checked += 1;
    }
    assert!(checked > 0);
}

/// The image and the compose file set only settings that exist.
#[test]
fn the_container_files_use_settings_that_exist() {
    for file in CONTAINERS {
        let text = std::fs::read_to_string(deploy().join(file)).unwrap();
        let settings: Vec<(&str, &str)> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("ENV ").or(Some(line.trim())))
            .filter(|line| line.starts_with("PLUMBAGO__"))
            .filter_map(|line| line.split_once('=').or_else(|| line.split_once(": ")))
            .collect();
        assert!(settings.len() >= 2, "{settings:?}");
        check(file, &[], &settings);
    }
}

/// The manifests match the schemas of Kubernetes' API, in the oldest version that they name and in the newest one.
/// Their configuration is valid in the environment of the image and the pod.
#[test]
fn kubernetes_takes_the_manifests() {
    let Some(python) = counterpart::python_kubernetes() else { return };
    let manifest = deploy().join("kubernetes/plumbago.yaml");
    for version in ["1.27.0", "1.37.0"] {
        let mut validate = Command::new(python.with_file_name("kubernetes-validate"));
        validate.args(["--strict", "--kubernetes-version", version]).arg(&manifest);
        let output = validate.output().unwrap();
        let said = [&output.stdout, &output.stderr]
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .concat();
        assert!(
            output.status.success() && said.contains("passed for resource statefulset/plumbago"),
            "{said}"
        );
    }

    let read = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let output = Command::new(python).args(["-c", read]).arg(&manifest).output().unwrap();
    let resources: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let resource = |kind: &str| resources.as_array().unwrap().iter().find(|one| one["kind"] == kind).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in resource("ConfigMap")["data"].as_object().unwrap() {
        let text = text.as_str().unwrap().replace("/etc/plumbago", directory.path().to_str().unwrap());
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    let pod = resource("StatefulSet")["spec"]["template"]["spec"]["containers"][0].clone();
    let of_pod = pod["env"].as_array().unwrap().iter().map(|variable| {
        let value = variable["value"].as_str().unwrap_or("a token of a secret");
        (variable["name"].as_str().unwrap().to_owned(), value.to_owned())
    });
    let image = std::fs::read_to_string(deploy().join("container/Containerfile")).unwrap();
    let of_image = image.lines().filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
    let data = directory.path().join("data");
    let mut settings: std::collections::BTreeMap<String, String> =
        of_image.map(|(name, value)| (name.to_owned(), value.to_owned())).chain(of_pod).collect();
    settings.insert("PLUMBAGO__DATA_DIR".to_owned(), data.to_str().unwrap().to_owned());
    let settings: Vec<(&str, &str)> =
        settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let file = directory.path().join("plumbago.toml");
    check("plumbago.yaml", &["--config", file.to_str().unwrap()], &settings);
}

fn check(what: &str, arguments: &[&str], settings: &[(&str, &str)]) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PLUMBAGO_")) {
        command.env_remove(name);
    }
    command.args(["config", "check"]).args(arguments).envs(settings.iter().copied());
    let output = command.current_dir(directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("0 warning(s)"), "{what}: {said}");
}

/// The container's health check succeeds only while the daemon is ready.
#[test]
fn the_health_check_sees_a_ready_daemon() {
    let script = deploy().join("container/healthcheck");
    let healthy =
        |address: &str| Command::new("bash").arg(&script).arg(address).output().unwrap().status.success();
    let daemon = Setup::new().start();
    let address = daemon.admin().to_string();
    assert!(healthy(&address));
    daemon.stop_well();
    assert!(!healthy(&address));
}
