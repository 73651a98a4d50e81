//! The endpoint for peers: other daemons on the same store read points here that are not stored yet, and events.

use std::fmt::Debug;

use plumbago_boxed_futures::boxed_futures;

use crate::error::AdminError;

/// Path on the admin port at which peers read points that are not stored yet, and events.
pub const HEADS_PATH: &str = "/admin/heads";

/// Largest request body, in bytes: room for the names of tens of thousands of metrics.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Returns what only this process has: points that it has accepted but not yet written to the shared store, and events.
#[boxed_futures]
pub trait PeerHeads: Send + Sync + Debug {
    /// Answers the request of a peer. `plumbago_cluster::peers::wire` defines the encoding of the request
    /// and of the returned response.
    ///
    /// # Errors
    ///
    /// `AdminError` if the request is malformed or of another version, the store is not shared, or the points in
    /// memory are incomplete because the journal is being replayed.
    async fn pending(&self, message: &[u8]) -> Result<Vec<u8>, AdminError>;
}
