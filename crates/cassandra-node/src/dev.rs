//! A node for people: it goes on when the command has ended, until it is told to stop.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::artifacts::Artifacts;
use crate::cql::Connection;
use crate::error::NodeError;
use crate::options::Options;
use crate::process::{self, HANG, PORTS};
use crate::settings::{self, Place};
use crate::{cache, flags, java};

/// A node that keeps its data in a directory and runs on by itself.
#[derive(Debug)]
pub struct DevNode {
    directory: PathBuf,
    address: Ipv4Addr,
}

impl DevNode {
    /// The node of a directory; it may run already.
    pub fn new(directory: &Path, address: Ipv4Addr) -> Result<Self, NodeError> {
        let made = cache::make(directory.to_owned())?;
        let directory = made.canonicalize().map_err(NodeError::io(format!("finding {}", made.display())))?;
        Ok(Self { directory, address })
    }

    /// Where it listens.
    pub fn socket(&self) -> SocketAddr {
        (self.address, PORTS[0]).into()
    }

    /// Its data, settings and log.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its log.
    pub fn log(&self) -> PathBuf {
        self.directory.join("cassandra.log")
    }

    /// Its process, when it runs.
    pub fn running(&self) -> Option<u32> {
        let (id, _) = self.recorded()?;
        // The number may be somebody else's by now.
        let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let ours = self.directory.join("cassandra.yaml").display().to_string();
        String::from_utf8_lossy(&line).contains(&ours).then_some(id)
    }

    /// The process that was started last, and its address.
    fn recorded(&self) -> Option<(u32, Ipv4Addr)> {
        let text = fs::read_to_string(self.process_file()).ok()?;
        let (id, address) = text.trim().split_once(' ')?;
        Some((id.parse().ok()?, address.parse().ok()?))
    }

    /// Starts it, unless it runs, and waits until it answers.
    pub fn start(&self, options: &Options) -> Result<(), NodeError> {
        let mut started = match (self.running(), self.recorded()) {
            (Some(_), Some((_, address))) if address != self.address => {
                return Err(NodeError::Missing(format!("{} (this node runs on {address})", self.address)));
            }
            (Some(_), _) => None,
            (None, _) if process::free(self.address) => Some(self.launch(options)?),
            (None, _) => {
                return Err(NodeError::Missing(format!("{} (another program listens there)", self.socket())));
            }
        };
        let start = Instant::now();
        loop {
            if Connection::open(self.socket(), None).is_ok() {
                return Ok(());
            }
            let ended = match &mut started {
                Some(child) => child.try_wait().is_ok_and(|status| status.is_some()),
                None => self.running().is_none(),
            };
            if ended || start.elapsed() > HANG {
                let log = self.log();
                let reason = "it ended, or gave no answer for minutes".to_owned();
                return Err(NodeError::Start { reason, tail: process::tail(&log), log });
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The version that answers there, whichever was asked for.
    pub fn version(&self) -> Result<String, NodeError> {
        let rows =
            Connection::open(self.socket(), None)?.query("SELECT release_version FROM system.local")?;
        Ok(rows.texts().concat())
    }

    /// Stops it and waits for the end; false when it did not run.
    pub fn stop(&self) -> bool {
        let Some(id) = self.running() else { return false };
        let start = Instant::now();
        let mut signal = Signal::SIGTERM;
        while self.running() == Some(id) {
            let _ = kill(Pid::from_raw(id.cast_signed()), signal);
            std::thread::sleep(Duration::from_millis(200));
            if start.elapsed() > HANG {
                signal = Signal::SIGKILL;
            }
        }
        let _ = fs::remove_file(self.process_file());
        true
    }

    fn launch(&self, options: &Options) -> Result<Child, NodeError> {
        let place = Place { address: self.address, seed: self.address, number: 0, of: 1 };
        settings::write(&self.directory, &place, options)?;
        let mut command = process::detached(&java::find(options.release)?);
        flags::arguments(&mut command, &self.directory, &Artifacts::provide(options.release)?, options)?;
        process::log_to(&mut command, &self.log())?;
        let child = command.spawn().map_err(NodeError::io("starting Java"))?;
        let file = self.process_file();
        let text = format!("{} {}", child.id(), self.address);
        fs::write(&file, text).map_err(NodeError::io(format!("writing {}", file.display())))?;
        Ok(child)
    }

    fn process_file(&self) -> PathBuf {
        self.directory.join("pid")
    }
}
