//! KairosDB's REST protocol: bodies of points, queries and their answers.

mod aggregate;
pub mod answer;
mod body;
mod duration;
mod group;
pub(crate) mod pair;
mod query;
mod time;

pub use aggregate::{Aggregator, Amount, Compare, Fold, Sample, Sampling, Span, Stamp, Threshold};
pub use body::datapoints;
pub use group::GroupBy;
pub use query::{Metric, Query, TagValue};
pub use time::{Duration, Unit};
