//! The tables that only Plumbago has. BigGraphite ignores them.

use super::{CompactionWindow, Key, Options, Purpose, TableDef, column};

/// The change feed: tells other daemons which metrics were created and deleted.
pub const CHANGES: &str = "plumbago_changes";
/// The table with the marks of hidden series. Earlier releases listed all tagged series in it.
pub const TAGS: &str = "plumbago_tags";
/// The table with the leases for jobs that only one daemon may run at a time.
pub const LEASES: &str = "plumbago_leases";
/// The table with the registered writer ids.
pub const WRITERS: &str = "plumbago_writers";

/// How many seconds of the change feed go into one partition.
pub const CHANGES_BUCKET_SECONDS: i64 = 60;
/// How long changes are kept, in seconds. A daemon that was away for longer reads all names again.
pub const CHANGES_TTL_SECONDS: u32 = 86_400;

pub(super) fn tables(keyspace: &str) -> Vec<TableDef> {
    let table = |name: &str, comment: &str, columns| TableDef {
        keyspace: keyspace.to_owned(),
        name: name.to_owned(),
        purpose: Purpose::Extra,
        columns,
        options: Options { comment: Some(comment.to_owned()), ..Options::default() },
        indexes: Vec::new(),
    };
    let mut changes = table(
        CHANGES,
        "Names created and deleted, by minute",
        vec![
            column("bucket", "bigint", Key::Partition),
            column("at", "timeuuid", Key::Descending),
            column("deleted", "boolean", Key::None),
            column("names", "frozen<list<text>>", Key::None),
            column("origin", "uuid", Key::None),
        ],
    );
    changes.options.ttl = Some(u64::from(CHANGES_TTL_SECONDS));
    changes.options.window = Some(CompactionWindow::Hours(1));
    changes.options.gc_grace_seconds = Some(10_800);
    let tags = table(
        TAGS,
        "Tagged series, by tag and value",
        vec![
            column("tag", "text", Key::Partition),
            column("value", "text", Key::Partition),
            column("name", "text", Key::Ascending),
            column("id", "uuid", Key::None),
        ],
    );
    let leases = table(
        LEASES,
        "Who does what only one may do",
        vec![
            column("name", "text", Key::Partition),
            column("holder", "uuid", Key::None),
            column("host", "text", Key::None),
        ],
    );
    let writers = table(
        WRITERS,
        "Which writer ids are taken",
        vec![
            column("replica", "smallint", Key::Partition),
            column("writer", "smallint", Key::Ascending),
            column("host", "text", Key::None),
            column("instance", "uuid", Key::None),
            column("since", "timeuuid", Key::None),
        ],
    );
    vec![changes, tags, leases, writers]
}
