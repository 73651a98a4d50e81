//! A remote store behind a spool: commits are durable on the local disk at once, a sender sends the rows to
//! the remote store until the remote store has acknowledged them, and readers see the rows that are still
//! pending.
//!
//! Must not know: which remote store it is (CQL, drivers), nor the engine. Start at [`SpooledStore`];
//! [`queue::Spool`] is the queue on the disk, [`sender::Sender`] drains it into a
//! [`plumbago_store::RemotePoints`]. The reasons are in `docs/decisions/spool.md`, the bytes in
//! `docs/formats/spool.md`.

mod calls;
mod error;
mod health;
mod overlay;
pub mod queue;
pub mod sender;
mod slice;
mod stats;
pub mod store;

pub use error::SpoolError;
pub use health::SenderStatus;
pub use queue::{Spool, SpoolConfig};
pub use sender::{Sender, SenderConfig};
pub use store::SpooledStore;
