//! Other daemons on the same store: what they have accepted and not written yet is asked of their admin
//! ports and merged into reads.
//!
//! Must not know: stores, what the answers are merged with. The messages are in [`wire`], pure; who asks
//! is a [`Client`].

mod client;
mod config;
mod connect;
pub mod wire;

pub use client::Client;
pub use config::Config;
pub use connect::TlsError;

/// Where the admin port of a daemon answers.
pub const PATH: &str = "/admin/heads";
