//! Tests of pictures: golden files, and random options.
//!
//! One binary, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod any_options;
mod cases;
mod pictures;
