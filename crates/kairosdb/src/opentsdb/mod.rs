//! OpenTSDB's lines and bodies, queries and their answers.

mod aggregate;
pub mod answer;
mod body;
mod calendar;
mod downsample;
mod filter;
mod get;
pub(crate) mod line;
mod lookup;
mod merge;
mod parts;
mod put;
mod query;
mod rate;
mod time;

pub use aggregate::{AGGREGATORS, Aggregator};
pub use downsample::{Downsample, Fill};
pub use filter::{Filter, described as filters};
pub use line::{Line, LineFault, Lines, Put};
pub use lookup::Lookup;
pub use put::put;
pub use query::{Query, Sub};
pub use rate::RateOptions;
