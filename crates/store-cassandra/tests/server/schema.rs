//! The schema on a real server: `syncdb` creates it, and the check reports damage to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use plumbago_model::{Aggregation, ManualClock, MetricId, Stage, SystemClock};
use plumbago_store::{
    ErrorKind, KeyspaceState, MetadataStore, PointStore, Run, SharedStore, WriteBatch, WriterIdentity,
};
use plumbago_store_cassandra::CassandraStore;
use plumbago_store_cassandra::config::{Config, Indexes};
use plumbago_store_cassandra::layout::Table;
use plumbago_store_cassandra::schema::{Compression, METRICS, Severity};
use plumbago_telemetry::{Registry, with_causes};

use crate::common::{Keyspace, now, tables, uuid};

#[tokio::test(flavor = "multi_thread")]
async fn what_syncdb_makes_passes_the_check() {
    let Some(keyspace) = Keyspace::new("sync") else { return };
    made_and_checked(keyspace).await;
}

pub async fn made_and_checked(mut keyspace: Keyspace) {
    keyspace.config.indexes = Indexes::Sasi;
    keyspace.config.components = 3;
    let store = keyspace.store().await;
    let wanted = tables(&["60s:7d,900s:2y", "1s:60s,60s:1d"]);
    let before = store.check(&wanted).await.unwrap();
    assert_eq!(before.fatal().count(), 2 + 3 + 4, "both keyspaces, three tables of names, four of points");

    let plan = store.plan_sync(&wanted, None).await.unwrap();
    let mut done = 0;
    store.sync(&plan, &mut |_| done += 1).await.unwrap();
    assert_eq!(done, 2 + 3 + 4 + 4 + 2 * 4 + 4);
    let report = store.check(&wanted).await.unwrap();
    assert_eq!(report.differences, []);
    assert!(report.durable_writes && report.features.sasi && report.features.leases);
    assert!(!report.made_by_biggraphite);
    assert_eq!((report.components, report.replicas), (3, 1));
    assert!(report.clock_difference_ms.abs() < 60_000);
    // A second run has nothing to do, even if the settings have another number of components.
    keyspace.config.components = 64;
    let plan = keyspace.store().await.plan_sync(&wanted, None).await.unwrap();
    assert_eq!((plan.statements, plan.differences), (vec![], vec![]));
    assert_eq!(plan.notes.len(), 1);

    commit_log_is_followed(&store, &keyspace).await;
    a_table_created_again_is_noticed(&store, &keyspace, &wanted).await;
    compression_is_chosen(&store, &keyspace).await;
    differences_are_weighed(&store, &keyspace).await;
    keyspace.drop().await;
}

/// An operator switches the commit log off and on again.
async fn commit_log_is_followed(store: &CassandraStore, keyspace: &Keyspace) {
    assert!(keyspace_state(store).await.keeps_commit_log);
    let session = keyspace.session().await;
    for keeps in [false, true] {
        let name = &keyspace.config.keyspace;
        let text = format!("ALTER KEYSPACE \"{name}\" WITH durable_writes = {keeps}");
        session.query_unpaged(text, ()).await.unwrap();
        assert_eq!(keyspace_state(store).await.keeps_commit_log, keeps);
    }
}

/// An operator drops the table for names and runs `syncdb`.
async fn a_table_created_again_is_noticed(
    store: &CassandraStore,
    keyspace: &Keyspace,
    wanted: &BTreeSet<Table>,
) {
    let before = keyspace_state(store).await.names_created_us;
    assert!(before.is_some());
    assert_eq!(store.check(wanted).await.unwrap().names_created_us, before);
    let text = format!("DROP TABLE \"{}\".{METRICS}", keyspace.config.metadata_keyspace());
    keyspace.session().await.query_unpaged(text, ()).await.unwrap();
    assert_eq!(keyspace_state(store).await.names_created_us, None);
    let plan = store.plan_sync(wanted, None).await.unwrap();
    store.sync(&plan, &mut |_| ()).await.unwrap();
    let after = keyspace_state(store).await.names_created_us;
    assert!(after.is_some() && after != before);
    assert_eq!(store.check(wanted).await.unwrap().names_created_us, after);
}

