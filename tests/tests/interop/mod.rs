//! Beside the real BigGraphite on a real Cassandra: what one writes, the other reads, lists and finds.
//!
//! Here the store is used as a library, without the daemon; the only tests in this crate that know
//! ours.

mod beside;
mod fixture;
mod globs;
mod names;
mod points;
