//! A reader who types the commands of a guide.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use regex::Regex;
use tempfile::TempDir;

use super::page::{Block, Item, Kind, Shown};
use crate::child::Guarded;
use crate::daemon::binary;
use crate::wait::{wait_ok, wait_until};

/// Directories of a real machine that the guides use. In a test, each of them is below the test's own
/// directory instead.
const PLACES: &[&str] = &["/etc/plumbago", "/var/lib/plumbago", "/opt/graphite", "/etc/carbon"];

/// A command starts with the directory and the variables that the previous one left.
const SHELL: &str = "if [ -f \"$STATE\" ]; then . \"$STATE\"; fi\n";
const LEAVE: &str = "\ncode=$?; { export -p; printf 'cd %q\\n' \"$PWD\"; } > \"$STATE\"; exit $code\n";

/// A directory, programs on the path, and terminals in which programs run.
#[derive(Debug)]
pub struct Reader {
    directory: TempDir,
    terminals: BTreeMap<String, Guarded>,
    started: usize,
}

impl Reader {
    /// A reader in an empty directory who can run `plumbago`.
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("plumbago-guide-").tempdir().unwrap();
        let reader = Self { directory, terminals: BTreeMap::new(), started: 0 };
        for place in ["bin", "here"].iter().map(|name| (*name).to_owned()).chain(places()) {
            std::fs::create_dir_all(reader.path().join(place.trim_start_matches('/'))).unwrap();
        }
        symlink(binary(), reader.path().join("bin/plumbago")).unwrap();
        reader
    }

    /// The directory of the test. The commands begin in `here` below it.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Puts a program on the path: a script for `sh`.
    pub fn program(&self, name: &str, script: &str) {
        let path = self.path().join("bin").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// Executes a part of a page, and compares the output. Panics with `what` and the line if the output
    /// differs.
    pub fn follow(&mut self, what: &str, item: &Item) {
        match item {
            Item::Block(block) => self.block(&format!("{what}:{}", block.line), block),
            Item::Comment(line, comment) => self.comment(&format!("{what}:{line}"), comment),
        }
    }

    fn block(&mut self, at: &str, block: &Block) {
        let kind = block.kind().unwrap_or_else(|| panic!("{at}: ```{} says not what it is", block.info));
        match kind {
            Kind::Commands(repeat, exit) => {
                let commands = block.commands();
                let last = commands.len() - 1;
                for (index, shown) in commands.iter().enumerate() {
                    let exit = if index == last { exit } else { 0 };
                    if repeat {
                        wait_ok(&format!("{at}: $ {}", shown.command), || self.try_command(shown, exit));
                    } else {
                        self.try_command(shown, exit).unwrap_or_else(|error| panic!("{at}: {error}"));
                    }
                }
            }
            Kind::Terminal(name) => {
                for shown in block.commands() {
                    self.terminal(at, &name, &shown);
                }
            }
            Kind::File(path) => self.write(&path, &block.text, false),
            Kind::Append(path) => self.write(&path, &block.text, true),
            Kind::Example(_) | Kind::ByHand => {}
        }
    }

    fn comment(&mut self, at: &str, comment: &str) {
        let (verb, rest) = comment.split_once(' ').unwrap_or((comment, ""));
        match verb {
            "stop" => self.stop(at, rest),
            "run" => {
                let shown = Shown { command: rest.to_owned(), output: "…\n".to_owned() };
                self.try_command(&shown, 0).unwrap_or_else(|error| panic!("{at}: {error}"));
            }
            "terminal" => {
                let words: Vec<&str> = rest.splitn(3, ' ').collect();
                let [name, until, command] = words[..] else { panic!("{at}: {comment}") };
                let output = format!("…\n…{until}…\n");
                self.terminal(at, name, &Shown { command: command.to_owned(), output });
            }
            _ => panic!("{at}: unknown comment {comment:?}"),
        }
    }

    /// Runs a command to its end.
    fn try_command(&mut self, shown: &Shown, exit: i32) -> Result<(), String> {
        self.started += 1;
        let log = self.path().join(format!("command-{}.log", self.started));
        let mut process = Guarded::start(self.shell(&format!("{}{LEAVE}", self.here(&shown.command))), &log);
        let status = process.wait();
        let output = self.there(&process.output());
        if status.code() != Some(exit) {
            return Err(format!("$ {}\nended with {status}, not {exit}:\n{output}", shown.command));
        }
        if matches(&shown.output, &output, true) {
            return Ok(());
        }
        Err(format!("$ {}\nprinted\n{output}\nand not\n{}", shown.command, shown.output))
    }

    /// Starts a command that keeps running, and waits for its first output.
    fn terminal(&mut self, at: &str, name: &str, shown: &Shown) {
        self.started += 1;
        let log = self.path().join(format!("terminal-{name}-{}.log", self.started));
        // A test run in the background ignores SIGINT, and its children inherit that.
        let script = format!("exec env --default-signal=INT {}", self.here(&shown.command));
        let mut command = self.shell(&script);
        command.process_group(0);
        let mut process = Guarded::start(command, &log);
        wait_ok(&format!("{at}: $ {}", shown.command), || {
            let output = self.there(&process.output());
            assert!(process.runs(), "{at}: $ {}\nended:\n{output}", shown.command);
            if matches(&shown.output, &output, false) { Ok(()) } else { Err(output) }
        });
        let before = self.terminals.insert(name.to_owned(), process);
        assert!(before.is_none(), "{at}: the terminal {name} is in use");
    }

    /// Presses Ctrl-C in a terminal, and waits until its program has ended.
    fn stop(&mut self, at: &str, name: &str) {
        let mut process = self.terminals.remove(name).unwrap_or_else(|| panic!("{at}: no terminal {name}"));
        killpg(Pid::from_raw(process.id().cast_signed()), Signal::SIGINT).unwrap();
        wait_until(&format!("{at}: the end of {name}"), || !process.runs());
    }

    fn write(&self, path: &str, text: &str, append: bool) {
        let path = PathBuf::from(self.here(path));
        let path = if path.is_relative() { self.path().join("here").join(path) } else { path };
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before = if append { std::fs::read_to_string(&path).unwrap() } else { String::new() };
        std::fs::write(&path, before + &self.here(text)).unwrap();
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("bash");
        let environment = std::env::vars().filter(|(name, _)| !name.starts_with("PLUMBAGO"));
        let path = format!("{}:{}", self.path().join("bin").display(), std::env::var("PATH").unwrap());
        command.args(["-c", &format!("{SHELL}{script}")]).current_dir(self.path().join("here"));
        command.env_clear().envs(environment).env("PATH", path).env("STATE", self.path().join("state"));
        command
    }

    /// Adapts a text of the guide for the test: commands run as this user, and files are below the directory
    /// of the test.
    fn here(&self, text: &str) -> String {
        let text = text
            .replace("sudo -u plumbago ", "")
            .replace("sudo ", "")
            .replace("/usr/sbin/collectd", "collectd");
        PLACES.iter().fold(text, |text, place| {
            text.replace(place, &self.path().join(&place[1..]).display().to_string())
        })
    }

    /// Adapts an output of the test for comparison with the guide: the reverse of [`Self::here`].
    fn there(&self, text: &str) -> String {
        let root = self.path().display().to_string();
        text.replace(&format!("{root}/here"), "/home/you").replace(&root, "")
    }
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        for process in self.terminals.values() {
            // Also ends the programs that a script has started.
            let _ = killpg(Pid::from_raw(process.id().cast_signed()), Signal::SIGKILL);
        }
    }
}

