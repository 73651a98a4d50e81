//! Listeners and protocols: from a socket to accepted points.
//!
//! Must not know: the engine, stores. Points go to a [`PointSink`], which the binary adapts the engine
//! to. Start at [`protocol::line`] for what a line means, at [`reject::Reject`] for what is refused, and
//! at [`Ingest`] for how the sockets run.

pub mod config;
mod ingest;
mod listener;
mod name;
pub mod protocol;
pub mod reject;
pub mod relabel;
pub mod sink;
pub mod stats;
mod tags;

#[doc(hidden)]
pub mod fuzzing;

pub use config::Config;
pub use ingest::{Addresses, BindError, Handle, Ingest, ReloadError};
pub use name::{NameOptions, canonical};
pub use plumbago_tls::TlsError;
pub use reject::Reject;
pub use relabel::{Relabel, Rules, RulesError};
pub use sink::PointSink;
pub use stats::{Listener, Stats};
