//! The durable log of accepted points and of the metrics they belong to.
//!
//! Each shard appends to its own [`JournalWriter`], which writes its records to a file every few milliseconds. After
//! that, `kill -9` loses none of them. A background thread syncs the files, so power loss costs at most the points of
//! one sync interval. At start, [`Journal::replay`] visits all records in the order of their sequence numbers. The log
//! is divided into segments by time. A whole segment is dropped once all its points are in the store. A clean close
//! leaves a note. With this note, the next open need not read the files.
//!
//! Must not know: stores, sockets, what a record means to the engine. Start at [`Journal`].
//! `docs/formats/journal.md` describes the files, `docs/decisions/journal.md` gives the reasons.

mod again;
mod background;
mod closed;
pub mod config;
mod disk;
pub mod error;
mod files;
mod format;
pub mod frame;
mod journal;
mod legacy;
mod listed;
mod log;
mod metrics;
mod open_log;
mod replay;
mod rewrite;
mod scan;
mod segment;
mod shared;
mod writer;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use again::Position;
pub use config::{Config, SyncPolicy};
pub use error::JournalError;
pub use journal::Journal;
pub use replay::ReplayReport;
pub use segment::SegmentInfo;
pub use shared::Hold;
pub use writer::JournalWriter;

/// A record, as [`Journal::replay`] visits it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Record<'a> {
    /// A point that was accepted.
    Point {
        /// The record's sequence number. Sequence numbers order all records.
        sequence: u64,
        /// The metric's number. Its name is in an earlier creation or in a state row of the store.
        metric: u32,
        /// Seconds since the epoch. A missing timestamp was replaced when the point was accepted.
        timestamp: u32,
        /// The point's value.
        value: f64,
    },
    /// From here on, `metric` is the number of the metric `name`.
    Creation {
        /// The sequence number.
        sequence: u64,
        /// The metric's number.
        metric: u32,
        /// The metric's canonical name.
        name: &'a str,
    },
    /// From here on, `metric` is the number of no metric.
    Removal {
        /// The sequence number.
        sequence: u64,
        /// The metric's number.
        metric: u32,
    },
}

/// Locks a mutex, even if another thread panicked while holding it: the data guarded here is valid between
/// any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
