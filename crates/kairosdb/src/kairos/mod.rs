//! KairosDB's REST protocol.

mod body;

pub use body::datapoints;
