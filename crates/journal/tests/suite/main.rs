//! The journal through its public interface: replay, crashes, a full disk, damage, the old format.
//!
//! One binary, so that it is linked once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod crash;
mod damage;
mod full_disk;
mod journal;
mod old_format;
