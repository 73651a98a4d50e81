//! Graphite's HTTP API over the index and the engine, and the admin port beside it.
//!
//! Must not know: CQL, fjall, the command line. Answers are written piece by piece while the client
//! reads, so that a large one costs no memory of its size. Start at [`server::Server`] (a port) and
//! `router` (what it answers); a format is one file under `format`.

mod admin;
#[doc(hidden)]
pub mod bench;
pub mod config;
mod error;
mod format;
pub mod fuzzing;
mod handler;
mod meter;
mod params;
mod router;
pub mod server;
mod state;
mod stream;
mod tagging;
mod tls;

pub use admin::{AdminActions, AdminError, AdminHandles, Readiness};
pub use config::{AdminConfig, Config, Limits, TlsConfig};
pub use server::{BindError, Server};
pub use state::Handles;
pub use tagging::{NoTagging, Tagging, TaggingError};
