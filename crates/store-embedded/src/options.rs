//! How fjall is set up for each kind of keyspace, by what is done with its rows.

use fjall::compaction::Leveled;
use fjall::config::{BlockSizePolicy, CompressionPolicy, FilterPolicy, RestartIntervalPolicy};
use fjall::{CompressionType, KeyspaceCreateOptions};
use std::sync::Arc;

const MEMTABLE_BYTES: u64 = 16 << 20;
const SMALL_MEMTABLE_BYTES: u64 = 4 << 20;

/// Blocks of points that flushes write: read by range, so a filter would serve nobody.
pub(crate) fn fresh() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .data_block_size_policy(BlockSizePolicy::all(8 << 10))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(32))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
        .compaction_strategy(Arc::new(Leveled::default()))
}

/// Long blocks, written once: each is compressed already.
pub(crate) fn merged() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(SMALL_MEMTABLE_BYTES)
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(8))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
        .expect_point_read_hits(true)
}

/// State rows: rewritten all the time, read only by a scan at start.
pub(crate) fn state() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
}

/// Names: looked up one by one and scanned in order; names of neighbours are much alike.
pub(crate) fn names() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
}

/// A few rows.
pub(crate) fn small() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(SMALL_MEMTABLE_BYTES)
}
