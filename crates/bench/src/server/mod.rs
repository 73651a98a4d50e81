//! The server that is measured: its metrics, its process, and a daemon that is started for the measurement.

mod daemon;
mod idle;
mod metrics;
pub(crate) mod process;

pub use daemon::Daemon;
pub use idle::{Idle, Server};
pub use metrics::Metrics;
pub(crate) use metrics::{HELD, JOURNALED, RECEIVED};
