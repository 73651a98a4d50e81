//! BigGraphite's tables for names.

use super::{Index, IndexKind, Key, Options, Purpose, TableDef, column};

/// The table of metrics, with a column for each component of the name.
pub const METRICS: &str = "metrics";
/// The table of directories, with a column for each component of the path.
pub const DIRECTORIES: &str = "directories";
/// The table of metrics' ids, settings and dates.
pub const METADATA: &str = "metrics_metadata";
/// The value of the component column after the last component. It marks the end of the name.
pub const END: &str = "__END__";

pub(super) fn tables(keyspace: &str, components: u32, sasi: bool) -> Vec<TableDef> {
    vec![
        tree(keyspace, METRICS, components, sasi),
        tree(keyspace, DIRECTORIES, components, sasi),
        metadata(keyspace, sasi),
    ]
}

fn tree(keyspace: &str, name: &str, components: u32, sasi: bool) -> TableDef {
    let mut columns = vec![column("name", "text", Key::Partition), column("parent", "text", Key::None)];
    columns.extend((0..components).map(|n| column(format!("component_{n}"), "text", Key::None)));
    let indexed = columns.iter().skip(1).map(|column| index(name, &column.name, IndexKind::Text));
    let indexes = if sasi { indexed.collect() } else { Vec::new() };
    TableDef {
        keyspace: keyspace.to_owned(),
        name: name.to_owned(),
        purpose: Purpose::Names,
        columns,
        options: Options::default(),
        indexes,
    }
}

fn metadata(keyspace: &str, sasi: bool) -> TableDef {
    let indexed = ["id", "created_on", "updated_on", "read_on"];
    let indexes = indexed.map(|name| index(METADATA, name, IndexKind::Sparse));
    TableDef {
        keyspace: keyspace.to_owned(),
        name: METADATA.to_owned(),
        purpose: Purpose::Names,
        columns: vec![
            column("name", "text", Key::Partition),
            column("config", "map<text, text>", Key::None),
            column("created_on", "timeuuid", Key::None),
            column("id", "uuid", Key::None),
            column("read_on", "timeuuid", Key::None),
            column("updated_on", "timeuuid", Key::None),
        ],
        options: Options::default(),
        indexes: if sasi { indexes.to_vec() } else { Vec::new() },
    }
}

fn index(table: &str, column: &str, kind: IndexKind) -> Index {
    Index { name: format!("{table}_{column}_idx"), column: column.to_owned(), kind }
}
