//! The store on a real server, which all these tests share: a node of their own, or the one that
//! `PLUMBAGO_TEST_CASSANDRA` names.

#![allow(unreachable_pub, clippy::unwrap_used, reason = "tests")]

mod common;
mod conformance;
mod find;
mod names;
mod older;
mod points;
mod rules;
mod schema;
mod secure;
