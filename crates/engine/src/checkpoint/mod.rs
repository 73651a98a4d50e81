//! The checkpoint: one file with all names and heads as they are at a clean stop. With it, neither the stop
//! nor the next start has to go through the store metric by metric. The format is in
//! `docs/formats/checkpoint.md`, the reasons are in `docs/decisions/checkpoint.md`.
//!
//! It is never the only copy of anything: store and journal stay as they are after a `kill -9`. A start uses it only
//! if it fits both of them exactly, and removes it before anything changes.

mod file;
mod header;
mod load;
mod names;
mod save;

use std::hash::{BuildHasher, RandomState};
use std::io;

pub(crate) use file::{CheckpointFile, remove};
pub(crate) use header::{Header, ShardHeader};
pub(crate) use load::{Loaded, load, numbers};
pub(crate) use save::{Content, Saved, save};

/// Why a checkpoint cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file system failed.
    #[error("failed to {0} the checkpoint")]
    File(&'static str, #[source] io::Error),
    /// The file is not a complete checkpoint of this version.
    #[error("the checkpoint is damaged: {0}")]
    Damaged(&'static str),
    /// The index and the shards do not have the same metrics.
    #[error("the index has the names of {names} metrics, and the shards have {metrics} metrics")]
    Names {
        /// The number of names that belong to a metric.
        names: u64,
        /// The number of metrics in the shards.
        metrics: u64,
    },
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] plumbago_store::StoreError),
    /// The journal could not be synced.
    #[error(transparent)]
    Journal(#[from] plumbago_journal::JournalError),
}

/// Returns a stamp that no other checkpoint has.
pub(crate) fn new_stamp() -> [u8; 16] {
    // The keys of `RandomState` are random in each process, and differ from value to value.
    let half = || RandomState::new().hash_one(std::time::SystemTime::now()).to_le_bytes();
    let mut stamp = [0; 16];
    stamp[..8].copy_from_slice(&half());
    stamp[8..].copy_from_slice(&half());
    stamp
}
