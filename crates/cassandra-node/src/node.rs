//! One node: started, asked, killed, frozen, started again.

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

/// A node and its data; the data survive the process, so that it can be started again.
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
    /// Writes the files of a node; it does not run yet.
    pub(crate) fn prepare(
        directory: PathBuf,
        place: &Place,
        options: &Options,
        artifacts: &Artifacts,
    ) -> Result<Self, NodeError> {
        cache::make(directory.clone())?;
        settings::write(&directory, place, options)?;
        let log = cache::new_log(&place.address.to_string())?;
        let (options, artifacts) = (options.clone(), artifacts.clone());
        Ok(Self { process: None, address: place.address, options, artifacts, directory, log })
    }

    /// Where the daemon connects: `127.1.2.3:9042`.
    pub fn contact_point(&self) -> String {
        self.socket().to_string()
    }

    /// The same as an address.
    pub fn socket(&self) -> SocketAddr {
        (self.address, PORTS[0]).into()
    }

    /// Where its log is.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The file with its certificate, where [`Options::tls`] asks for one.
    pub fn certificate(&self) -> PathBuf {
        certificate::file(&self.directory)
    }

    /// The process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Tied::id)
    }

    /// True while the process is there, frozen or not.
    pub fn runs(&mut self) -> bool {
        self.process.as_mut().is_some_and(Tied::runs)
    }

    /// A connection for a few statements.
    pub fn connect(&self) -> Result<Connection, NodeError> {
        let credentials = self.options.authentication.then_some(cql::SUPERUSER);
        Connection::open(self.socket(), credentials)
    }

    /// Starts the process and waits until it answers.
    pub fn start(&mut self) -> Result<(), NodeError> {
        self.launch()?;
        self.wait_ready()
    }

    /// Starts the process on the data that are there, and does not wait. Nothing when it runs.
    pub fn launch(&mut self) -> Result<(), NodeError> {
        if self.runs() {
            return Ok(());
        }
        self.process = None;
        let mut command = process::tied(&java::find(self.options.release)?);
        flags::arguments(&mut command, &self.directory, &self.artifacts, &self.options)?;
        process::log_to(&mut command, &self.log)?;
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        self.process = Some(Tied::spawn(command)?);
        Ok(())
    }

    /// Waits until it answers a query.
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
        Err(self.failed("no answer for minutes"))
    }

    /// `kill -9`; returns when its ports are free again.
    pub fn kill(&mut self) {
        self.process = None; // dropping kills
        self.wait_gone();
    }

    /// Asks it to stop, which writes its memtables, and waits for the end.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.signal(Signal::SIGTERM);
            process.wait();
        }
        self.wait_gone();
    }

    /// SIGSTOP: connected, listening, silent.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Forgets everything on the disk of a node that does not run.
    pub fn wipe(&mut self) -> Result<(), NodeError> {
        let data = self.directory.join("data");
        std::fs::remove_dir_all(&data).map_err(NodeError::io("removing a node's data"))?;
        cache::make(data).map(drop)
    }

    fn signal(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal(signal);
        }
    }

    /// Sockets can outlive the process by a moment.
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
