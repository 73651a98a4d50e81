//! The real BigGraphite and our store on a real Cassandra: each reads, lists and finds what the other writes.
//!
//! Most tests use the store as a library, which gives access to single rows. Those in `daemon` run the built
//! daemon.

pub(crate) mod beside;
mod daemon;
mod fixture;
pub(crate) mod globs;
mod names;
pub(crate) mod points;
mod recorded;
