//! Whisper files: Graphite's format for the points of one metric, read and written.
//!
//! A file has a header and, for each stage of the metric's retention, an *archive*: a ring of points of 12 bytes
//! (timestamp, value), all numbers big-endian. The first point of a ring fixes the place of all others. A ring is
//! never cleared, so a slot counts only if its timestamp is the one that belongs there.
//!
//! This crate does no I/O: it converts bytes to values and values to bytes. Start at [`Header`] and
//! [`Ring`], through which a file is read part by part, and at [`write`](write()).
//!
//! This crate must not depend on stores, the engine or tokio.

mod file;
pub mod fuzzing;
mod header;
mod problem;
mod ring;
mod write;

pub use header::{Archive, Header, method_of, number_of};
pub use problem::Problem;
pub use ring::{Points, Ring};
pub use write::{Sparse, WriteProblem, file_bytes, write, write_sparse};

/// Size of a point in bytes: a timestamp and a value.
pub const POINT_BYTES: usize = 12;
