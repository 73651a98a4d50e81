//! Runs the built binary and checks its commands, output and exit codes.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::{Command, Output};

fn plumbago(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumbago"));
    command.args(arguments).current_dir(directory);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PLUMBAGO")) {
        command.env_remove(name);
    }
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_good_configuration_is_ok() {
    let directory = tempfile::tempdir().unwrap();
    let output = plumbago(directory.path(), &["config", "check"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).starts_with("OK: no file, defaults"), "{}", stdout(&output));

    std::fs::write(directory.path().join("plumbago.toml"), "data_dir = \"points\"\n").unwrap();
    let output = plumbago(directory.path(), &["config", "check"]);
    assert!(stdout(&output).starts_with("OK: plumbago.toml"), "{}", stdout(&output));
    let shown = stdout(&plumbago(directory.path(), &["config", "show"]));
    assert!(shown.contains("data_dir = \"points\"\n"), "{shown}");
}

#[test]
fn a_bad_configuration_names_every_problem_and_gives_3() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("bad.toml"),
        "storage_schemas = \"s.conf\"\n[log]\nlevle = \"info\"\n",
    )
    .unwrap();
    std::fs::write(directory.path().join("s.conf"), "[a]\npattern = .*\nretentions = 60s:7q\n[b]\n").unwrap();
    let output = plumbago(directory.path(), &["config", "check", "--config", "bad.toml"]);
    assert_eq!(output.status.code(), Some(3));
    let text = stdout(&output);
    for start in
        ["bad.toml:3: error: log.levle: ", "s.conf:3: error: [a]: retentions: ", "s.conf:4: warning: [b]: "]
    {
        assert!(text.lines().any(|line| line.starts_with(start)), "no line starts with {start}:\n{text}");
    }
    // The daemon refuses to start too.
    let output = plumbago(directory.path(), &["--config", "bad.toml"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("bad.toml:3: error: log.levle: "));
    assert!(!directory.path().join("data").exists());
}

#[test]
fn the_printed_defaults_are_a_good_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let defaults = plumbago(directory.path(), &["config", "default"]);
    std::fs::write(directory.path().join("plumbago.toml"), defaults.stdout).unwrap();
    let output = plumbago(directory.path(), &["config", "check"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

#[test]
fn help_has_examples_and_a_wrong_verb_gives_2() {
    let directory = tempfile::tempdir().unwrap();
    let help = plumbago(directory.path(), &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("Examples:"), "{}", stdout(&help));
    assert_eq!(plumbago(directory.path(), &["sevre"]).status.code(), Some(2));
}
