//! Helpers of tests. For the system tests: the built daemon as a process, its metrics and answers, real
//! senders, whisper and graphite-web as an oracle, and BigGraphite. For the tests of all crates: waiting for
//! a condition ([`wait`]), killing a process ([`crash`]), filling a disk ([`small_disk`]) and
//! running a scenario with several seeds ([`rounds`]).
//!
//! This crate must not depend on any crate of the daemon, because system tests see only what a user sees: the
//! binary, its ports and its files. The exceptions are `tests/interop/`, which compares the Cassandra store
//! with BigGraphite, and `functions/`, which compares the renderer with graphite-web.
//!
//! Start with [`daemon`]. The tests are in `tests/tests/`. Helpers report a failure by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod answer;
pub mod biggraphite;
pub mod browser;
pub mod capture;
pub mod child;
pub mod counterpart;
pub mod counters;
pub mod crash;
pub mod daemon;
pub mod debian;
pub mod differences;
pub mod fold;
pub mod graphite_web;
pub mod guide;
pub mod http;
pub mod json_lines;
pub mod opentsdb;
pub mod oracle;
pub mod own_network;
pub mod power;
pub mod rounds;
pub mod send;
pub mod small_disk;
pub mod wait;
pub mod whisper_files;
