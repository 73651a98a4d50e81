//! Runs a real KairosDB and a real OpenTSDB as child processes, for tests: KairosDB with H2 or on a test
//! Cassandra, and OpenTSDB on a standalone HBase. They use free ports on loopback.
//!
//! The jars are downloaded once with Maven, into a cache outside the source tree; `pom.xml` in this crate
//! pins all versions. A server is killed when its handle is dropped, and by the kernel if this process dies.
//!
//! Must not know: any other crate of this workspace, except `cassandra-node`, which has the pieces that every server
//! in Java needs.
//!
//! Tests start at [`kairosdb::for_test`] and [`opentsdb::for_test`].

pub mod java_server;
pub mod kairosdb;
pub mod opentsdb;

pub use java_server::{JavaServer, Launch};
pub use plumbago_cassandra_node::NodeError;

/// The POM that pins the versions.
const POM: &str = include_str!("../pom.xml");
