//! fjall's options for each kind of keyspace.

use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, CompressionPolicy, FilterPolicy, PartitioningPolicy, RestartIntervalPolicy,
};
use fjall::{CompressionType, KeyspaceCreateOptions};

/// A size that is never reached: fjall must not rotate memtables, because `plumbago_fjall_host::pressure`
/// does this.
const NEVER: u64 = 1 << 40;

/// How many overlapping tables are left unmerged. Each merge needs processor time for every point; each table
/// adds a few microseconds to a read.
const OVERLAPPING_TABLES: u8 = 8;

/// Options for blocks of points as flushes write them. They are read by range, so filters would be useless.
/// The values are already compressed; lz4 still saves a tenth of fjall's overhead around them.
pub(crate) fn fresh() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(4 << 10))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(32))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::disabled())
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(OVERLAPPING_TABLES)))
}

/// Options for long blocks, which are written once, have about two kilobytes each, and are already
/// compressed.
pub(crate) fn merged() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(8 << 10))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(8))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
        .expect_point_read_hits(true)
}

/// Options for state rows, which are rewritten all the time and read only by a scan at the start.
pub(crate) fn state() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_compression_policy(CompressionPolicy::disabled())
        .filter_policy(FilterPolicy::disabled())
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(OVERLAPPING_TABLES)))
}

/// Options for names, which are looked up one by one and scanned in order. Neighbouring names are similar.
/// Filters and indexes are partitioned: unpartitioned ones use a megabyte per table. With 6 million names or
/// more the cache could not hold them, so that every look-up read one from the disk.
pub(crate) fn names() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .filter_block_partitioning_policy(PartitioningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(true))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
}

/// Options for the copy of the names, which is written together with them and rarely read, always in order.
pub(crate) fn names_copy() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .max_memtable_size(NEVER)
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::disabled())
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(OVERLAPPING_TABLES)))
}

/// Options for a keyspace with few rows.
pub(crate) fn small() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(NEVER)
}
