//! Asks other Graphite servers over HTTP, for the imports of `plumbago_maintenance`.
//!
//! Must not know: stores, the engine, the command line. Start at [`Client`]: `address` parses addresses,
//! `http` sends requests and repeats them, `answers` parses the responses.

mod address;
mod answers;
mod http;
mod source;

pub use address::split_user;
pub use source::Client;
