//! The server that the functional tests of a process share: a node started for them, or a given server.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::OnceLock;

use crate::cluster::Cluster;
use crate::cql::Connection;
use crate::error::NodeError;
use crate::options::Options;

/// Environment variable with the `host:port` of a running server. If it is set, tests use that server.
pub const GIVEN: &str = "PLUMBAGO_TEST_CASSANDRA";

/// A server for functional tests. Tests share it, so each must use its own keyspaces or metric names.
#[derive(Debug)]
pub enum Server {
    /// The server that [`GIVEN`] names.
    Given(SocketAddr),
    /// A node that this process has started.
    Own(Box<Cluster>),
}

impl Server {
    /// The server that [`GIVEN`] names, or a new node if it is not set.
    ///
    /// # Errors
    ///
    /// As [`Cluster::start`] for a new node. For a given server, [`NodeError::Missing`] or [`NodeError::Io`]
    /// if its name cannot be resolved, and as [`Connection::open`].
    pub fn provide() -> Result<Self, NodeError> {
        let Some(given) = given() else {
            // The tables of all tests stay until the end ([`Server::clean_up`]).
            let options = Options { heap_mib: 768, stays_up: true, ..Options::default() };
            return Ok(Self::Own(Box::new(Cluster::start(1, &options)?)));
        };
        let resolved = given.to_socket_addrs().map_err(NodeError::io(format!("{GIVEN}={given}")))?;
        let address = resolved.into_iter().next();
        let server = Self::Given(address.ok_or(NodeError::Missing(given))?);
        server.connect()?;
        Ok(server)
    }

    /// The server's address and port as text, like `127.1.2.3:9042`.
    pub fn contact_point(&self) -> String {
        self.socket().to_string()
    }

    /// The address and port for clients.
    pub fn socket(&self) -> SocketAddr {
        match self {
            Self::Given(address) => *address,
            Self::Own(cluster) => cluster.nodes()[0].socket(),
        }
    }

    /// Opens a connection to the server.
    ///
    /// # Errors
    ///
    /// As [`Connection::open`].
    pub fn connect(&self) -> Result<Connection, NodeError> {
        Connection::open(self.socket(), None)
    }

    /// Drops a keyspace of points and the keyspace of its names, if they exist.
    ///
    /// # Errors
    ///
    /// As [`Connection::open`] and [`Connection::query`].
    pub fn drop_keyspaces(&self, keyspace: &str) -> Result<(), NodeError> {
        let mut cql = self.connect()?;
        for name in [keyspace.to_owned(), format!("{keyspace}_metadata")] {
            cql.query(&format!("DROP KEYSPACE IF EXISTS {name}"))?;
        }
        Ok(())
    }

    /// Drops the keyspaces of a test that ends, as [`Server::drop_keyspaces`], if the server goes on after the tests.
    /// On a node that ends with the tests they stay, because drops take much processor time
    /// (`docs/decisions/nodes-for-tests.md`).
    ///
    /// # Errors
    ///
    /// As [`Server::drop_keyspaces`].
    pub fn clean_up(&self, keyspace: &str) -> Result<(), NodeError> {
        match self {
            Self::Given(_) => self.drop_keyspaces(keyspace),
            Self::Own(_) => Ok(()),
        }
    }
}

/// The value of [`GIVEN`]. `None` if the tests start a server of their own.
pub fn given() -> Option<String> {
    std::env::var(GIVEN).ok().filter(|value| !value.is_empty())
}

/// The server of this test process, started by the first call. Returns `None` if Java or Maven is missing;
/// the test is then recorded as skipped.
///
/// # Panics
///
/// If the server does not start for another reason, or for any reason if `CI=true`.
pub fn for_tests() -> Option<&'static Server> {
    // Statics are never dropped: the kernel kills the node when this process ends, and the next test process
    // removes the node's data.
    static SHARED: OnceLock<Result<Server, NodeError>> = OnceLock::new();
    provided(SHARED.get_or_init(Server::provide).as_ref())
}

/// A new cluster for one test. Returns `None` in the same cases as [`for_tests`].
///
/// # Panics
///
/// As [`for_tests`].
pub fn cluster_for_test(size: usize, options: &Options) -> Option<Cluster> {
    let started = Cluster::start(size, options);
    provided(started.as_ref()).is_some().then_some(started.ok()).flatten()
}

/// Unwraps what a test needs. Returns `None` if the machine lacks something; the test is then recorded as
/// skipped.
///
/// # Panics
///
/// As [`for_tests`].
#[allow(clippy::panic, reason = "called by tests only")]
pub fn provided<'a, T>(result: Result<&'a T, &NodeError>) -> Option<&'a T> {
    match result {
        Ok(value) => Some(value),
        Err(NodeError::Missing(what)) => skip(what),
        Err(error) => panic!("{error}"),
    }
}

/// Records that the current test is skipped.
#[allow(clippy::panic, reason = "called by tests only")]
fn skip<T>(missing: &str) -> Option<T> {
    let thread = std::thread::current();
    let line = format!("{}: missing on this machine: {missing}", thread.name().unwrap_or("?"));
    if std::env::var_os("CI").is_some_and(|value| value == "true") {
        panic!("{line} (run tests/install.sh)");
    }
    // Written to stderr directly, because the test harness hides what passing tests print.
    let _ = writeln!(std::io::stderr(), "SKIPPED {line}");
    if let Some(path) = std::env::var_os("PLUMBAGO_SKIPPED")
        && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = writeln!(file, "{line}");
    }
    None
}
