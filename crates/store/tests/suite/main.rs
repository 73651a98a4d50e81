//! The store contract, on the memory store and through the wrappers.
//!
//! One binary, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod conformance;
mod wrappers;
