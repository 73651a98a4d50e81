//! Child processes: either tied to the lifetime of this process or detached from it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::error::NodeError;

/// Waiting for a node fails after this time, so that no caller hangs.
pub const HANG: Duration = Duration::from_secs(240);

/// The ports of every node: the first for clients (native protocol), the second for other nodes.
pub(crate) const PORTS: [u16; 2] = [9042, 7000];

/// A process in its own process group. It is killed when this value is dropped, and by the kernel if this
/// process dies first.
#[derive(Debug)]
pub struct Tied {
    child: Child,
    /// Keeps the thread that started the child running, because the kernel kills the child when that *thread*
    /// ends. The thread ends when this sender is dropped.
    _thread: mpsc::Sender<()>,
}

impl Tied {
    /// Starts a command in a process group of its own.
    ///
    /// # Errors
    ///
    /// [`NodeError::Io`] if the command cannot be started.
    pub fn spawn(mut command: Command) -> Result<Self, NodeError> {
        command.process_group(0);
        let (give, take) = mpsc::channel();
        let (keep, end) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            let _ = give.send(command.spawn());
            let _ = end.recv();
        });
        let spawned = take.recv().map_err(|_| NodeError::Missing("a thread".to_owned()))?;
        Ok(Self { child: spawned.map_err(NodeError::io("starting Java"))?, _thread: keep })
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ = killpg(Pid::from_raw(self.child.id().cast_signed()), signal);
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process exists, even if it is frozen.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Waits until a process ends after a signal. Kills it after [`HANG`].
    pub(crate) fn wait(&mut self) {
        let start = Instant::now();
        while self.runs() && start.elapsed() < HANG {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.kill();
    }

    pub(crate) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

impl Drop for Tied {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command that runs a program so that the kernel kills it when this process dies.
pub fn tied(program: &Path) -> Command {
    through("setpriv", &["--pdeathsig", "KILL", "--"], program)
}

/// A command that runs a program in a new session, which the terminal's signals do not reach.
pub(crate) fn detached(program: &Path) -> Command {
    through("setsid", &[], program)
}

/// A command that runs a program through a tool of util-linux, or directly if that is not installed.
fn through(tool: &str, arguments: &[&str], program: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|directory| directory.join(tool).is_file()) {
        let mut command = Command::new(tool);
        command.args(arguments).arg(program);
        return command;
    }
    Command::new(program)
}

/// Makes the command append its output to a file.
///
/// # Errors
///
/// [`NodeError::Io`] if the file cannot be opened.
pub fn log_to(command: &mut Command, log: &Path) -> Result<(), NodeError> {
    let open = || File::options().create(true).append(true).open(log);
    let opened = open().and_then(|out| Ok((out, open()?)));
    let (out, err) = opened.map_err(NodeError::io(format!("opening {}", log.display())))?;
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    Ok(())
}

/// The last 30 lines of a log.
pub fn tail(log: &Path) -> String {
    let read = || {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(16 << 10)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// Whether a node can listen on this address, because none of its ports is in use.
pub(crate) fn free(address: Ipv4Addr) -> bool {
    PORTS.iter().all(|port| TcpListener::bind((address, *port)).is_ok())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};

    use super::*;

    fn sleeper() -> Tied {
        let mut command = tied(Path::new("/bin/sleep"));
        command.arg("1000");
        Tied::spawn(command).unwrap()
    }

    fn gone(id: u32) -> bool {
        let start = Instant::now();
        while Path::new(&format!("/proc/{id}/exe")).canonicalize().is_ok() {
            if start.elapsed() > HANG {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    #[test]
    fn dropping_kills_even_what_is_frozen() {
        let mut sleeper = sleeper();
        let id = sleeper.id();
        assert!(sleeper.runs());
        sleeper.signal(Signal::SIGSTOP);
        drop(sleeper);
        assert!(gone(id));
    }

    /// Not a test itself: it is the process that the next test kills.
    #[test]
    #[ignore = "started by another test"]
    fn child_of_a_process_that_dies() {
        let sleeper = std::thread::spawn(sleeper).join().unwrap();
        println!("child {}", sleeper.id());
        std::thread::sleep(HANG);
    }

    #[test]
    fn the_kernel_kills_when_the_parent_dies_and_not_when_a_thread_ends() {
        let mut parent = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "process::tests::child_of_a_process_that_dies"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines().map_while(Result::ok);
        let id = lines.find_map(|l| l.split("child ").nth(1)?.trim().parse::<u32>().ok()).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(Path::new(&format!("/proc/{id}/exe")).canonicalize().is_ok(), "died with the thread");
        parent.kill().unwrap();
        parent.wait().unwrap();
        assert!(gone(id));
    }
}
