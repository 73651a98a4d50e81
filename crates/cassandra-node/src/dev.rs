//! A node for development. It keeps running after this process ends, until it is stopped.

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

/// A node whose data is in a given directory and that runs independently of this process.
#[derive(Debug)]
pub struct DevNode {
    directory: PathBuf,
    address: Ipv4Addr,
}

impl DevNode {
    /// The node whose data is in `directory`, which is created if it is missing. The node may already be
    /// running.
    ///
    /// # Errors
    ///
    /// [`NodeError::Io`] if the directory cannot be created.
    pub fn new(directory: &Path, address: Ipv4Addr) -> Result<Self, NodeError> {
        let made = cache::make(directory.to_owned())?;
        let directory = made.canonicalize().map_err(NodeError::io(format!("finding {}", made.display())))?;
        Ok(Self { directory, address })
    }

    /// The address and port on which the node listens.
    pub fn socket(&self) -> SocketAddr {
        (self.address, PORTS[0]).into()
    }

    /// The directory with the node's data, settings and log.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The path of the node's log.
    pub fn log(&self) -> PathBuf {
        self.directory.join("cassandra.log")
    }

    /// The process id of the node. `None` if it is not running.
    pub fn running(&self) -> Option<u32> {
        let (id, _) = self.recorded()?;
        // Another program may have the same id by now.
        let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let ours = self.directory.join("cassandra.yaml").display().to_string();
        String::from_utf8_lossy(&line).contains(&ours).then_some(id)
    }

    /// Process id and address, recorded at the last start.
    fn recorded(&self) -> Option<(u32, Ipv4Addr)> {
        let text = fs::read_to_string(self.process_file()).ok()?;
        let (id, address) = text.trim().split_once(' ')?;
        Some((id.parse().ok()?, address.parse().ok()?))
    }

    /// Starts the node if it is not running, and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`NodeError::Missing`] if the address is in use or the machine lacks Java or Maven,
    /// [`NodeError::Fetch`] if the jars cannot be downloaded, [`NodeError::Io`] for errors of the operating
    /// system, [`NodeError::Start`] if the node ends or does not answer within four minutes.
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
                let reason = "it ended, or did not answer for minutes".to_owned();
                return Err(NodeError::Start { reason, tail: process::tail(&log), log });
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The version of the running node, which can differ from the one in the options.
    ///
    /// # Errors
    ///
    /// As [`Connection::open`] and [`Connection::query_at`].
    pub fn version(&self) -> Result<String, NodeError> {
        let rows =
            Connection::open(self.socket(), None)?.query("SELECT release_version FROM system.local")?;
        Ok(rows.texts().concat())
    }

    /// Stops the node and waits until it has ended. Returns false if it was not running.
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
