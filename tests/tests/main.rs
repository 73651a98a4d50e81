//! The system tests: the built daemon, real senders, real graphite-web, real crashes.
#![allow(clippy::unwrap_used, missing_docs)]

mod oracle_find;
mod oracle_render;
mod scenario;
mod senders;
