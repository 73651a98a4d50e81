//! Rules of good schema design (numbered C1 to C16), checked on our tables and statements. They follow
//! the article "Schema in Cassandra 1.1". Three rules are covered elsewhere: the check at the start (C15) in
//! `schema.rs`, no tombstones for unused columns (C8) in `names.rs`, and how long ALTER takes (C7) is
//! measured in `tests/tests/figures/points.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plumbago_model::{Aggregation, MetricId, Stage};
use plumbago_store::{PointStore, ReadRequest, RowCount, Run, SlotRange, WriteBatch};
use plumbago_store_cassandra::layout::Table;
use plumbago_store_cassandra::schema::{Key, Purpose, Schema};
use plumbago_store_cassandra::statements::{Names, Points};
use plumbago_store_cassandra::{CassandraStore, Config};

use crate::common::{Keyspace, now, tables};

fn schema() -> Schema {
    Schema::new(&Config::default(), &tables(&["1s:1d,60s:7d,1h:1y", "60s:7d,15m:2y"]), 1_795_000_000)
}

fn points() -> Vec<Points> {
    let all = tables(&["1s:1d,60s:7d,1h:1y"]);
    all.into_iter().map(|table: Table| Points::new("k", table)).collect()
}

/// The texts of all statements that read and write data, except the searches by SASI.
fn statements() -> Vec<String> {
    let mut all = Names::new("k_metadata").all();
    for points in points() {
        all.extend([points.insert, points.insert_late, points.any, points.delete]);
        all.extend([points.select, points.select_timed]);
    }
    all
}

#[test]
fn c1_ids_need_nobody() {
    let schema = schema();
    for (table, column) in schema.tables.iter().flat_map(|t| t.columns.iter().map(move |c| (t, c))) {
        assert_ne!(column.cql_type, "counter", "{}", table.name);
        if column.name == "metric" || column.name == "id" {
            assert_eq!(column.cql_type, "uuid", "{}", table.name);
        }
    }
    for text in statements() {
        assert!(!text.contains(" IF ") || text.contains("plumbago_leases"), "{text}");
    }
}

#[test]
fn c2_c4_points_are_keyed_and_ordered_as_they_are_read() {
    for table in schema().tables.iter().filter(|table| matches!(table.purpose, Purpose::Points(_))) {
        let partition: Vec<&str> = table.partition_key().map(|column| column.name.as_str()).collect();
        assert_eq!(partition, ["metric", "time_start_ms"]);
        let clustering: Vec<(&str, Key)> =
            table.clustering_key().map(|column| (column.name.as_str(), column.key)).collect();
        let mut wanted = vec![("offset", Key::Descending)];
        if table.name.ends_with("_aggr") {
            wanted.push(("shard", Key::Ascending));
        }
        assert_eq!(clustering, wanted, "{}", table.name);
    }
    assert!(statements().iter().all(|text| !text.contains("ORDER BY")));
}

#[test]
fn c3_a_read_is_one_part_of_one_partition() {
    for points in points() {
        for text in [points.select, points.select_timed] {
            let condition = "WHERE metric = ? AND time_start_ms = ? AND offset >= ? AND offset < ?";
            assert!(text.ends_with(condition), "{text}");
        }
    }
}

#[test]
fn c9_c11_types_say_what_they_hold() {
    for table in &schema().tables {
        for column in &table.columns {
            assert!(!column.cql_type.contains("blob"), "{} {}", table.name, column.name);
            if column.name.ends_with("_on") || column.name == "at" || column.name == "since" {
                assert_eq!(column.cql_type, "timeuuid", "{} {}", table.name, column.name);
            }
        }
    }
    let schema = schema();
    let changes = schema.table("biggraphite_metadata", "plumbago_changes").unwrap();
    assert_eq!(
        changes.clustering_key().map(|c| (c.name.as_str(), c.key)).collect::<Vec<_>>(),
        [("at", Key::Descending)]
    );
}

