//! The spool: the queue on disk, the sender, crashes, damage, and reads.
//!
//! One binary, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod clocks;
mod common;
mod conformance;
mod crash;
mod deferred;
mod queue;
mod queue_crash;
mod queue_damage;
mod sender;
