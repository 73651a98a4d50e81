//! Runs a real KairosDB as a child process, for tests: with H2, on loopback, on free ports.
//!
//! The jars are downloaded once with Maven, into a cache outside the source tree; `pom.xml` in this crate pins their
//! version. A server is killed when its handle is dropped, and by the kernel if this process dies.
//!
//! Must not know: any other crate of this workspace than `cassandra-node`, from which it has the pieces that every
//! server in Java needs.
//!
//! Tests start at [`kairosdb::for_test`].

pub mod java_server;
pub mod kairosdb;

pub use java_server::{JavaServer, Launch};
pub use plumbago_cassandra_node::NodeError;