async fn keyspace_state(store: &CassandraStore) -> KeyspaceState {
    store.keyspace_state().await.unwrap().unwrap()
}

/// A new table gets the chosen compression, and the server accepts the statements that change existing
/// tables.
async fn compression_is_chosen(store: &CassandraStore, keyspace: &Keyspace) {
    let wanted = tables(&["60s:7d,900s:2y", "10s:1d"]);
    if store.live_schema().await.unwrap().server.version < (4, 0) {
        let refused = store.plan_sync(&wanted, Some(Compression::Zstd)).await.unwrap_err();
        assert!(refused.source.as_ref().unwrap().to_string().contains("no Zstd"), "{refused:?}");
        return;
    }
    let plan = store.plan_sync(&wanted, Some(Compression::Zstd)).await.unwrap();
    assert_eq!((plan.statements.len(), plan.compression_changes.len()), (1, 2));
    store.sync(&plan, &mut |_| {}).await.unwrap();
    let session = keyspace.session().await;
    for text in plan.compression_changes {
        session.query_unpaged(text, ()).await.unwrap();
    }
    let plan = store.plan_sync(&wanted, Some(Compression::Zstd)).await.unwrap();
    assert_eq!((plan.statements, plan.compression_changes), (vec![], vec![]));
    let plan = store.plan_sync(&wanted, Some(Compression::Lz4)).await.unwrap();
    assert_eq!(plan.compression_changes.len(), 3);
    assert!(store.check(&wanted).await.unwrap().differences.is_empty());
}

async fn differences_are_weighed(store: &CassandraStore, keyspace: &Keyspace) {
    let (name, metadata) = (&keyspace.config.keyspace, keyspace.config.metadata_keyspace());
    let session = keyspace.session().await;
    for text in [
        format!("ALTER TABLE \"{name}\".datapoints_10080p_60s_0 ADD note text"),
        format!("ALTER TABLE \"{name}\".datapoints_10080p_60s_0 WITH default_time_to_live = 99"),
        format!("ALTER TABLE \"{name}\".datapoints_60p_1s_0 DROP value"),
        format!("DROP TABLE \"{name}\".datapoints_70080p_900s_aggr"),
        format!("DROP INDEX \"{metadata}\".metrics_component_1_idx"),
        format!("DROP TABLE \"{metadata}\".plumbago_leases"),
    ] {
        session.query_unpaged(text, ()).await.unwrap();
    }
    let wanted = tables(&["60s:7d,900s:2y", "1s:60s,60s:1d"]);
    let report = store.check(&wanted).await.unwrap();
    let found: Vec<(Severity, &str)> =
        report.differences.iter().map(|d| (d.severity, d.table.as_str())).collect();
    assert_eq!(
        found,
        [
            (Severity::Fatal, "datapoints_60p_1s_0"),
            (Severity::Fatal, "datapoints_70080p_900s_aggr"),
            (Severity::Feature, "metrics"),
            (Severity::Feature, "plumbago_leases"),
            (Severity::Harmless, "datapoints_10080p_60s_0"),
            (Severity::Harmless, "datapoints_10080p_60s_0"),
        ],
        "{:?}",
        report.differences
    );
    assert!(!report.features.sasi && !report.features.leases && report.features.changes);
    assert!(store.take_lease("x", "here", std::time::Duration::from_secs(9)).await.is_err());
    // A table with a harmless difference can be written, one with a fatal difference cannot.
    store.write(&point(0, Stage { resolution: 60, points: 10_080 }, 1)).await.unwrap();
    let error = store.write(&point(0, Stage { resolution: 1, points: 60 }, 1)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.source.as_ref().unwrap().to_string().contains("column value is missing"), "{error:?}");
    // Missing tables are created again; tables that differ are only reported.
    let plan = store.plan_sync(&wanted, None).await.unwrap();
    assert_eq!(plan.statements.len(), 3);
    assert_eq!(plan.differences.len(), 3);
}

