//! A server written in Java: its jars in the cache, its directory, its process and its log.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plumbago_cassandra_node::cache::{self, RunDirectory};
use plumbago_cassandra_node::process::{self, HANG, Tied};
use plumbago_cassandra_node::{NodeError, artifacts, java};

/// How a server is started.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// The area of the cache, like `kairosdb`.
    pub area: &'a str,
    /// Arguments of Java before the class, such as memory limits and opened packages.
    pub java: &'a [&'a str],
    /// Directories and jars of the class path.
    pub class_path: &'a [PathBuf],
    /// The name of the class to run.
    pub class: &'a str,
    /// The arguments of its `main`.
    pub arguments: &'a [&'a str],
}

/// A running server. It is killed when dropped, and its directory is removed.
#[derive(Debug)]
pub struct JavaServer {
    process: Tied,
    log: PathBuf,
    directory: RunDirectory,
}

impl JavaServer {
    /// Starts a server in Java 17 with this working directory. Does not wait until it answers.
    ///
    /// # Errors
    ///
    /// [`NodeError::Missing`] if Java 17 is missing, [`NodeError::Io`] if the process cannot be started.
    pub fn start(directory: RunDirectory, launch: Launch<'_>) -> Result<Self, NodeError> {
        let log = cache::new_log_in(&cache::area(launch.area)?, launch.area)?;
        let paths: Vec<_> = launch.class_path.iter().map(|path| path.to_string_lossy()).collect();
        let mut command = process::tied(&java::version("17")?);
        command.args(temporary(directory.path())?).args(launch.java);
        command.arg("-cp").arg(paths.join(":")).arg(launch.class).args(launch.arguments);
        command.current_dir(directory.path());
        process::log_to(&mut command, &log)?;
        Ok(Self { process: Tied::spawn(command)?, log, directory })
    }

    /// Waits until the server answers a path with status 200.
    ///
    /// # Errors
    ///
    /// [`NodeError::Start`] if the process ends or does not answer within four minutes.
    pub fn wait_answer(&mut self, address: SocketAddr, path: &str) -> Result<(), NodeError> {
        self.wait(|| answers(address, path))
    }

    /// Waits until `ready` returns true.
    ///
    /// # Errors
    ///
    /// As [`JavaServer::wait_answer`].
    pub fn wait(&mut self, mut ready: impl FnMut() -> bool) -> Result<(), NodeError> {
        let start = Instant::now();
        while start.elapsed() < HANG {
            if !self.process.runs() {
                return Err(self.failed("the process ended"));
            }
            if ready() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(self.failed("it did not answer for minutes"))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The directory of its data.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The text that the server has logged.
    pub fn log(&self) -> String {
        std::fs::read(&self.log)
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn failed(&self, reason: &str) -> NodeError {
        NodeError::Start { reason: reason.to_owned(), log: self.log.clone(), tail: process::tail(&self.log) }
    }
}

impl Drop for JavaServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the log of the server in Java is {}", self.log.display());
        }
    }
}

/// The jars that a profile of a POM names, downloaded into an area of the cache if they are missing. `name` is the
/// directory in that area and contains the version.
///
/// # Errors
///
/// [`NodeError::Missing`] if Maven is not installed, [`NodeError::Fetch`] if the download fails,
/// [`NodeError::Io`] if the cache cannot be read or written.
pub fn jars(area: &str, name: &str, pom: &str, profile: &str) -> Result<Vec<PathBuf>, NodeError> {
    let home = cache::area(area)?;
    let directory = cache::once_in(&home, name, |unfinished| {
        let file = home.join("pom.xml");
        std::fs::write(&file, pom).map_err(NodeError::io(format!("writing {}", file.display())))?;
        artifacts::copy_jars(&file, &[format!("-P{profile}")], unfinished)
    })?;
    let entries = std::fs::read_dir(&directory);
    let entries = entries.map_err(NodeError::io(format!("reading {}", directory.display())))?;
    let mut jars: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    jars.retain(|path| path.extension().is_some_and(|extension| extension == "jar"));
    jars.sort();
    Ok(jars)
}

/// The arguments of Java that keep all of its temporary files below a directory. Java does not remove these
/// files when it is killed.
///
/// # Errors
///
/// [`NodeError::Io`] if the directory for them cannot be created.
pub fn temporary(directory: &Path) -> Result<[String; 2], NodeError> {
    let place = cache::make(directory.join("java-tmp"))?;
    Ok([format!("-Djava.io.tmpdir={}", place.display()), "-XX:+PerfDisableSharedMem".to_owned()])
}

/// Free ports on loopback. Another process may take them before the server does.
///
/// # Errors
///
/// [`NodeError::Io`] if there are none.
pub fn free_ports<const COUNT: usize>() -> Result<[SocketAddr; COUNT], NodeError> {
    let mut ports = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); COUNT];
    let mut held = Vec::with_capacity(COUNT);
    for port in &mut ports {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(NodeError::io("finding a free port"))?;
        *port = listener.local_addr().map_err(NodeError::io("finding a free port"))?;
        held.push(listener);
    }
    Ok(ports)
}

/// Writes a file of the server's configuration.
///
/// # Errors
///
/// [`NodeError::Io`] if the file cannot be written.
pub fn write(directory: &Path, name: &str, text: &str) -> Result<(), NodeError> {
    let path = directory.join(name);
    std::fs::write(&path, text).map_err(NodeError::io(format!("writing {}", path.display())))
}

fn answers(address: SocketAddr, path: &str) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok::<_, std::io::Error>(status)
    };
    ask().is_ok_and(|status| status.ends_with(b" 200"))
}
