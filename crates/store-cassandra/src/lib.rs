//! The store contract over Cassandra and ScyllaDB: BigGraphite's tables, table for table.
//!
//! Must not know: rendering, HTTP, fjall, the command line. Points live in one table per stage, in
//! partitions of 2000 slots; windows of coarse stages are kept per writer and merged when they are
//! read. No text that came from a sender is ever put into CQL: all of it is bound.
//!
//! Start at [`CassandraStore`]; what the tables are is in [`schema`], where a slot lies in
//! [`layout`], and how rows of several writers become one answer in [`merge`].

pub mod check;
pub mod config;
pub mod find;
pub mod late;
pub mod layout;
pub mod merge;
pub mod schema;
pub mod statements;

mod changes;
mod damage;
mod dialect;
mod error;
mod flight;
mod hidden;
mod lease;
mod metadata;
mod names;
mod nodes;
mod prepared;
mod read;
mod retry;
mod rows;
mod scan;
mod session;
mod stats;
mod store;
mod sync;
mod tags;
mod tls;
mod told;
mod write;
mod writers;

pub use changes::{ChangeFeed, Changes};
pub use check::Report;
pub use config::Config;
pub use dialect::{config_from_map, config_to_map, parse_retention};
pub use lease::Lease;
pub use names::{NameLimits, NameProblem};
pub use scan::TokenRange;
pub use session::{Cluster, Clusters};
pub use store::CassandraStore;
pub use sync::Plan;
pub use write::{PointWriter, Refusal};
pub use writers::Identity;
