//! The tables that hold points: one for each stage.

use super::{CompactionWindow, Key, Options, Purpose, TableDef, column};
use crate::layout::{PARTITION_SLOTS, Table};

/// How long tombstones are kept, in seconds, as in BigGraphite's tables.
const GC_GRACE_SECONDS: u32 = 86_400;
/// How long points may stay in a memtable, in milliseconds, as in BigGraphite's tables. It bounds what a
/// crashed server loses from a keyspace without a commit log.
const FLUSH_PERIOD_MS: u32 = 900_000;

pub(super) fn table(keyspace: &str, table: Table, ttl_limit: u64) -> TableDef {
    let mut columns = vec![
        column("metric", "uuid", Key::Partition),
        column("time_start_ms", "bigint", Key::Partition),
        column("offset", "smallint", Key::Descending),
    ];
    if table.coarse {
        columns.push(column("shard", "smallint", Key::Ascending));
        columns.push(column("count", "smallint", Key::None));
    }
    columns.push(column("value", "double", Key::None));
    TableDef {
        keyspace: keyspace.to_owned(),
        name: table.name(),
        purpose: Purpose::Points(table),
        columns,
        options: Options {
            comment: Some(comment(table)),
            ttl: Some(table.ttl().min(ttl_limit)),
            window: Some(window(table)),
            gc_grace_seconds: Some(GC_GRACE_SECONDS),
            flush_period_ms: Some(FLUSH_PERIOD_MS),
            compression: None,
        },
        indexes: Vec::new(),
    }
}

/// The table comment. BigGraphite's command line reads the stage from it, so it has to be exactly the
/// text that BigGraphite writes, including the spaces.
fn comment(table: Table) -> String {
    format!(
        r#"{{"created_by": "biggraphite", "schema_version": 0, "stage": "{}", "row_size_ms": {}, "row_size": {PARTITION_SLOTS}.0}}"#,
        table.stage_text(),
        table.partition_ms(),
    )
}

/// The compaction window: a fiftieth of the TTL, but at most the time span of a partition (or one hour, if
/// that is longer).
pub(super) fn window(table: Table) -> CompactionWindow {
    let partition = u64::from(PARTITION_SLOTS) * u64::from(table.stage.resolution);
    let seconds = (table.ttl() / 50).min(partition.max(3600));
    if seconds > 86_400 {
        CompactionWindow::Days((seconds / 86_400).max(1))
    } else {
        CompactionWindow::Hours((seconds / 3600).max(1))
    }
}
