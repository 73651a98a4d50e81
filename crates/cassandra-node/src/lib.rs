//! A real Apache Cassandra as a child process, for tests and for trying things out: one node or a
//! few, on a loopback address of their own, with SASI switched on.
//!
//! Its jars come from Maven once, into a cache outside the source tree; `pom.xml` beside this crate
//! names the version of each [`Release`]. Nodes are killed when their handle is dropped, and by the kernel when
//! this process dies in any other way; `plumbago dev cassandra` alone leaves one running.
//!
//! Must not know: any other crate of this workspace, our tables, the CQL driver that the daemon uses.
//!
//! Tests start at [`server::for_tests`]; fault tests at [`Cluster::start`].

pub mod artifacts;
pub mod cache;
mod certificate;
pub mod cluster;
pub mod cql;
pub mod dev;
mod error;
mod flags;
mod java;
mod node;
mod options;
mod process;
mod release;
pub mod server;
mod settings;

pub use cluster::Cluster;
pub use error::NodeError;
pub use node::Node;
pub use options::{CommitlogSync, Options};
pub use release::Release;
pub use server::Server;
