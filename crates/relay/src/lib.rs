//! Sends every accepted point on to other carbon servers.
//!
//! Each destination has its own queue on disk, sender and ledger, so that an unreachable or slow destination
//! does not delay the others. A point goes from [`Relay::offer`] into the [`inlet`] in memory, from there at
//! once into the files of the [`queue`], and from these to the server ([`sender`]).
//!
//! Must not know: the engine, stores, listeners, the configuration file. Start at [`Relay`]. The reasons are in
//! `docs/decisions/relay.md`, the bytes of the queue in `docs/formats/relay.md`.

#[doc(hidden)]
pub mod bench;
mod config;
mod connection;
mod destination;
mod frame;
mod inlet;
mod queue;
mod relay;
mod routes;
mod sender;
mod stats;
mod wire;
mod writer;

pub use config::Config;
pub use destination::{Destination, DestinationError, Protocol};
pub use relay::{OpenError, Relay, RelayParts};
pub use stats::{Balance, CONDITIONS};
