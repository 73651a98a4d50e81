//! Self-metrics (a registry, its instruments and the Prometheus export), what the process uses, and log set-up.
//!
//! Must not know: any term of this project. Start at [`Registry`]: each crate takes a reference to it,
//! registers its instruments once and keeps them in a struct of its own.

pub mod conditions;
pub mod damage;
pub mod instrument;
pub mod line;
pub mod log;
pub mod process;
pub mod registry;

pub use conditions::{Condition, Conditions, Severity};
pub use damage::{DAMAGED_DATA, DAMAGED_TEXT, Damage, Found};
pub use instrument::{Counter, Gauge, Histogram};
pub use line::with_causes;
pub use log::Throttle;
pub use registry::{Registry, Sample};
