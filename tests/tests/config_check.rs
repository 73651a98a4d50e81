//! What `config check` finds on the machine, and what a start of the daemon reports about the same problems.

use std::process::{Command, Stdio};

use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Setup, binary};
use plumbago_tests::wait::wait_until;

/// An address for documentation (RFC 5737). No machine has it.
const ELSEWHERE: &str = "192.0.2.1:2003";

/// The check only warns, because the address may become available with the network. The start fails with the
/// same reason and advice.
#[test]
fn an_address_of_another_machine() {
    for (key, port) in [("ingest.line.listen", "line"), ("api.listen", "api"), ("admin.listen", "admin")] {
        let mut setup = Setup::new();
        setup.set(key, ELSEWHERE).set("admin.token", "0123456789abcdef");
        let checked = setup.run(&["config", "check"]);
        assert!(checked.status.success(), "{port}: {}", checked.output);
        let line = checked.output.lines().find(|line| line.contains("warning")).unwrap_or_default();
        assert!(line.contains(key) && line.contains("192.0.2.1 is not an address of this machine"), "{line}");
        let mut started = setup.launch();
        wait_until("the end", || !started.runs());
        let log = started.log();
        assert!(log.contains("192.0.2.1 is not an address of this machine"), "{log}");
        let last = log.lines().last().unwrap_or_default();
        assert!(last.contains("exit code 1") && last.contains(key), "{last}");
        assert!(last.contains("an address of this machine, or 0.0.0.0 for all of them"), "{last}");
    }
}

/// With such a limit a daemon starts but stores nothing. The check warns about it before a start.
#[test]
fn a_disk_with_too_little_space() {
    let mut setup = Setup::new();
    setup.set("store.embedded.min_free_bytes", "1000TiB");
    let checked = setup.run(&["config", "check"]);
    assert!(checked.status.success(), "{}", checked.output);
    let line = checked.output.lines().find(|line| line.contains("warning")).unwrap_or_default();
    assert!(line.contains("store.embedded.min_free_bytes: 1000TiB must stay free on the disk of"), "{line}");
}

/// Values that no daemon can work with are errors, not crashes.
#[test]
fn numbers_out_of_range() {
    for (key, value, part) in [
        ("engine.shards", "1000000", "engine.shards: 1000000 threads are too many"),
        ("sender.retry_first", "0s", "sender.retry_first: must not be 0"),
    ] {
        let mut setup = Setup::new();
        setup.set(key, value);
        let checked = setup.run(&["config", "check"]);
        assert!(checked.status.code() == Some(3) && checked.output.contains(part), "{}", checked.output);
        let mut started = setup.launch();
        wait_until("the end", || !started.runs());
        assert!(started.log().contains(part), "{}", started.log());
    }
}

/// The JSON output for programs has each problem with its file, line and key, and does not show secrets.
#[test]
fn problems_and_settings_as_json() {
    let object = |output: &str| -> serde_json::Value {
        output.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default()
    };
    let mut setup = Setup::new();
    setup.set("admin.token", "0123456789abcdef");
    let checked = setup.run(&["config", "check", "--json"]);
    let found = object(&checked.output);
    assert!(checked.status.success() && found["ok"] == true, "{}", checked.output);
    let shown = object(&setup.run(&["config", "show", "--json"]).output);
    assert!(shown["admin"]["token"] == "***" && !shown["engine"]["shards"].is_null(), "{shown}");

    let wrong = setup.file("wrong.toml", "[engine]\nshard = 2\n");
    let checked = setup.run(&["--config", wrong.to_str().unwrap(), "config", "check", "--json"]);
    let found = object(&checked.output);
    assert_eq!(checked.status.code(), Some(3), "{}", checked.output);
    let problems = found["problems"].as_array().unwrap();
    let problem = problems.iter().find(|problem| problem["line"] == 2).unwrap();
    assert!(found["ok"] == false && problem["error"] == true, "{problem}");
    assert!(problem["file"].as_str().unwrap().ends_with("wrong.toml"), "{problem}");
}

/// The data directory is on a read-only disk. Another owner would not help, so the message does not advise
/// changing it.
#[test]
fn a_data_directory_on_a_disk_mounted_read_only() {
    let directory = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o ro none \"$1\" || exit 77; shift; exec \"$@\"";
    for data_dir in ["", "new"] {
        let output = Command::new("unshare")
            .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .arg(directory.path())
            .arg(binary())
            .args(["config", "check"])
            .env("PLUMBAGO__DATA_DIR", directory.path().join(data_dir))
            .current_dir("/")
            .stdin(Stdio::null())
            .output();
        let said = match output {
            Ok(output) if !output.stdout.is_empty() => {
                (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
            }
            other => {
                let _: Option<()> = counterpart::skip(&format!("a mount namespace: {other:?}"));
                return;
            }
        };
        let (code, text) = said;
        assert!(code == Some(3) && text.contains("Read-only file system"), "{code:?} {text}");
        assert!(text.contains("mount its disk for writing") && !text.contains("chown"), "{text}");
    }
}
