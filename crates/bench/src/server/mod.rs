//! The server that is measured: its metrics, its process, and a daemon of our own.

mod daemon;
mod idle;
mod metrics;
pub(crate) mod process;

pub use daemon::Daemon;
pub use idle::{Idle, Server};
pub use metrics::Metrics;
pub(crate) use metrics::{HELD, JOURNALED, RECEIVED};
