//! The server that functional tests share: one for the process, or one that somebody gives.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::OnceLock;

use crate::cluster::Cluster;
use crate::cql::Connection;
use crate::error::NodeError;
use crate::options::Options;

/// Names a running server, `host:port`, that the tests use instead of one of their own.
pub const GIVEN: &str = "PLUMBAGO_TEST_CASSANDRA";

/// A server to run functional tests on. Others use it at the same time: each test has keyspaces of
/// its own, or names of its own.
#[derive(Debug)]
pub enum Server {
    /// Somebody else's, as in [`GIVEN`].
    Given(SocketAddr),
    /// Our own node.
    Own(Box<Cluster>),
}

impl Server {
    /// The given one, else a node of our own with default options.
    pub fn provide() -> Result<Self, NodeError> {
        let Some(given) = std::env::var(GIVEN).ok().filter(|value| !value.is_empty()) else {
            return Ok(Self::Own(Box::new(Cluster::start(1, &Options::default())?)));
        };
        let resolved = given.to_socket_addrs().map_err(NodeError::io(format!("{GIVEN}={given}")))?;
        let address = resolved.into_iter().next();
        let server = Self::Given(address.ok_or(NodeError::Missing(given))?);
        server.connect()?;
        Ok(server)
    }

    /// Where to connect: `127.1.2.3:9042`.
    pub fn contact_point(&self) -> String {
        self.socket().to_string()
    }

    /// The same as an address.
    pub fn socket(&self) -> SocketAddr {
        match self {
            Self::Given(address) => *address,
            Self::Own(cluster) => cluster.nodes()[0].socket(),
        }
    }

    /// A connection for a few statements.
    pub fn connect(&self) -> Result<Connection, NodeError> {
        Connection::open(self.socket(), None)
    }
}

/// The server of this test process, started by the first test that asks. `None`, a recorded skip,
/// where Java or Maven cannot be had; with `CI=true` that is a failure, as any other trouble is always.
///
/// # Panics
/// When there should be a server and is none.
pub fn for_tests() -> Option<&'static Server> {
    // Never dropped: the kernel kills the node when this process ends, the next one clears its data.
    static SHARED: OnceLock<Result<Server, NodeError>> = OnceLock::new();
    provided(SHARED.get_or_init(Server::provide).as_ref())
}

/// A cluster of one test, under the same rules.
///
/// # Panics
/// When there should be one and is none.
pub fn cluster_for_test(size: usize, options: &Options) -> Option<Cluster> {
    let started = Cluster::start(size, options);
    provided(started.as_ref()).is_some().then_some(started.ok()).flatten()
}

#[allow(clippy::panic, reason = "called by tests only")]
fn provided<'a, T>(result: Result<&'a T, &NodeError>) -> Option<&'a T> {
    match result {
        Ok(value) => Some(value),
        Err(NodeError::Missing(what)) => skip(what),
        Err(error) => panic!("{error}"),
    }
}

/// Records that the running test cannot run.
#[allow(clippy::panic, reason = "called by tests only")]
fn skip<T>(missing: &str) -> Option<T> {
    let thread = std::thread::current();
    let line = format!("{}: not to be had: {missing}", thread.name().unwrap_or("?"));
    if std::env::var_os("CI").is_some_and(|value| value == "true") {
        panic!("{line} (run tests/install.sh)");
    }
    // Straight to the descriptor: the harness shows nothing of a test that passes.
    let _ = writeln!(std::io::stderr(), "SKIPPED {line}");
    if let Some(path) = std::env::var_os("PLUMBAGO_SKIPPED")
        && let Ok(mut file) = OpenOptions::new().append(true).create(true).open(path)
    {
        let _ = writeln!(file, "{line}");
    }
    None
}
