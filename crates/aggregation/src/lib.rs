//! Folds accepted points into other metrics by carbon's aggregation rules, as carbon-aggregator does in front of
//! carbon-cache.
//!
//! A point goes from [`Aggregation::feed`] through the [`matcher`] into the open intervals of a group of
//! [`buffers`], and as one record into its own [`log`], from which a start restores the intervals. Buffers that
//! get the same points share their intervals: they are a cohort. A task computes the values and gives them to a
//! [`Derived`]. These points never become input of the rules.
//!
//! Must not know: the engine, stores, listeners, the configuration file. Start at [`Aggregation`]. The reasons are in
//! `docs/decisions/aggregation.md`.

mod aggregation;
mod buffers;
mod config;
mod filter;
mod groups;
mod interval;
mod log;
mod matcher;
mod restore;
mod stats;
mod task;

pub use aggregation::{Aggregation, AggregationParts, Fed, OpenError};
pub use config::Config;
pub use stats::{Balance, CONDITIONS};
pub use task::Derived;
