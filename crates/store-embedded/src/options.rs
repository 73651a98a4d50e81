//! fjall's options for each kind of keyspace.

use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, CompressionPolicy, FilterPolicy, PartitioningPolicy, RestartIntervalPolicy,
};
use fjall::{CompressionType, KeyspaceCreateOptions};

/// fjall must not rotate memtables: `plumbago_fjall_host::pressure` does.
const NEVER: u64 = 1 << 40;

/// How many overlapping tables are left unmerged. Each merge costs CPU for every point, each table a few
/// microseconds per read.
const OVERLAPPING_TABLES: u8 = 8;

/// Blocks of points as flushes write them. They are read by range, so filters would be of no use. The
/// values are compressed already; lz4 still saves a tenth of what fjall stores around them.
pub(crate) fn fresh() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(4 << 10))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(32))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::disabled())
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(OVERLAPPING_TABLES)))
}

/// Long blocks: written once, about two kilobytes each, compressed already.
pub(crate) fn merged() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(8 << 10))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(8))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
        .expect_point_read_hits(true)
}

/// State rows: rewritten all the time, read only by a scan at the start.
pub(crate) fn state() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(OVERLAPPING_TABLES)))
}

/// Names: looked up one by one and scanned in order; neighbouring names are similar. Filters and indexes are
/// partitioned: unpartitioned ones take a megabyte per table. With 6 million names or more the cache could not hold
/// them, so that every look-up read one from the disk.
pub(crate) fn names() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .filter_block_partitioning_policy(PartitioningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(true))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
}

/// The copy of the names: written together with them, and rarely read, then in order.
pub(crate) fn names_copy() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::disabled())
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(OVERLAPPING_TABLES)))
}

/// A keyspace of few rows.
pub(crate) fn small() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(NEVER)
}
