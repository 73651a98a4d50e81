//! The store contract over fjall: points as compressed blocks, one row per metric and block span.
//!
//! This crate must not depend on rendering, HTTP or CQL. A stage's time is divided into *buckets*. A bucket
//! holds *layers*, each a fjall keyspace: fresh layers accept flushes, a merged layer contains long blocks,
//! and newer layers win slot by slot. Expired buckets are dropped whole. Start at [`EmbeddedStore`].

pub mod config;

mod catalogue;
mod columns;
mod commit;
mod configs;
mod damage;
mod delete;
mod deletion;
mod errors;
mod layers;
mod locks;
mod long_block;
mod maintain;
mod merge;
mod metadata;
mod name_row;
mod names;
mod names_copy;
mod noted;
mod numbers;
mod occupied;
mod old_reads;
mod open;
mod opening;
mod options;
mod read;
mod reads;
mod rebuild;
mod row;
mod rows;
mod second_copy;
mod shared;
mod sizes;
mod state;
mod stats;
mod store;
mod synced;
mod usage;

pub use config::Config;
pub use maintain::{Report, Step};
pub use plumbago_fjall_host::{HeldFile, HostError, RescueStep, damaged_files, hold, link_or_copy, rescue};
pub use store::EmbeddedStore;
pub use usage::{StageTables, StageUsage, TableUsage, Usage};
