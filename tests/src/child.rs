//! A process that does not outlive its test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::wait::wait_for;

/// Processor time of a process so far, in seconds.
pub fn cpu_of(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// A child process whose output goes to a file. It is killed when dropped.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
    log: PathBuf,
}

impl Guarded {
    /// Starts a command with standard output and standard error redirected to the file `log`.
    pub fn start(mut command: Command, log: &Path) -> Self {
        let output = File::create(log).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        Self::adopt(command.spawn().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}")), log)
    }

    /// Takes over a child that was started elsewhere. `log` is the file that has its output.
    pub fn adopt(child: Child, log: &Path) -> Self {
        Self { child, log: log.to_owned() }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child, for access to its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Waits until the process ends.
    pub fn wait(&mut self) -> ExitStatus {
        wait_for("a process to end", || self.child.try_wait().unwrap())
    }

    /// Whether the process is running.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The output so far.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let output = self.output();
            let tail: Vec<&str> = output.lines().rev().take(40).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            eprintln!("--- end of {}:\n{}", self.log.display(), tail.join("\n"));
        }
    }
}
