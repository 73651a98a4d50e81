//! The one writer and the one reader of points.
//!
//! * [`Engine`]: what the binary creates, feeds, reads and stops.
//! * `shard`: registry, heads, downsampler and flushes of a part of the metrics. Pure: no thread, no
//!   channel, no clock and no store. Start at `shard/mod.rs` (what happens to a point), then
//!   `shard/flush.rs` (how it reaches the store) and `shard/head.rs`.
//! * `worker`: the threads that run the shards, and the queues between them; `command`: what other threads ask of them.
//! * `late`: rows of late points, and windows folded again from the store.
//! * `read`: series from heads, store and peers.
//! * `quotas`: limits on the metrics below a directory, and how much of them is used.
//! * `import`: the history of metrics from another program, stored while they get points.
//! * `change`: metrics get other settings; `change/stages.rs` fills their new stages.
//! * `copy`: metrics get other names (`copy/read.rs`, `copy/snapshot.rs`); reads their histories for another store
//!   (`copy/stored.rs`).
//! * `copy`: metrics are copied to other names (`copy/read.rs`, `copy/snapshot.rs`), or read to be copied to
//!   another store (`copy/stored.rs`).
//! * `slots`: slots as the store has them; long ranges are read without their empty parts (`pieces`).
//! * `recover`: a start after a stop or a crash.
//! * `checkpoint`: one file with all names and heads, from a clean stop to the next start.
//!
//! Must not know: protocols, HTTP, concrete stores. Start at [`Engine`].

#[doc(hidden)]
pub mod bench;
mod bytes;
mod change;
mod checkpoint;
mod command;
pub mod config;
mod copy;
mod create;
mod engine;
mod import;
mod late;
mod ledger;
mod memory;
mod pieces;
pub mod quotas;
mod ranges;
mod read;
mod recover;
mod refusal;
mod refusals;
mod router;
mod shard;
mod slots;
mod stats;
mod worker;

pub use checkpoint::CheckpointError;
pub use config::{Config, CreateLimit};
pub use copy::histories_in_tables;
pub use engine::{ChangeError, Engine, EngineParts, QuotaError};
pub use ledger::Ledger;
pub use read::{RawPoints, Reader};
pub use recover::{Recovered, StartError};
pub use refusal::{NameCheck, NameRefusal};
pub use shard::creation::ConfigFor;
pub use shard::crowded::{CrowdedMetric, CrowdedMetrics};

/// The conditions that the engine can raise.
pub const CONDITIONS: [&str; 10] = [
    memory::FULL,
    memory::PAUSED,
    "create_limited",
    "future",
    "future_full",
    "journal",
    "store",
    "late_points",
    worker::create::UNWRITTEN,
    "quota",
];
