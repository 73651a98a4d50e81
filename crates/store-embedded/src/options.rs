//! How fjall is set up for each kind of keyspace, by what is done with its rows.

use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, CompressionPolicy, FilterPolicy, PartitioningPolicy, RestartIntervalPolicy,
};
use fjall::{CompressionType, KeyspaceCreateOptions};

/// Memtables are rotated by us, see `pressure`.
const NEVER: u64 = 1 << 40;

/// Tables that overlap each other before they are merged: each merge costs CPU for every point, each
/// table a few microseconds for a read.
const OVERLAPPING_TABLES: u8 = 8;

/// Blocks of points that flushes write: read by range, so a filter would serve nobody. The values do
/// not compress any more, but what fjall puts between them does, by a tenth of the whole.
pub(crate) fn fresh() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(4 << 10))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(32))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::disabled())
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(OVERLAPPING_TABLES)))
}

/// Long blocks, written once: two kilobytes each, compressed already.
pub(crate) fn merged() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(8 << 10))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(8))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
        .expect_point_read_hits(true)
}

/// State rows: rewritten all the time, read only by a scan at start.
pub(crate) fn state() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(OVERLAPPING_TABLES)))
}

/// Names: looked up one by one and scanned in order; names of neighbours are much alike. Filters and
/// indexes are in parts: whole ones are a megabyte per table, and once the cache did not hold them all
/// (at 6 million names) every look-up read one from disk.
pub(crate) fn names() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .filter_block_partitioning_policy(PartitioningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(true))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
}

/// A few rows.
pub(crate) fn small() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(NEVER)
}