fn places() -> impl Iterator<Item = String> {
    PLACES.iter().map(|place| (*place).to_owned())
}

/// Whether the output matches the shown one. If `whole` is false, the output only has to begin with the shown
/// one.
fn matches(shown: &str, output: &str, whole: bool) -> bool {
    let line = |line: &str| match line.trim_end() {
        "…" => "(?:.*\n)*?".to_owned(),
        line => format!("{}[ \t]*\n", regex::escape(line).replace('…', ".*")),
    };
    let lines: String = shown.lines().map(line).collect();
    let expression = format!("^{lines}{}", if whole { "\n*$" } else { "" });
    Regex::new(&expression).unwrap().is_match(&format!("{}\n", output.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_stand_for_any_text() {
        for (shown, output, is_same) in [
            ("a … c\n", "a b c\n", true),
            ("a … c\n", "a b c", true),
            ("a\n…\nc\n", "a\nb\nb\nc\n", true),
            ("a\n…\n", "a\n", true),
            ("a\n…\nc\n", "a\nb\n", false),
            ("a.c\n", "abc\n", false),
            ("a\n", "a\nb\n", false),
        ] {
            assert_eq!(matches(shown, output, true), is_same, "{shown:?} {output:?}");
        }
        assert!(matches("a\n…\nc\n", "a\nb\nc\nd\n", false));
        assert!(matches("", "x", false));
    }

    #[test]
    fn the_directory_and_variables_stay() {
        let mut reader = Reader::new();
        let text = "```console\n$ mkdir sub && cd sub && export COLOUR='a b'\n$ pwd; echo \"$COLOUR\"\n\
                    /home/you/sub\na b\n```\n";
        for item in super::super::page(text) {
            reader.follow("test", &item);
        }
        let wrong = Shown { command: "echo 1".to_owned(), output: "2\n".to_owned() };
        assert!(reader.try_command(&wrong, 0).unwrap_err().contains("printed"));
    }
}
