//! Daemons on one shared store: writers, names, and deletions.
//!
//! One binary, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod members;
mod names;
