//! The store contract over Cassandra and ScyllaDB, in BigGraphite's tables and a few of our own.
//!
//! Points are in one table per stage, in partitions of 2000 slots. Windows of coarse stages have a row
//! per writer; reads merge them. Text from senders is always a bound value, never part of a statement.
//! This crate must not depend on rendering, HTTP, fjall or the command line.
//!
//! Start at [`CassandraStore`]. The tables are described in [`schema`], the mapping of slots to rows in
//! [`layout`], and the merge of several writers' rows in `plumbago_store::merge`.

pub mod check;
pub mod config;
pub mod find;
pub mod layout;
pub mod schema;
pub mod statements;

mod changes;
mod consistency;
mod damage;
mod datacenter;
mod delete;
mod dialect;
mod driver;
mod error;
mod features;
mod flight;
mod hidden;
mod in_use;
mod kairos;
mod lease;
mod loose;
mod metadata;
mod names;
mod nodes;
mod occupied;
mod peer_overlay;
mod prepared;
mod read;
mod retry;
mod rows;
mod scan;
mod server_clock;
mod session;
mod shared;
mod stats;
mod store;
mod sync;
mod tags;
mod timestamps;
mod tls;
mod windows;
mod write;
mod writers;

pub use check::Report;
pub use config::Config;
pub use dialect::{config_from_map, config_to_map, parse_retention};
pub use in_use::TableInUse;
pub use kairos::{KairosKeyspace, KairosServers};
pub use names::{NameLimits, NameProblem};
pub use scan::TokenRange;
pub use session::{Cluster, Clusters};
pub use store::CassandraStore;
pub use sync::SyncPlan;
pub use write::PointWriter;
