//! The JSON output of `plumbago syncdb` and `plumbago schema`.

use plumbago_store_cassandra::schema::{Difference, LiveSchema, Schema, Severity};
use plumbago_store_cassandra::{Report, SyncPlan};
use serde_json::{Map, Value, json};

use super::{describe, server_name};

/// The object of `syncdb`. In a dry run it has no `report`.
pub(super) fn sync(plan: &SyncPlan, made: &[String], report: Option<&Report>) -> Value {
    let statements: Vec<&str> = plan.statements.iter().map(|statement| statement.cql.as_str()).collect();
    let mut object = json!({
        "server": server_name(plan.server),
        "dry_run": report.is_none(),
        "statements": statements,
        "made": made,
        "notes": plan.notes,
        "compression_changes": plan.compression_changes,
    });
    let differences = report.map_or(&plan.differences, |report| &report.differences);
    object["differences"] = differences.iter().map(difference).collect();
    object
}

/// The object of `schema`.
pub(super) fn schema(live: &LiveSchema, keyspaces: &[String; 2], wanted: &Schema, report: &Report) -> Value {
    let found: Map<String, Value> =
        keyspaces.iter().map(|name| (name.clone(), keyspace(live, name))).collect();
    let needed = wanted
        .tables
        .iter()
        .map(|table| json!({ "keyspace": table.keyspace, "table": table.name, "for": describe(table) }));
    json!({
        "server": server_name(live.server),
        "keyspaces": found,
        "needed": needed.collect::<Vec<Value>>(),
        "differences": report.differences.iter().map(difference).collect::<Vec<Value>>(),
        "unusable": report.fatal().count(),
    })
}

/// A keyspace of the server; null if there is none.
fn keyspace(live: &LiveSchema, name: &str) -> Value {
    let Some(keyspace) = live.keyspaces.get(name) else { return Value::Null };
    let tables = live.tables.iter().filter(|((of, _), _)| of == name);
    let tables = tables.map(|((_, table), found)| {
        let indexes = live.indexes.iter().filter(|i| i.keyspace == *name && i.table == *table).count();
        (table.clone(), json!({ "columns": found.columns.len(), "indexes": indexes, "ttl": found.ttl }))
    });
    json!({
        "replication": keyspace.replication,
        "durable_writes": keyspace.durable_writes,
        "tables": tables.collect::<Map<String, Value>>(),
    })
}

fn difference(difference: &Difference) -> Value {
    let severity = match difference.severity {
        Severity::Harmless => "harmless",
        Severity::Feature => "feature",
        Severity::Fatal => "unusable",
    };
    json!({
        "keyspace": difference.keyspace,
        "table": difference.table,
        "severity": severity,
        "what": difference.what,
    })
}
