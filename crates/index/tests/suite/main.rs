//! Finding names and tags.
//!
//! One binary, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod find;
mod finder;
mod words;
