//! A remote store behind a spool: commits are local and durable at once, a sender carries them to the
//! remote store until that has acknowledged them, and readers see what is still on its way.
//!
//! It knows the store's contract and the journal's spool; it must not know which remote store that is
//! (CQL, drivers), nor the engine. Start at [`SpooledStore`]; [`remote::RemotePoints`] is what a remote
//! store has to do, [`sender::Sender`] what runs beside. Why things are so: `docs/decisions/spool.md`.

pub mod config;
pub mod remote;
pub mod sender;
pub mod store;

mod flight;
mod gather;
mod overlay;
mod parked;
mod slice;
mod stats;

pub use config::SenderConfig;
pub use remote::{RemotePoints, WriteRefusal};
pub use sender::{Sender, SenderStatus};
pub use store::SpooledStore;
