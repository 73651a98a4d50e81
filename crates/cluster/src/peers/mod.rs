//! Peers: reads the pending rows and the events of other daemons from their admin ports.
//!
//! [`wire`] encodes and decodes the messages, without I/O. A [`Client`] sends requests to all peers at once.

mod client;
mod config;
mod connect;
mod peer;
mod trouble;
pub mod wire;

pub use client::Client;
pub use config::Config;
pub use plumbago_tls::CaError;
