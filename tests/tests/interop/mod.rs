//! Beside the real BigGraphite on a real Cassandra: what one writes, the other reads, lists and finds.
//!
//! Mostly the store is used as a library, which sees single rows; the tests in `daemon` are of the
//! built daemon.

pub(crate) mod beside;
mod daemon;
mod fixture;
pub(crate) mod globs;
mod names;
pub(crate) mod points;
mod recorded;
