//! The listeners over real sockets.
//!
//! One binary, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod compressed;
mod http;
mod sockets;
mod support;
mod tls;
