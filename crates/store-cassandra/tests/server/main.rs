//! Tests of the store on a real server that all of them share: a node that they start, or the one that
//! `PLUMBAGO_TEST_CASSANDRA` names.

#![allow(unreachable_pub, clippy::unwrap_used, reason = "tests")]

mod clocks;
mod common;
mod conformance;
mod copies;
mod datacenters;
mod find;
mod levels;
mod names;
mod older;
mod points;
mod ranges;
mod rules;
mod schema;
mod scylla;
mod secure;
mod three_nodes;
