//! A daemon of our own, started to be measured.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::http::Client;

/// Guards against a daemon that hangs at its start or its stop.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running daemon; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    /// Where it takes lines.
    pub line: String,
    /// Where it reports of itself.
    pub admin: String,
}

impl Daemon {
    /// Starts this very binary on a data directory, on free ports of the loopback.
    pub fn spawn(data_dir: &Path, file: Option<&Path>) -> io::Result<Self> {
        let [line, api, admin] = free_addresses()?;
        let child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .args(file.map(|file| ["--config".as_ref(), file.as_os_str()]).into_iter().flatten())
            .env("PLUMBAGO__LOG__LEVEL", "warn")
            .env("PLUMBAGO__DATA_DIR", data_dir)
            .env("PLUMBAGO__INGEST__LINE__LISTEN", &line)
            .env("PLUMBAGO__INGEST__UDP__LISTEN", "")
            .env("PLUMBAGO__INGEST__PICKLE__LISTEN", "")
            .env("PLUMBAGO__API__LISTEN", &api)
            .env("PLUMBAGO__ADMIN__LISTEN", &admin)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let mut daemon = Self { child, line, admin };
        daemon.wait_until_ready()?;
        Ok(daemon)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop and waits until it did.
    pub fn stop(mut self) -> io::Result<Duration> {
        let started = Instant::now();
        let pid = i32::try_from(self.child.id()).map_err(io::Error::other)?;
        kill(Pid::from_raw(pid), Signal::SIGTERM)?;
        while started.elapsed() < PATIENCE {
            if self.child.try_wait()?.is_some() {
                return Ok(started.elapsed());
            }
            sleep(Duration::from_millis(10));
        }
        Err(io::Error::other("the daemon does not stop"))
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let started = Instant::now();
        let mut client = Client::new(&self.admin);
        while started.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("the daemon ended at its start: {status}")));
            }
            let ready = client.get("/readyz").is_ok_and(|answer| answer.status == 200);
            if ready && TcpStream::connect(&self.line).is_ok() {
                return Ok(());
            }
            sleep(Duration::from_millis(20));
        }
        Err(io::Error::other("the daemon does not become ready"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports that were free a moment ago; all are held until all are known, so that they differ.
fn free_addresses() -> io::Result<[String; 3]> {
    let bind = || TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)));
    let listeners = [bind()?, bind()?, bind()?];
    let address = |i: usize| listeners[i].local_addr().map(|a| a.to_string());
    Ok([address(0)?, address(1)?, address(2)?])
}
