//! What the system tests share: the built daemon as a process, its counters and answers, real
//! senders, whisper with graphite-web as an oracle, and BigGraphite.
//!
//! Must not know: any crate of the daemon. The tests see what a user sees: the binary, its ports and
//! its files. Only those in `tests/interop/` lay the Cassandra store itself beside BigGraphite.
//!
//! Start with [`daemon`]; the tests are in `tests/tests/`. Failing is a panic here, as in any test.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod answer;
pub mod biggraphite;
pub mod capture;
pub mod child;
pub mod counterpart;
pub mod counters;
pub mod daemon;
pub mod differences;
pub mod fold;
pub mod http;
pub mod json_lines;
pub mod oracle;
pub mod send;
pub mod turn;
pub mod wait;
