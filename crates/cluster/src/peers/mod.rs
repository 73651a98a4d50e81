//! Peers: reads the pending rows of other daemons from their admin ports and merges them into reads.
//!
//! [`wire`] encodes and decodes the messages, without I/O. A [`Client`] sends requests to all peers at once.

mod client;
mod config;
mod connect;
pub mod wire;

pub use client::Client;
pub use config::Config;
pub use plumbago_tls::CaError;
