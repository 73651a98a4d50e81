//! A daemon that is started only for a measurement.

use std::io::{self, BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{BenchError, Client};

/// Ends a wait for a daemon that hangs while it starts or stops.
const TIMEOUT: Duration = Duration::from_secs(300);
/// A loopback address on which the kernel chooses a free port.
const FREE_PORT: &str = "127.0.0.1:0";
/// Number of printed lines that may wait to be read.
const LINES: usize = 64;

/// A running daemon. Dropping it kills the process.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    /// `host:port` of the listener for Graphite's lines.
    pub line: String,
    /// `host:port` of the listener for OpenTSDB's lines.
    pub opentsdb: String,
    /// `host:port` of the API.
    pub api: String,
    /// `host:port` of the admin port.
    pub admin: String,
}

impl Daemon {
    /// Starts `program serve` on a data directory, on free loopback ports, and waits until it is ready.
    /// `config_file` is passed on as `--config`; listeners other than those of the load are switched off.
    ///
    /// # Errors
    /// [`BenchError::Io`] if the program cannot be started, [`BenchError::Ended`] if it exits while
    /// starting, [`BenchError::Timeout`] if it is not ready after five minutes.
    pub fn spawn(program: &Path, data_dir: &Path, config_file: Option<&Path>) -> Result<Self, BenchError> {
        Self::spawn_with(program, data_dir, config_file, &[])
    }

    /// As [`Daemon::spawn`], with additional environment variables, like `PLUMBAGO__API__DELETES`.
    ///
    /// # Errors
    /// As [`Daemon::spawn`].
    pub fn spawn_with(
        program: &Path,
        data_dir: &Path,
        config_file: Option<&Path>,
        variables: &[(&str, String)],
    ) -> Result<Self, BenchError> {
        let mut child = Command::new(program)
            .arg("serve")
            .args(config_file.map(|file| ["--config".as_ref(), file.as_os_str()]).into_iter().flatten())
            .env("PLUMBAGO__LOG__LEVEL", "warn")
            .env("PLUMBAGO__DATA_DIR", data_dir)
            .env("PLUMBAGO__INGEST__LINE__LISTEN", FREE_PORT)
            .env("PLUMBAGO__INGEST__OPENTSDB__LISTEN", FREE_PORT)
            .env("PLUMBAGO__INGEST__UDP__LISTEN", "")
            .env("PLUMBAGO__INGEST__PICKLE__LISTEN", "")
            .env("PLUMBAGO__API__LISTEN", FREE_PORT)
            .env("PLUMBAGO__API__POINT_WRITES", "true")
            .env("PLUMBAGO__ADMIN__LISTEN", FREE_PORT)
            .envs(variables.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(BenchError::io(format!("start {}", program.display())))?;
        let printed = child.stdout.take().map(lines_of);
        let [line, opentsdb, api, admin] = Default::default();
        let mut daemon = Self { child, line, opentsdb, api, admin };
        if let Some(printed) = printed {
            daemon.read_addresses(&printed)?;
        }
        daemon.wait_until_ready()?;
        Ok(daemon)
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM, waits for the exit and returns how long that took.
    ///
    /// # Errors
    /// [`BenchError::Io`] if the signal cannot be sent, [`BenchError::Timeout`] if the process is still
    /// running after five minutes.
    pub fn stop(mut self) -> Result<Duration, BenchError> {
        let started = Instant::now();
        let pid = Pid::from_raw(self.child.id().cast_signed());
        let signalled = kill(pid, Signal::SIGTERM).map_err(io::Error::from);
        signalled.map_err(BenchError::io("stop the daemon"))?;
        while started.elapsed() < TIMEOUT {
            if self.exited()?.is_some() {
                return Ok(started.elapsed());
            }
            sleep(Duration::from_millis(10));
        }
        Err(BenchError::Timeout { what: "for the daemon to stop", seconds: TIMEOUT.as_secs() })
    }

    /// Kills the process with SIGKILL, which has the effect of a crash, and waits for its exit.
    ///
    /// # Errors
    /// [`BenchError::Io`] if the signal cannot be sent.
    pub fn kill(mut self) -> Result<(), BenchError> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed.map(drop).map_err(BenchError::io("kill the daemon"))
    }

    /// Reads what the daemon prints while it starts: a line for each listener, and `ready` at the end.
    fn read_addresses(&mut self, printed: &Receiver<String>) -> Result<(), BenchError> {
        let started = Instant::now();
        loop {
            match printed.recv_timeout(TIMEOUT.saturating_sub(started.elapsed())) {
                Ok(line) if line == "ready" => return Ok(()),
                Ok(line) => self.note(&line),
                Err(RecvTimeoutError::Timeout) => return Err(not_ready()),
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.child.wait().map_err(BenchError::io("look at the daemon's process"))?;
                    return Err(BenchError::Ended(status));
                }
            }
        }
    }

    /// Notes the address in a line like `listening line tcp 127.0.0.1:40001`.
    fn note(&mut self, line: &str) {
        let Self { line: lines, opentsdb, api, admin, .. } = self;
        let listeners =
            [("line tcp ", lines), ("opentsdb tcp ", opentsdb), ("http ", api), ("admin ", admin)];
        let Some(listener) = line.strip_prefix("listening ") else { return };
        for (name, place) in listeners {
            let address = listener.strip_prefix(name).and_then(|rest| rest.split_whitespace().next());
            if let Some(address) = address {
                address.clone_into(place);
            }
        }
    }

    fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        let started = Instant::now();
        let client = Client::new(&self.admin);
        while started.elapsed() < TIMEOUT {
            if let Some(status) = self.exited()? {
                return Err(BenchError::Ended(status));
            }
            let ready = client.get("/readyz").is_ok_and(|answer| answer.status == 200);
            if ready && TcpStream::connect(&self.line).is_ok() {
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
        Err(not_ready())
    }

    fn exited(&mut self) -> Result<Option<std::process::ExitStatus>, BenchError> {
        self.child.try_wait().map_err(BenchError::io("look at the daemon's process"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both calls fail if the process has already been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn not_ready() -> BenchError {
    BenchError::Timeout { what: "for the daemon to become ready", seconds: TIMEOUT.as_secs() }
}

/// The lines of an output. A thread reads it to the end, so that the daemon never waits to print.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (lines, printed) = sync_channel(LINES);
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // The receiver is gone once the daemon is ready.
            let _ = lines.send(line);
        }
    });
    printed
}
