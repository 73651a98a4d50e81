//! Runs a real Apache Cassandra as a child process, for tests and for development: one node or a small
//! cluster. Each node has its own loopback address. SASI indexes are enabled.
//!
//! The jars are downloaded once with Maven, into a cache outside the source tree. `pom.xml` in this crate
//! pins the version of each [`Release`]. The first start of 5.0 for a test also writes an archive of its classes there,
//! with which later ones are quicker. A node is killed when its handle is dropped, and by the kernel if
//! this process dies. Only `plumbago dev cassandra` leaves a node running.
//!
//! Must not know: any other crate of this workspace, our tables, the CQL driver that the daemon uses.
//!
//! The pieces that any server in Java needs, [`artifacts::copy_jars`], [`cache`], [`java`], [`process`] and
//! [`server::provided`], are used by `kairosdb-node` too.
//!
//! Tests start at [`server::for_tests`]; fault tests at [`Cluster::start`].

mod archive;
pub mod artifacts;
pub mod cache;
mod certificate;
pub mod cluster;
pub mod cql;
pub mod dev;
mod error;
mod flags;
pub mod java;
mod node;
mod options;
pub mod process;
mod release;
pub mod scylla;
pub mod server;
mod settings;

pub use cluster::Cluster;
pub use error::NodeError;
pub use node::Node;
pub use options::{CommitlogSync, Options};
pub use release::Release;
pub use server::Server;
