//! Whisper files: Graphite's format for the points of one metric, read and written.
//!
//! A file has a header and, for each stage of the metric's retention, an *archive*: a ring of points of 12 bytes
//! (timestamp, value), all numbers big-endian. The first point of a ring fixes the place of all others. A ring is
//! never cleared, so a slot counts only if its timestamp is the one that belongs there.
//!
//! Everything here is pure: bytes in, values or bytes out. Start at [`File`] and [`write`](write()).
//!
//! Must not know: stores, the engine, tokio.

mod file;
pub mod fuzzing;
mod header;
mod problem;
mod write;

pub use file::{File, Points};
pub use header::{Archive, Header, method_of, number_of};
pub use problem::Problem;
pub use write::{Sparse, WriteProblem, file_bytes, write, write_sparse};

/// Bytes of a point: a timestamp and a value.
pub const POINT_BYTES: usize = 12;
