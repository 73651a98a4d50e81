//! The store on the local disk: the contract, crashes, a full disk, damage.
//!
//! One binary, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod columns;
mod common;
mod conformance;
mod crash;
mod full_disk;
mod maintenance;
mod reads;
mod refusal;
