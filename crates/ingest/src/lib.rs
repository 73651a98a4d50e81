//! Listeners and protocols: turns bytes from sockets into accepted points.
//!
//! Must not know: the engine, stores. Points go to a [`PointSink`], which the binary implements for the
//! engine. Start at [`protocol::line`] for the meaning of a line, at [`relabel`] for what becomes of a received name,
//! at [`reject::Reject`] for the points that are refused, at [`protocol::TCP`] to add a protocol, and at [`Ingest`]
//! for the sockets. [`carbonlink`] is the port on which graphite-web asks for points that are not stored yet; they
//! come from a [`carbonlink::Cache`].

pub mod carbonlink;
pub mod config;
mod http_server;
mod ingest;
mod listener;
mod name;
pub mod protocol;
pub mod reject;
pub mod relabel;
pub mod sink;
pub mod stats;
mod tags;
mod writes;

#[doc(hidden)]
pub mod fuzzing;

pub use config::{Config, Listen};
pub use http_server::{HttpServer, Stream};
pub use ingest::{Addresses, BindError, Handle, Ingest, ReloadError};
pub use name::{NameOptions, canonical};
pub use plumbago_tls::TlsError;
pub use reject::{Reject, Sample};
pub use relabel::{Passage, Post, Relabel, RuleFiles, Rules, RulesError, Step, Taker};
pub use sink::PointSink;
pub use stats::{Listener, Refusal, Stats};
pub use writes::{WriteError, Writes};
