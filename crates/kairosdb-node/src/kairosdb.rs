//! KairosDB, with H2 or on a Cassandra.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use plumbago_cassandra_node::cache::{self, RunDirectory};
use plumbago_cassandra_node::{NodeError, java, process, server};

use crate::POM;
use crate::java_server::{self, JavaServer, Launch};

/// The area of the cache.
const AREA: &str = "kairosdb";

/// Where a KairosDB keeps its points.
#[derive(Debug, Clone, Copy)]
pub enum Backend<'a> {
    /// In its own H2 database, which is empty at the start.
    H2,
    /// In a keyspace of a Cassandra cluster. KairosDB creates the keyspace if it is missing.
    Cassandra {
        /// The server.
        server: SocketAddr,
        /// The keyspace.
        keyspace: &'a str,
        /// `MILLISECONDS` or `SECONDS`: the unit of the times within a row, in a keyspace that KairosDB creates.
        row_time_unit: &'a str,
    },
}

/// A running KairosDB. It is killed when dropped.
#[derive(Debug)]
pub struct KairosDb {
    server: JavaServer,
    class_path: Vec<PathBuf>,
    /// The arguments of Java, without those for temporary files.
    java: Vec<String>,
    http: SocketAddr,
    telnet: SocketAddr,
}

impl KairosDb {
    /// Starts KairosDB and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`NodeError::Missing`] if Java 17 or Maven is missing, [`NodeError::Fetch`] if the jars cannot be
    /// downloaded, [`NodeError::Start`] if it does not answer, [`NodeError::Io`] for files and processes.
    pub fn start(backend: Backend<'_>) -> Result<Self, NodeError> {
        Self::start_with_java(backend, HEAP_MIB, &QUICK)
    }

    /// As [`KairosDb::start`], with a Java heap of this many MiB and all compilers of Java, for measurements.
    ///
    /// # Errors
    ///
    /// As [`KairosDb::start`].
    pub fn start_with_heap(backend: Backend<'_>, heap_mib: u32) -> Result<Self, NodeError> {
        Self::start_with_java(backend, heap_mib, &[])
    }

    fn start_with_java(backend: Backend<'_>, heap_mib: u32, more: &[&str]) -> Result<Self, NodeError> {
        let jars = java_server::jars(AREA, version(), POM, "kairosdb")?;
        let directory = RunDirectory::make_in(&cache::area(AREA)?)?;
        let [http, telnet] = java_server::free_ports()?;
        let home = directory.path().to_path_buf();
        java_server::write(&home, "test.conf", &configuration(http, telnet, backend))?;
        java_server::write(&home, "logback.xml", LOGBACK)?;
        let mut class_path = vec![home];
        class_path.extend(jars);
        let mut java = vec![format!("-Xmx{heap_mib}m")];
        java.extend(JAVA.iter().chain(more).map(|argument| (*argument).to_owned()));
        let arguments: Vec<&str> = java.iter().map(String::as_str).collect();
        let launch = Launch {
            area: AREA,
            java: &arguments,
            class_path: &class_path,
            class: MAIN,
            arguments: &["-c", "run", "-p", "test.conf"],
        };
        let mut server = JavaServer::start(directory, launch)?;
        server.wait_answer(http, "/api/v1/version")?;
        Ok(Self { server, class_path, java, http, telnet })
    }

    /// Writes all points to a file with KairosDB's own `export`. This works only with Cassandra, because a
    /// second process cannot open H2.
    ///
    /// # Errors
    ///
    /// [`NodeError::Missing`] if Java 17 is missing, [`NodeError::Io`] if the export fails.
    pub fn export(&self, file: &Path) -> Result<(), NodeError> {
        let paths: Vec<_> = self.class_path.iter().map(|path| path.to_string_lossy()).collect();
        let mut command = process::tied(&java::version("17")?);
        command.args(java_server::temporary(self.server.directory())?).args(&self.java);
        command.arg("-cp").arg(paths.join(":")).arg(MAIN);
        command.args(["-c", "export", "-p", "test.conf", "-f"]).arg(file);
        let ended = command.current_dir(self.server.directory()).output();
        let ended = ended.map_err(NodeError::io("running KairosDB's export"))?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        Err(NodeError::io("running KairosDB's export")(std::io::Error::other(said)))
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// The address of the HTTP API of KairosDB.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The address of the port for lines.
    pub fn telnet(&self) -> SocketAddr {
        self.telnet
    }
}

/// A KairosDB with H2 for one test. `None` if the machine lacks something; the test is then recorded as skipped.
///
/// # Panics
///
/// If KairosDB does not start for another reason, or for any reason if `CI=true`.
pub fn for_test() -> Option<KairosDb> {
    let started = KairosDb::start(Backend::H2);
    server::provided(started.as_ref()).is_some().then_some(started.ok()).flatten()
}

/// The version in the POM.
fn version() -> &'static str {
    let pinned = POM.split_once("<kairosdb>").and_then(|(_, rest)| rest.split_once('<'));
    pinned.map_or("", |(version, _)| version)
}

/// The settings that differ from the defaults. The defaults are in the `kairosdb.conf` of KairosDB's jar; a
/// file of the same name here would hide them.
fn configuration(http: SocketAddr, telnet: SocketAddr, backend: Backend<'_>) -> String {
    let store = match backend {
        Backend::H2 => H2.to_owned(),
        Backend::Cassandra { server, keyspace, row_time_unit } => format!(
            r#"kairosdb.service.datastore = "org.kairosdb.datastore.cassandra.CassandraModule"
kairosdb.datastore.cassandra.write_cluster.cql_host_list = ["{}"]
kairosdb.datastore.cassandra.write_cluster.cql_port = {}
kairosdb.datastore.cassandra.write_cluster.keyspace = "{keyspace}"
kairosdb.datastore.cassandra.write_cluster.row_time_unit = "{row_time_unit}"
kairosdb.datastore.cassandra.write_cluster.protocol_compression = "NONE"
"#,
            server.ip(),
            server.port()
        ),
    };
    format!(
        r#"kairosdb.telnetserver.port = {}
kairosdb.telnetserver.address = "{}"
kairosdb.jetty.port = {}
kairosdb.jetty.address = "{}"
kairosdb.query_cache.cache_dir = "cache"
kairosdb.queue_processor.queue_path = "queue"
kairosdb.service.reporter = "<disabled>"
{store}"#,
        telnet.port(),
        telnet.ip(),
        http.port(),
        http.ip()
    )
}

const H2: &str = r#"kairosdb.service.datastore = "org.kairosdb.datastore.h2.H2Module"
kairosdb.datastore.h2.database_path = "h2"
"#;

const MAIN: &str = "org.kairosdb.core.Main";

/// The Java heap of a server for functional tests, in MiB.
const HEAP_MIB: u32 = 384;

/// For short runs only the fast compiler: a start takes 40 % less processor time.
const QUICK: [&str; 1] = ["-XX:TieredStopAtLevel=1"];

/// Arguments of Java, beside the size of its heap.
const JAVA: [&str; 4] = [
    "-XX:+UseSerialGC",
    // H2 stores local times. In another zone it would lose the hour that is repeated when the clocks are set
    // back.
    "-Duser.timezone=UTC",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
];

/// The logging configuration. Without it, KairosDB logs everything.
const LOGBACK: &str = r#"<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %level %logger - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_pinned() {
        assert!(version().starts_with("1.3.0"), "{}", version());
    }
}
