//! Graphite's HTTP API over the index and the engine, and the admin port beside it.
//!
//! Must not know: CQL, fjall, the command line. Answers are written piece by piece while the client
//! reads, so that a large one costs no memory of its size. Start at [`server::Server`] (a port) and
//! `router` (what it answers); a format is one file under `format`.

mod admin;
#[doc(hidden)]
pub mod bench;
mod cache;
pub mod config;
mod error;
mod events;
mod finder;
mod format;
pub mod fuzzing;
mod handler;
mod memory;
mod metadata;
mod meter;
mod params;
mod peer_heads;
mod router;
pub mod server;
mod state;
mod stream;
mod tagging;

pub use admin::{AdminActions, AdminError, AdminHandles, Readiness};
pub use config::{AdminConfig, CacheConfig, Config, Limits, PortLimits, TlsConfig};
pub use events::EventLog;
pub use finder::{FinderError, NameFinder};
pub use metadata::{Metadata, MetadataError, NoMetadata};
pub use peer_heads::PeerHeads;
pub use plumbago_tls::{Certificates, TlsError};
pub use server::{BindError, Server};
pub use state::Handles;
pub use tagging::{NoTagging, Tagging, TaggingError};
