//! The one writer and the one reader of points: registry, heads, downsampler, flush, reader.
//!
//! Must not know: protocols, HTTP, concrete stores. Start at [`Engine`]; then `shard/mod.rs` (what
//! happens to a point), `shard/flush.rs` (how it reaches the store), `recover.rs` (how it comes back
//! after a crash) and `reader.rs`. Threads and channels are in `task.rs` and `flusher.rs` only.

#[doc(hidden)]
pub mod bench;
mod chunked;
mod close;
pub mod config;
mod create;
mod downsample;
mod engine;
pub mod fetch;
mod flusher;
mod head;
mod jobs;
mod late_work;
mod ledger;
mod peers;
mod places;
mod pool;
mod reader;
mod recover;
mod refold;
mod refusal;
mod router;
mod shard;
mod state_row;
mod stats;
mod strangers;
mod task;
mod unsent;

pub use config::Config;
pub use create::ConfigFor;
pub use engine::{Engine, Parts};
pub use fetch::{FetchError, FetchRequest, SeriesSource};
pub use ledger::Ledger;
pub use peers::{PeerAnswer, Peers, Unsent};
pub use reader::Reader;
pub use recover::{Recovered, StartError};
pub use refusal::{NameCheck, NameRefusal};