/// A batch with one point, `ago` slots before now.
fn point(stage_index: u8, stage: Stage, ago: u32) -> WriteBatch {
    let run = Run {
        id: MetricId::of("a"),
        stage,
        stage_index,
        aggregation: Aggregation::Average,
        first_slot: stage.slot(now()) - ago,
        len: 0,
        at: 0,
        whole: false,
    };
    let mut batch = WriteBatch::default();
    batch.push(run, &[1.0], None);
    batch
}

/// If a stage is longer than the server can keep rows, rows are kept as long as possible. As time passes, no
/// write is refused and no difference is reported.
pub async fn nothing_expires_after_2038(keyspace: Keyspace) {
    let years = Stage { resolution: 86_400, points: 15 * 365 };
    let wanted = tables(&["60s:1d,1d:15y"]);
    keyspace.sync(&keyspace.store().await, &["60s:1d,1d:15y"]).await;
    // The limit comes closer with every second, and clocks differ.
    for difference in [0, -300, 300, 5 * 86_400] {
        let clock = ManualClock::at(i64::from(now()) + difference);
        let store = keyspace.store_at(WriterIdentity::new(0, 800), clock, &Registry::new()).await;
        assert_eq!(store.check(&wanted).await.unwrap().differences, [], "{difference} s");
        for ago in [1, 3650] {
            store.write(&point(1, years, ago)).await.unwrap();
        }
    }
    let session = keyspace.session().await;
    let table = format!("\"{}\".datapoints_5475p_86400s_aggr", keyspace.config.keyspace);
    let text = format!("SELECT TTL(value) FROM {table}");
    let rows = session.query_unpaged(text, ()).await.unwrap().into_rows_result().unwrap();
    let mut ttls: Vec<i32> = rows.rows::<(i32,)>().unwrap().map(|row| row.unwrap().0).collect();
    ttls.sort_unstable();
    let days = ttls.iter().map(|ttl| ttl / 86_400).collect::<Vec<_>>();
    let until_2038 = (2_147_483_646 - now() as i32) / 86_400;
    assert!(
        (1815..=1825).contains(&days[0]) && (until_2038 - 10..=until_2038).contains(&days[1]),
        "{days:?}"
    );
    let text = format!(
        "INSERT INTO {table} (metric, time_start_ms, offset, shard, value) VALUES ({}, 0, 0, 0, 1.0) \
         USING TTL {}",
        uuid(),
        15 * 365 * 86_400
    );
    let refused = session.query_unpaged(text, ()).await.unwrap_err().to_string();
    assert!(refused.contains("expiration"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_make_the_tables_at_once_make_the_same() {
    let Some(keyspace) = Keyspace::new("race") else { return };
    let stores = [keyspace.store().await, keyspace.store().await];
    let wanted = tables(&["60s:7d,900s:2y"]);
    let (a, b) = tokio::join!(stores[0].plan_sync(&wanted, None), stores[1].plan_sync(&wanted, None));
    let (a, b) = (a.unwrap(), b.unwrap());
    let (mut ignore, mut ignore_too) = (|_: &_| {}, |_: &_| {});
    let (x, y) = tokio::join!(stores[0].sync(&a, &mut ignore), stores[1].sync(&b, &mut ignore_too));
    x.unwrap();
    y.unwrap();
    assert_eq!(stores[0].check(&wanted).await.unwrap().differences, []);
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_no_error_at_the_start() {
    // An unused loopback address and a port on which nothing listens.
    let config = Config { contact_points: vec!["127.255.255.254:1".to_owned()], ..Config::default() };
    let store =
        CassandraStore::connect(&config, WriterIdentity::new(0, 0), Arc::new(SystemClock), &Registry::new())
            .unwrap();
    assert!(!store.is_up());
    let error = store.get(&["a"]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.to_string().contains("127.255.255.254:1"), "{error}");
    assert!(error.is_transient());
}

#[tokio::test]
async fn files_of_tls_that_cannot_be_read_are_an_error() {
    let mut config = Config::default();
    config.tls.enabled = true;
    config.tls.ca = "/no/such/file".into();
    let connect =
        CassandraStore::connect(&config, WriterIdentity::new(0, 0), Arc::new(SystemClock), &Registry::new());
    let error = connect.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    let text = with_causes(&error);
    assert!(text.contains("/no/such/file"), "{text}");
}
