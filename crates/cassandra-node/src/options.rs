//! What a test may want of its nodes.

use crate::release::Release;

/// When a write is in the commit log's file before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitlogSync {
    /// Every write waits for the disk: `kill -9` loses nothing (in durable keyspaces).
    #[default]
    Batch,
    /// The file is synced now and then: `kill -9` loses what was acknowledged just before.
    Periodic,
}

/// How the nodes are set up. The default is what functional tests want.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which Cassandra.
    pub release: Release,
    /// See [`CommitlogSync`].
    pub commitlog_sync: CommitlogSync,
    /// The Java heap of each node.
    pub heap_mib: u32,
    /// Whether SASI indexes may be made; a server as shipped says no.
    pub sasi: bool,
    /// Asks for `cassandra` / `cassandra` and knows permissions.
    pub authentication: bool,
    /// Speaks TLS to clients that want it, with a certificate that [`crate::Node::certificate`] names.
    pub tls: bool,
    /// Refuses expiry dates after January 2038, as servers upgraded from 4.x do; 4.1 always does.
    pub expiry_before_2038: bool,
    /// The quick compiler and the small collector: half the processor time of a start, slow under
    /// load. Off for measurements.
    pub quick: bool,
    /// More lines for `cassandra.yaml`; a key must not be among those already written.
    pub more: Vec<String>,
    /// More arguments for Java.
    pub java: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            release: Release::default(),
            commitlog_sync: CommitlogSync::default(),
            heap_mib: 512,
            sasi: true,
            authentication: false,
            tls: false,
            expiry_before_2038: false,
            quick: true,
            more: Vec::new(),
            java: Vec::new(),
        }
    }
}
