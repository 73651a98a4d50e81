//! The error type of this crate.

use std::io;

use plumbago_store::{FetchError, StoreError};

/// Why joining the cluster, following its changes, or tagging a series failed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The shared store or the local copy of the names failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine did not answer, because it is shutting down.
    #[error(transparent)]
    Engine(#[from] FetchError),
    /// The file `writer-id` in the data directory cannot be read or written.
    #[error("cannot read or write the file writer-id in data_dir")]
    WriterFile(#[from] io::Error),
    /// Every writer id of the replica belongs to another instance. The value is the number of the replica.
    #[error(
        "no writer id of replica {0} is free: other instances have all of them, see the table plumbago_writers; \
         an unused id becomes free again after some days"
    )]
    NoFreeWriter(u8),
    /// So many series are already hidden that no more can be hidden. The value is the maximum.
    #[error(
        "{0} series are hidden already, and no more can be hidden; the clean-up (maintenance.expire_after) \
         deletes those that receive no points"
    )]
    TooManyHidden(usize),
}
