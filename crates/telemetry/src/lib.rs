//! Self-metrics (a registry, its instruments and the Prometheus export) and log set-up.
//!
//! Must not know: any noun of this project. Start at [`Registry`]: each crate takes a reference to it, registers
//! its instruments once and keeps them in a struct of its own.

pub mod conditions;
pub mod instrument;
pub mod log;
pub mod registry;

pub use conditions::{Condition, Conditions};
pub use instrument::{Counter, Gauge, Histogram};
pub use log::Throttle;
pub use registry::Registry;
