//! The system tests: the built daemon, real senders, real graphite-web, real crashes.
#![allow(clippy::unwrap_used, missing_docs)]