/// Every statement has the whole partition key or a range of tokens. The only exception is listed.
#[test]
fn c10_every_request_knows_its_partition() {
    let schema = schema();
    let mut exceptions = BTreeSet::new();
    for text in statements() {
        assert!(!text.contains("ALLOW FILTERING") && !text.contains(" IN ("), "{text}");
        let table = schema
            .tables
            .iter()
            .filter(|table| text.contains(&format!(".\"{}\"", table.name)))
            .max_by_key(|table| table.name.len())
            .unwrap_or_else(|| panic!("{text} is about one of our tables"));
        let knows = table.partition_key().all(|column| {
            let name = &column.name;
            text.starts_with("INSERT")
                && (text.contains(&format!("({name},")) || text.contains(&format!(" {name},")))
                || text.contains(&format!("{name} = ?"))
                || text.contains(&format!("token({name}) >= ?"))
        });
        if !knows {
            exceptions.insert(text);
        }
    }
    // The clean-up of directories uses a SASI index to find a metric below a directory.
    let exceptions: Vec<String> = exceptions.into_iter().collect();
    assert_eq!(exceptions, ["SELECT name FROM \"k_metadata\".\"metrics\" WHERE parent LIKE ? LIMIT 1"]);
}

#[test]
fn c16_rows_expire_by_their_table() {
    for text in statements().iter().filter(|text| text.contains("TTL ?")) {
        let late = text.contains("datapoints_") && text.starts_with("INSERT");
        assert!(late || text.contains("plumbago_leases"), "{text}");
    }
    for table in schema().tables.iter().filter(|table| matches!(table.purpose, Purpose::Points(_))) {
        assert!(table.options.ttl.is_some_and(|ttl| ttl > 0), "{}", table.name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_c6_tables_can_grow_while_they_are_used() {
    let Some(keyspace) = Keyspace::new("rules") else { return };
    let store = keyspace.store().await;
    keyspace.sync(&store, &["60s:1d,1h:30d"]).await;
    let live = store.live_schema().await.unwrap();
    assert!(live.tables.len() > 6);
    for ((_, name), table) in &live.tables {
        assert_eq!(table.flags, ["compound"], "{name}");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let busy = tokio::spawn(write_and_read(store.clone(), stop.clone()));
    let session = keyspace.session().await;
    let name = &keyspace.config.keyspace;
    for table in ["datapoints_1440p_60s_0", "datapoints_720p_3600s_aggr"] {
        for column in ["note", "origin"] {
            session
                .query_unpaged(format!("ALTER TABLE \"{name}\".{table} ADD {column} text"), ())
                .await
                .unwrap();
        }
    }
    stop.store(true, Ordering::Relaxed);
    assert!(busy.await.unwrap() > 10);
    keyspace.drop().await;
}

/// Writes and reads back until `stop` is set. Any error fails the test.
async fn write_and_read(store: CassandraStore, stop: Arc<AtomicBool>) -> u32 {
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) || rounds < 20 {
        let mut batch = WriteBatch::default();
        let mut request = ReadRequest::default();
        for (stage_index, resolution, points) in [(0, 60, 1440), (1, 3600, 720)] {
            let stage = Stage { resolution, points };
            let first_slot = stage.slot(now()) - 5;
            let run = Run {
                id: MetricId::of(&format!("busy.{}", rounds % 7)),
                stage,
                stage_index,
                aggregation: Aggregation::Sum,
                first_slot,
                len: 0,
                at: 0,
                whole: false,
            };
            batch.push(run, &[f64::from(rounds); 3], Some(&[RowCount::new(3); 3]));
            let aggregation = run.aggregation;
            let (from, until) = (first_slot, first_slot + 3);
            request.ranges.push(SlotRange { id: run.id, stage, stage_index, aggregation, from, until });
        }
        store.write(&batch).await.unwrap();
        for column in store.read(&request).await.unwrap() {
            assert_eq!(column.values, [f64::from(rounds); 3]);
        }
        rounds += 1;
    }
    rounds
}
