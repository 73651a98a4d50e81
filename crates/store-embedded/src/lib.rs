//! The store contract over fjall: points as compressed blocks, one row per metric and block span.
//!
//! Must not know: rendering, HTTP, CQL. A stage's time is cut into *buckets*; a bucket holds
//! *layers* (a fjall keyspace each): fresh ones take flushes, a merged one holds long blocks, and
//! the newer layer wins slot by slot. Old buckets are dropped whole. Start at [`EmbeddedStore`].

pub mod config;

mod catalogue;
mod columns;
mod commit;
mod damage;
mod database;
mod delete;
mod diagnosis;
mod log_end;
mod long_block;
mod maintain;
mod merge;
mod metadata;
mod open;
mod options;
mod pressure;
mod read;
mod row;
mod rows;
mod stats;
mod store;
mod usage;

pub use config::Config;
pub use maintain::{Report, Step};
pub use store::EmbeddedStore;
pub use usage::{StageUsage, Usage};
