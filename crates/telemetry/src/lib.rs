//! Self-metrics (a registry and its exports) and log set-up.
//!
//! Must not know: any noun of this project. Start at [`registry::Registry`]: every crate takes a
//! reference to it and keeps the handles it registers in a struct of its own.

pub mod log;
pub mod registry;

pub use log::Throttle;
pub use registry::{Counter, Gauge, Registry};
