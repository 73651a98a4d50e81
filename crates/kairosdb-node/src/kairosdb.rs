//! KairosDB with H2.

use std::net::SocketAddr;

use plumbago_cassandra_node::cache::{self, RunDirectory};
use plumbago_cassandra_node::{NodeError, server};

use crate::java_server::{self, JavaServer, Launch};

/// The POM that pins the version.
const POM: &str = include_str!("../pom.xml");

/// The area of the cache.
const AREA: &str = "kairosdb";

/// A running KairosDB.
#[derive(Debug)]
pub struct KairosDb {
    _server: JavaServer,
    http: SocketAddr,
    telnet: SocketAddr,
}

impl KairosDb {
    /// Starts KairosDB with an empty H2 and waits until it answers.
    ///
    /// # Errors
    ///
    /// [`NodeError::Missing`] without Java 17 or Maven, [`NodeError::Fetch`] if the jars cannot be downloaded,
    /// [`NodeError::Start`] if it does not answer, [`NodeError::Io`] for files and processes.
    pub fn start() -> Result<Self, NodeError> {
        let jars = java_server::jars(AREA, version(), POM)?;
        let directory = RunDirectory::make_in(&cache::area(AREA)?)?;
        let [http, telnet] = java_server::free_ports()?;
        let home = directory.path().to_path_buf();
        java_server::write(&home, "test.conf", &configuration(http, telnet))?;
        java_server::write(&home, "logback.xml", LOGBACK)?;
        let mut class_path = vec![home];
        class_path.extend(jars);
        let launch = Launch {
            area: AREA,
            java: &[
                "-Xmx384m",
                "-XX:+UseSerialGC",
                // H2 keeps local times, and loses an hour where a clock is put back.
                "-Duser.timezone=UTC",
                "--add-opens=java.base/java.lang=ALL-UNNAMED",
                "--add-opens=java.base/java.util=ALL-UNNAMED",
            ],
            class_path: &class_path,
            class: "org.kairosdb.core.Main",
            arguments: &["-c", "run", "-p", "test.conf"],
        };
        let mut server = JavaServer::start(directory, launch)?;
        server.wait_answer(http, "/api/v1/version")?;
        Ok(Self { _server: server, http, telnet })
    }

    /// The address of its HTTP API.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The address of its lines.
    pub fn telnet(&self) -> SocketAddr {
        self.telnet
    }
}

/// A KairosDB for one test. `None` if the machine lacks something; the test is then recorded as skipped.
///
/// # Panics
///
/// If it does not start for another reason, or for any reason if `CI=true`.
pub fn for_test() -> Option<KairosDb> {
    let started = KairosDb::start();
    server::provided(started.as_ref()).is_some().then_some(started.ok()).flatten()
}

/// The version in the POM.
fn version() -> &'static str {
    let pinned = POM.split_once("<kairosdb>").and_then(|(_, rest)| rest.split_once('<'));
    pinned.map_or("", |(version, _)| version)
}

/// What differs from the defaults, which are in `kairosdb.conf` in its jar: a file of that name here would hide them.
fn configuration(http: SocketAddr, telnet: SocketAddr) -> String {
    format!(
        r#"kairosdb.telnetserver.port = {}
kairosdb.telnetserver.address = "{}"
kairosdb.jetty.port = {}
kairosdb.jetty.address = "{}"
kairosdb.service.datastore = "org.kairosdb.datastore.h2.H2Module"
kairosdb.datastore.h2.database_path = "h2"
kairosdb.query_cache.cache_dir = "cache"
kairosdb.queue_processor.queue_path = "queue"
kairosdb.service.reporter = "<disabled>"
"#,
        telnet.port(),
        telnet.ip(),
        http.port(),
        http.ip()
    )
}

/// Without this file it logs everything.
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
