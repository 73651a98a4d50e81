//! One node of a cluster: start, connect, kill, freeze.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::artifacts::Artifacts;
use crate::cql::{self, Connection};
use crate::error::NodeError;
use crate::options::Options;
use crate::process::{self, HANG, PORTS, Tied};
use crate::settings::{self, Place};
use crate::{cache, certificate, flags, java};

/// A node and its data. The data remains when the process ends, so that the node can be started again.
#[derive(Debug)]
pub struct Node {
    process: Option<Tied>,
    address: Ipv4Addr,
    options: Options,
    artifacts: Artifacts,
    directory: PathBuf,
    log: PathBuf,
}

impl Node {
    /// Creates the directory and the configuration of a node. Does not start it.
    pub(crate) fn prepare(
        directory: PathBuf,
        place: &Place,
        options: &Options,
        artifacts: &Artifacts,
    ) -> Result<Self, NodeError> {
        cache::make(directory.clone())?;
        if let Some((_, disk)) = options.disk.as_ref().filter(|(node, _)| *node == place.number) {
            let data = directory.join("data");
            let failed = NodeError::io(format!("linking {} to {}", data.display(), disk.display()));
            std::os::unix::fs::symlink(cache::make(disk.clone())?, &data).map_err(failed)?;
        }
        settings::write(&directory, place, options)?;
        let log = cache::new_log(&place.address.to_string())?;
        let (options, artifacts) = (options.clone(), artifacts.clone());
        Ok(Self { process: None, address: place.address, options, artifacts, directory, log })
    }

    /// The node's address and port as text, like `127.1.2.3:9042`.
    pub fn contact_point(&self) -> String {
        self.socket().to_string()
    }

    /// The address and port for clients.
    pub fn socket(&self) -> SocketAddr {
        (self.address, PORTS[0]).into()
    }

    /// The path of the node's log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The directory of the node's data. It contains a directory for each keyspace, which contains one for
    /// each table.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The path of the node's certificate. The file exists if [`Options::tls`] is set.
    pub fn certificate(&self) -> PathBuf {
        certificate::file(&self.directory)
    }

    /// The process id. `None` before the first start, and after a kill or stop.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Tied::id)
    }

    /// Whether the process exists, even if it is frozen.
    pub fn runs(&mut self) -> bool {
        self.process.as_mut().is_some_and(Tied::runs)
    }

    /// Opens a connection, as the superuser if authentication is on.
    ///
    /// # Errors
    ///
    /// As [`Connection::open`].
    pub fn connect(&self) -> Result<Connection, NodeError> {
        let credentials = self.options.authentication.then_some(cql::SUPERUSER);
        Connection::open(self.socket(), credentials)
    }

    /// Starts the process and waits until it answers.
    ///
    /// # Errors
    ///
    /// As [`Node::launch`] and [`Node::wait_ready`].
    pub fn start(&mut self) -> Result<(), NodeError> {
        self.launch()?;
        self.wait_ready()
    }

    /// Starts the process with the existing data, without waiting until it is ready. Does nothing if it is
    /// running.
    ///
    /// # Errors
    ///
    /// [`NodeError::Missing`] if there is no suitable Java, [`NodeError::Io`] if the process cannot be
    /// started.
    pub fn launch(&mut self) -> Result<(), NodeError> {
        if self.runs() {
            return Ok(());
        }
        self.process = None;
        let mut command = process::tied(&java::find(self.options.release)?);
        flags::arguments(&mut command, &self.directory, &self.artifacts, &self.options)?;
        process::log_to(&mut command, &self.log)?;
        self.process = Some(Tied::spawn(command)?);
        Ok(())
    }

    /// Waits until the node answers a query.
    ///
    /// # Errors
    ///
    /// [`NodeError::Start`] if the process ends or does not answer within four minutes.
    pub fn wait_ready(&mut self) -> Result<(), NodeError> {
        let start = Instant::now();
        while start.elapsed() < HANG {
            if !self.runs() {
                return Err(self.failed("the process ended"));
            }
            if self.connect().and_then(|mut c| c.query("SELECT release_version FROM system.local")).is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(self.failed("it did not answer for minutes"))
    }

    /// Kills the process with `kill -9` and waits until its ports are free.
    pub fn kill(&mut self) {
        self.process = None; // dropping kills
        self.wait_gone();
    }

    /// Stops the process cleanly, so that it writes its memtables to disk, and waits until it has ended.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::SIGTERM);
            process.wait();
        }
        self.wait_gone();
    }

    /// Freezes the process (SIGSTOP): its connections stay open but get no answers.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Continues a frozen process (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Deletes the data of a node. It must not be running.
    ///
    /// # Errors
    ///
    /// [`NodeError::Io`] if the data cannot be removed.
    pub fn wipe(&mut self) -> Result<(), NodeError> {
        let data = self.data();
        std::fs::remove_dir_all(&data).map_err(NodeError::io("removing a node's data"))?;
        cache::make(data).map(drop)
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }

    /// Waits until the ports are free, which may be a moment after the process has ended.
    fn wait_gone(&self) {
        let start = Instant::now();
        while !process::free(self.address) && start.elapsed() < HANG {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn failed(&self, reason: &str) -> NodeError {
        let tail = process::tail(&self.log);
        NodeError::Start { reason: reason.to_owned(), log: self.log.clone(), tail }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.process = None;
        if std::thread::panicking() {
            eprintln!("the log of Cassandra is {}", self.log.display());
        } else {
            let _ = std::fs::remove_file(&self.log);
        }
    }
}
