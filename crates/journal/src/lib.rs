//! The durable log of accepted points and of the metrics they belong to.
//!
//! Every shard owner appends to a [`JournalWriter`] of its own and hands its frame to the kernel
//! every few milliseconds; after that `kill -9` loses nothing. A background thread syncs, so that
//! power loss takes no more than the sync interval. At start [`Journal::replay`] gives everything
//! back in the order of the sequence numbers. Segments, cut by time, are dropped whole once their
//! points are in the store.
//!
//! Beside it the [`spool`]: finished rows on their way to a remote store, in a database of their own.
//!
//! Must not know: stores, sockets, what a record means to the engine. It keeps no log file of its
//! own making: frames are values in a fjall database. Start at [`Journal`]; the bytes are described
//! in `docs/formats/journal.md` and `docs/formats/spool.md`.

mod background;
pub mod config;
mod database;
pub mod error;
mod format;
pub mod frame;
mod journal;
mod metrics;
mod open;
mod repair;
mod replay;
mod segment;
mod shared;
mod space;
pub mod spool;
mod writer;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use config::{Config, SyncPolicy};
pub use error::JournalError;
pub use journal::Journal;
pub use repair::{Repair, repair};
pub use replay::ReplayReport;
pub use segment::SegmentInfo;
pub use spool::{Spool, SpoolConfig, SpoolError};
pub use writer::JournalWriter;

/// One journaled fact, as [`Journal::replay`] shows it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Record<'a> {
    /// A point that was accepted.
    Point {
        /// Its number; numbers order the records of a shard.
        sequence: u64,
        /// The metric's number, explained by an earlier creation or by the state rows.
        metric: u32,
        /// Seconds since the epoch, resolved when the point was accepted.
        timestamp: u32,
        /// The value.
        value: f64,
    },
    /// From here on `metric` stands for `name`.
    Creation {
        /// Its number.
        sequence: u64,
        /// The metric's number.
        metric: u32,
        /// The sanitised name.
        name: &'a str,
    },
    /// From here on `metric` stands for nothing.
    Removal {
        /// Its number.
        sequence: u64,
        /// The metric's number.
        metric: u32,
    },
}

/// A panic in another thread does not make what a mutex guards here any worse.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
