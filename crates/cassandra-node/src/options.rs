//! The options of nodes.

use std::path::PathBuf;

use crate::release::Release;

/// When Cassandra syncs its commit log to disk (`commitlog_sync`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommitlogSync {
    /// The log is synced before a write is acknowledged: `kill -9` loses nothing in keyspaces with durable
    /// writes.
    #[default]
    Batch,
    /// The log is synced every ten seconds: `kill -9` loses the writes acknowledged since the last sync.
    Periodic,
}

/// The configuration of all nodes of a cluster. The default suits functional tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The release line of Cassandra.
    pub release: Release,
    /// When the commit log is synced to disk.
    pub commitlog_sync: CommitlogSync,
    /// The Java heap of each node, in MiB.
    pub heap_mib: u32,
    /// Whether SASI indexes can be created. In Cassandra they are off by default.
    pub sasi: bool,
    /// Whether clients must log in (as [`crate::cql::SUPERUSER`] at first) and permissions are checked.
    pub authentication: bool,
    /// Whether TLS is offered to clients, with the certificate at [`crate::Node::certificate`].
    pub tls: bool,
    /// Whether 5.0 refuses expiry dates after January 2038, as a server upgraded from 4.x does. 4.1 and 3.11
    /// always refuse them.
    pub expiry_before_2038: bool,
    /// Whether Java uses only its fast compiler and the serial garbage collector. This halves the CPU time of
    /// a start, but the server is slow under load, so set it to `false` for measurements.
    pub quick: bool,
    /// Whether no node is ever killed or stopped and started again. Such nodes do not write their schema and their
    /// other tables about themselves to disk after each change, which halves the processor time of a new table and
    /// saves a quarter of a start's. A node that is killed would lose its identity.
    pub stays_up: bool,
    /// The data centres of the nodes, assigned in turn; empty if all nodes are in the same unnamed data
    /// centre.
    pub datacenters: Vec<String>,
    /// A node, counted from 0, and a directory on another file system for all its data: tables, commit log
    /// and hints.
    pub disk: Option<(usize, PathBuf)>,
    /// Additional lines for `cassandra.yaml`. They must not repeat a key that this crate writes.
    pub more: Vec<String>,
    /// Additional arguments for Java.
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
            stays_up: false,
            datacenters: Vec::new(),
            disk: None,
            more: Vec::new(),
            java: Vec::new(),
        }
    }
}
