//! The content of the store by stage, for the status. The status is requested every few seconds, so this
//! reads no rows and sends no request to a server.

use plumbago_model::{Stage, StorageRules};
use plumbago_store_cassandra::TableInUse;
use plumbago_store_embedded::{StageTables, TableUsage};
use serde_json::{Value, json};

use super::Keeper;

impl Keeper {
    /// Returns the content of the store by stage, as a JSON object. Unknown values are `null`.
    pub(in crate::serve) async fn by_stage(&self, rules: &StorageRules) -> Value {
        match self {
            Self::Embedded(store) => {
                let store = store.clone();
                let usage = tokio::task::spawn_blocking(move || store.table_usage()).await;
                of_tables(usage.ok().flatten())
            }
            Self::Cassandra(cassandra) => {
                let retentions = rules.configs().iter().map(|config| &config.retention);
                let tables = cassandra.store.tables_in_use(retentions);
                json!({
                    "kind": "cassandra",
                    "keyspace": cassandra.store.keyspace(),
                    "stages": tables.iter().map(table).collect::<Value>(),
                })
            }
        }
    }
}

fn of_tables(usage: Option<TableUsage>) -> Value {
    let sum = |bytes: fn(&TableUsage) -> u64| usage.as_ref().map(bytes);
    json!({
        "kind": "embedded",
        "stages": usage.iter().flat_map(|usage| &usage.stages).map(tables).collect::<Value>(),
        "state_bytes": sum(|usage| usage.state_bytes),
        "names_bytes": sum(|usage| usage.metadata_bytes),
        "log_bytes": sum(|usage| usage.log_bytes),
    })
}

fn tables(of: &StageTables) -> Value {
    let mut stage = stage(of.stage, of.coarse);
    stage["blocks"] = json!(of.fresh_rows);
    stage["long_blocks"] = json!(of.merged_rows);
    stage["bytes"] = json!(of.bytes);
    stage["buckets"] = json!(of.buckets);
    stage["since"] = json!(of.since);
    stage
}

fn table(of: &TableInUse) -> Value {
    let mut stage = stage(of.table.stage, of.table.coarse);
    stage["table"] = json!(of.table.name());
    stage["used"] = json!(of.is_used);
    stage["trouble"] = json!(of.trouble);
    stage["rows"] = Value::Null;
    stage["bytes"] = Value::Null;
    stage
}

fn stage(stage: Stage, coarse: bool) -> Value {
    let holds = if coarse { "windows" } else { "raw" };
    json!({"stage": stage.to_string(), "holds": holds, "step": stage.resolution, "slots": stage.points})
}

#[cfg(test)]
mod tests {
    use plumbago_store_cassandra::layout::Table;

    use super::*;

    const WEEK: Stage = Stage { resolution: 60, points: 10_080 };

    #[test]
    fn what_is_not_known_is_null() {
        let closed = of_tables(None);
        assert_eq!((&closed["stages"], &closed["log_bytes"]), (&json!([]), &Value::Null));
        let one = TableInUse { table: Table::new(WEEK, 1), is_used: true, trouble: None };
        let shown = table(&one);
        assert_eq!(shown["stage"], "60s:604800s");
        assert_eq!((&shown["holds"], &shown["used"]), (&json!("windows"), &json!(true)));
        assert_eq!(shown["table"], "datapoints_10080p_60s_aggr");
        assert_eq!(
            (&shown["bytes"], &shown["rows"], &shown["trouble"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
    }

    #[test]
    fn an_embedded_stage_has_its_figures() {
        let one = StageTables {
            stage: WEEK,
            coarse: false,
            buckets: 2,
            since: 86_400,
            fresh_rows: 3,
            merged_rows: 4,
            bytes: 500,
        };
        let usage = TableUsage { stages: vec![one], state_bytes: 1, metadata_bytes: 2, log_bytes: 3 };
        let shown = of_tables(Some(usage));
        let stage = &shown["stages"][0];
        assert_eq!(
            (&stage["holds"], &stage["step"], &stage["slots"]),
            (&json!("raw"), &json!(60), &json!(10_080))
        );
        assert_eq!(
            (&stage["blocks"], &stage["long_blocks"], &stage["bytes"]),
            (&json!(3), &json!(4), &json!(500))
        );
        assert_eq!((&stage["since"], &stage["buckets"]), (&json!(86_400), &json!(2)));
        assert_eq!((&shown["names_bytes"], &shown["log_bytes"]), (&json!(2), &json!(3)));
    }
}
