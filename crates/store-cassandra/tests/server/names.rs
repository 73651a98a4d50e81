//! Names on a real server: the same rows as BigGraphite's, the change feed, leases, writer ids.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use plumbago_model::{ManualClock, MetricConfig, MetricId};
use plumbago_store::{
    MetadataStore, MetricMeta, ReadNotes, RowProblem, RowStore, SharedStore, WriteBatch, WriterIdentity,
};
use plumbago_store_cassandra::{CassandraStore, TokenRange, config_from_map};
use plumbago_telemetry::Registry;
use scylla::client::session::Session;
use scylla::statement::unprepared::Statement;
use uuid::Uuid;

use crate::common::{Keyspace, now, tables, uuid};

fn config(retention: &str, method: &str) -> Arc<MetricConfig> {
    let aggregation = method.parse().unwrap();
    Arc::new(MetricConfig { retention: retention.parse().unwrap(), aggregation, x_files_factor: 0.5 })
}

fn metric(name: &str, created_on: u32) -> MetricMeta {
    MetricMeta { name: name.to_owned(), config: config("60s:1d", "p95"), created_on }
}

#[tokio::test(flavor = "multi_thread")]
async fn names() {
    let Some(keyspace) = Keyspace::new("names") else { return };
    everything(keyspace).await;
}

pub async fn everything(keyspace: Keyspace) {
    let store = keyspace.store().await;
    keyspace.sync(&store, &[]).await;
    let session = keyspace.session().await;
    let metadata = keyspace.config.metadata_keyspace();
    rows_are_those_of_biggraphite(&store, &session, &metadata).await;
    nothing_absent_is_written(&store, &session, &metadata).await;
    names_that_cannot_be_kept_do_not_stop_the_others(&store).await;
    partial_rows_are_no_metrics(&store, &session, &metadata).await;
    rows_of_other_programs_are_left(&store, &session, &metadata).await;
    a_metric_that_is_not_listed_is_listed_again(&store, &session, &metadata).await;
    touches_do_not_bring_back_the_dead(&store, &session, &metadata).await;
    parts_of_the_ring_give_everything_once(&store).await;
    let other = keyspace.store().await;
    others_learn_of_changes(&store, &other).await;
    leases_are_held_by_one(&store, &other).await;
    writer_ids_are_taken_once(&store, &other).await;
    writer_ids_come_back(&keyspace, &session, &metadata).await;
    changes_win_after_a_clock_was_ahead(&keyspace, &session, &metadata).await;
    the_table_of_tags_has_only_marks(&store, &session, &metadata).await;
    series_need_no_table_of_tags(&keyspace, &session, &metadata).await;
    keyspace.drop().await;
}

/// The rows are those that the real BigGraphite wrote for the same metrics.
async fn rows_are_those_of_biggraphite(store: &CassandraStore, session: &Session, metadata: &str) {
    let fixture: serde_json::Value =
        serde_json::from_str(include_str!("../fixtures/biggraphite-rows.json")).unwrap();
    let theirs = &fixture["tables"]["biggraphite_metadata"];
    let metrics: Vec<MetricMeta> = theirs["metrics_metadata"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let map: HashMap<String, String> = serde_json::from_value(row["config"].clone()).unwrap();
            let name = row["name"].as_str().unwrap().to_owned();
            MetricMeta { name, config: Arc::new(config_from_map(&map).unwrap()), created_on: now() }
        })
        .collect();
    assert!(metrics.len() >= 9);
    store.create(&metrics).await.unwrap();
    for table in ["metrics", "directories"] {
        for row in theirs[table].as_array().unwrap() {
            let text = format!("SELECT JSON * FROM \"{metadata}\".{table} WHERE name = ?");
            let rows = session.query_unpaged(text, (row["name"].as_str().unwrap(),)).await.unwrap();
            let (ours,): (String,) = rows.into_rows_result().unwrap().first_row().unwrap();
            let ours: serde_json::Value = serde_json::from_str(&ours).unwrap();
            for (column, value) in ours.as_object().unwrap() {
                let wanted = row.get(column).unwrap_or(&serde_json::Value::Null);
                assert_eq!(value, wanted, "{table} {} {column}", row["name"]);
            }
        }
    }
    for row in theirs["metrics_metadata"].as_array().unwrap() {
        let text = format!("SELECT JSON id, config FROM \"{metadata}\".metrics_metadata WHERE name = ?");
        let rows = session.query_unpaged(text, (row["name"].as_str().unwrap(),)).await.unwrap();
        let (ours,): (String,) = rows.into_rows_result().unwrap().first_row().unwrap();
        let ours: serde_json::Value = serde_json::from_str(&ours).unwrap();
        assert_eq!((&ours["id"], &ours["config"]), (&row["id"], &row["config"]), "{}", row["name"]);
    }
}

/// Unused component columns leave no tombstones.
async fn nothing_absent_is_written(store: &CassandraStore, session: &Session, metadata: &str) {
    store.create(&[metric("deep.er.name", 5)]).await.unwrap();
    for table in ["metrics", "directories"] {
        let text = format!("SELECT * FROM \"{metadata}\".{table} WHERE name = ?");
        let mut statement = Statement::new(text);
        statement.set_tracing(true);
        let name = if table == "metrics" { "deep.er.name" } else { "deep.er" };
        let answer = session.query_unpaged(statement, (name,)).await.unwrap();
        let trace = loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            if let Ok(trace) = session.get_tracing_info(&answer.tracing_id().unwrap()).await
                && trace
                    .events
                    .iter()
                    .any(|event| event.activity.as_deref().is_some_and(|a| a.contains("tombstone")))
            {
                break trace;
            }
        };
        let reads: Vec<&str> = trace.events.iter().filter_map(|event| event.activity.as_deref()).collect();
        assert!(reads.iter().any(|read| read.contains("1 live rows and 0 tombstone")), "{table}: {reads:?}");
    }
}

async fn names_that_cannot_be_kept_do_not_stop_the_others(store: &CassandraStore) {
    let deep = ["x"; 12].join(".");
    store.create(&[metric(&deep, 1), metric("bad.__END__.name", 1), metric("good.name", 7)]).await.unwrap();
    let found = store.get(&[&deep, "bad.__END__.name", "good.name"]).await.unwrap();
    assert_eq!(found, [None, None, Some(metric("good.name", 7))]);
}

/// BigGraphite leaves partial rows when it updates a date of a metric that was deleted.
async fn partial_rows_are_no_metrics(store: &CassandraStore, session: &Session, metadata: &str) {
    let text =
        format!("INSERT INTO \"{metadata}\".metrics_metadata (name, updated_on) VALUES ('half.row', now())");
    session.query_unpaged(text, ()).await.unwrap();
    let text = format!(
        "INSERT INTO \"{metadata}\".metrics_metadata (name, id, config) VALUES \
         ('odd.row', 00000000-0000-0000-0000-000000000001, {{'aggregator': 'average'}})"
    );
    session.query_unpaged(text, ()).await.unwrap();
    assert_eq!(store.get(&["half.row", "odd.row"]).await.unwrap(), [None, None]);
    let page = store.scan(None, 10_000).await.unwrap();
    assert!(page.iter().all(|(name, _)| name != "half.row" && name != "odd.row"));
    store.create(&[metric("half.row", 9)]).await.unwrap();
    assert_eq!(store.get(&["half.row"]).await.unwrap(), [Some(metric("half.row", 9))]);
}

/// A row with a configuration that we do not understand is neither deleted nor overwritten.
async fn rows_of_other_programs_are_left(store: &CassandraStore, session: &Session, metadata: &str) {
    let id = Uuid::from_bytes(MetricId::of("their.row").0);
    let text = format!(
        "INSERT INTO \"{metadata}\".metrics_metadata (name, id, config) VALUES \
         ('their.row', {id}, {{'retention': 'for ever'}})"
    );
    session.query_unpaged(text, ()).await.unwrap();
    store.create(&[metric("their.row", 9)]).await.unwrap();
    let row = store.look_up_rows(&["their.row"]).await.unwrap().remove(0).unwrap();
    assert_eq!((row.config, row.problem), (None, None));
    assert_eq!(store.get(&["their.row"]).await.unwrap(), [None]);
}

async fn a_metric_that_is_not_listed_is_listed_again(
    store: &CassandraStore,
    session: &Session,
    metadata: &str,
) {
    store.create(&[metric("lost.row", 9)]).await.unwrap();
    let text = format!("DELETE FROM \"{metadata}\".metrics WHERE name = 'lost.row'");
    session.query_unpaged(text, ()).await.unwrap();
    let row = async || store.look_up_rows(&["lost.row"]).await.unwrap().remove(0).unwrap();
    assert_eq!(row().await.problem, Some(RowProblem::NotListed));
    store.create(&[metric("lost.row", 10)]).await.unwrap();
    assert_eq!((row().await.problem, row().await.created_on), (None, 9));
}

/// Series are not listed by tag. What an earlier release listed stays, and a deletion removes the mark.
async fn the_table_of_tags_has_only_marks(store: &CassandraStore, session: &Session, metadata: &str) {
    let text = format!(
        "INSERT INTO \"{metadata}\".plumbago_tags (tag, value, name, id) VALUES ('dc', 'a', 'old;dc=a', {})",
        uuid()
    );
    session.query_unpaged(text, ()).await.unwrap();
    let rows = async || {
        let text = format!("SELECT tag, name FROM \"{metadata}\".plumbago_tags");
        let rows = session.query_unpaged(text, ()).await.unwrap().into_rows_result().unwrap();
        let mut rows: Vec<(String, String)> = rows.rows().unwrap().map(Result::unwrap).collect();
        rows.sort();
        rows
    };
    let row = |tag: &str, name: &str| (tag.to_owned(), name.to_owned());
    let names = ["old;dc=a", "new;dc=a;host=b"];
    store.create(&names.map(|name| metric(name, 3))).await.unwrap();
    store.hide(&names, 5).await.unwrap();
    assert_eq!(rows().await, [row("!hidden", names[1]), row("!hidden", names[0]), row("dc", names[0])]);
    MetadataStore::delete(store, &names[..1]).await.unwrap();
    store.delete_rows(&names[1..], i64::from(now()) * 2_000_000).await.unwrap();
    assert_eq!(rows().await, [row("dc", names[0])]);
}

/// Tagged series can be created and deleted without the tags table, which BigGraphite's keyspaces lack.
async fn series_need_no_table_of_tags(keyspace: &Keyspace, session: &Session, metadata: &str) {
    session.query_unpaged(format!("DROP TABLE \"{metadata}\".plumbago_tags"), ()).await.unwrap();
    let store = keyspace.store().await;
    store.create(&[metric("cpu;dc=a", 3), metric("cpu.load", 3)]).await.unwrap();
    let found = store.get(&["cpu;dc=a", "cpu.load"]).await.unwrap();
    assert_eq!(found, [Some(metric("cpu;dc=a", 3)), Some(metric("cpu.load", 3))]);
    assert_eq!(store.hidden().await.unwrap(), []);
    store.delete(&["cpu;dc=a"]).await.unwrap();
    assert_eq!(store.get(&["cpu;dc=a"]).await.unwrap(), [None]);
}

async fn touches_do_not_bring_back_the_dead(store: &CassandraStore, session: &Session, metadata: &str) {
    store.create(&[metric("touched", 9), metric("dead", 9)]).await.unwrap();
    store.delete(&["dead"]).await.unwrap();
    let text = format!(
        "SELECT toUnixTimestamp(updated_on) FROM \"{metadata}\".metrics_metadata WHERE name = 'touched'"
    );
    let updated = async || {
        let rows = session.query_unpaged(text.clone(), ()).await.unwrap().into_rows_result().unwrap();
        rows.first_row::<(i64,)>().unwrap().0
    };
    let before = updated().await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let names = ["touched", "dead"];
    let recently = i64::from(now()) - 3600;
    assert_eq!(store.note_written(&names, recently).await.unwrap(), [true, false]);
    assert_eq!(updated().await, before, "it is not due");
    assert_eq!(store.note_written(&names, recently + 7200).await.unwrap(), [true, false]);
    store.note_read(&names).await.unwrap();
    let row = store.look_up_rows(&["touched"]).await.unwrap().remove(0).unwrap();
    assert!(row.read_on.is_some_and(|time| time.abs_diff(now()) < 3600), "{row:?}");
    assert!(updated().await > before);
    let text = format!("SELECT name FROM \"{metadata}\".metrics_metadata WHERE name = 'dead'");
    let rows = session.query_unpaged(text, ()).await.unwrap().into_rows_result().unwrap();
    assert_eq!(rows.rows_num(), 0);
    let text = format!("SELECT read_on FROM \"{metadata}\".metrics_metadata WHERE name = 'touched'");
    let rows = session.query_unpaged(text, ()).await.unwrap().into_rows_result().unwrap();
    assert!(rows.first_row::<(Option<scylla::value::CqlTimeuuid>,)>().unwrap().0.is_some());
}

async fn parts_of_the_ring_give_everything_once(store: &CassandraStore) {
    let metrics: Vec<MetricMeta> = (0..300).map(|n| metric(&format!("ring.m{n}"), n)).collect();
    store.create(&metrics).await.unwrap();
    let mut names = Vec::new();
    for part in TokenRange::split(7) {
        let mut position = None;
        loop {
            let page = store.scan_range(part, position, 20).await.unwrap();
            names.extend(
                page.iter().map(|(name, _)| name.to_owned()).filter(|name| name.starts_with("ring.")),
            );
            position = page.next;
            if position.is_none() {
                break;
            }
        }
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 300);
}

async fn others_learn_of_changes(store: &CassandraStore, other: &CassandraStore) {
    let mut feed = other.change_feed(i64::from(now()));
    let mut own = store.change_feed(i64::from(now()));
    feed.poll().await.unwrap();
    store.create(&[metric("fed.one", 1), metric("fed.two", 1)]).await.unwrap();
    store.create(&[metric("fed.one", 1)]).await.unwrap();
    store.delete(&["fed.two"]).await.unwrap();
    let changes = feed.poll().await.unwrap();
    let fed: Vec<(&str, bool)> = changes
        .names
        .iter()
        .map(|(name, deleted)| (name.as_str(), deleted.is_some()))
        .filter(|(name, _)| name.starts_with("fed."))
        .collect();
    assert_eq!(
        fed,
        [("fed.one", false), ("fed.two", false), ("fed.two", true)],
        "the second creation is no news"
    );
    assert!(!changes.missed);
    let deleted = changes.names.iter().find_map(|(_, deleted)| *deleted).unwrap();
    assert!((i64::from(now()) - 60..=i64::from(now()) + 1).contains(&deleted), "{deleted}");
    assert_eq!(feed.poll().await.unwrap().names, [], "each change once");
    assert_eq!(own.poll().await.unwrap().names, [], "one's own are known");
    store.announce(&["fed.one"]).await;
    assert_eq!(feed.poll().await.unwrap().names, [("fed.one".to_owned(), None)]);
}

async fn leases_are_held_by_one(store: &CassandraStore, other: &CassandraStore) {
    let minute = Duration::from_secs(60);
    let lease = store.take_lease("clean", "here", minute).await.unwrap().unwrap();
    assert!(other.take_lease("clean", "there", minute).await.unwrap().is_none());
    assert!(lease.renew().await.unwrap());
    lease.release().await.unwrap();
    let lease = other.take_lease("clean", "there", Duration::from_secs(1)).await.unwrap().unwrap();
    // The other daemon's lease expires.
    while store.take_lease("clean", "here", minute).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!lease.renew().await.unwrap());
}

async fn writer_ids_are_taken_once(store: &CassandraStore, other: &CassandraStore) {
    let (mine, theirs): (Uuid, Uuid) = (uuid(), uuid());
    let identity = WriterIdentity::new(2, 4096);
    assert!(store.register_writer(identity, mine, "a").await.unwrap());
    assert!(store.register_writer(identity, mine, "a").await.unwrap());
    assert!(!other.register_writer(identity, theirs, "b").await.unwrap());
    assert!(other.register_writer(WriterIdentity::new(2, 4104), theirs, "b").await.unwrap());
    assert!(other.register_writer(WriterIdentity::new(1, 4096), theirs, "b").await.unwrap());
}

/// Makes an id look as if it was registered this long ago.
async fn register_ago(session: &Session, metadata: &str, writer: i16, hours: u32) {
    let text = format!(
        "INSERT INTO \"{metadata}\".plumbago_writers (replica, writer, instance, since) VALUES \
         (3, {writer}, {}, minTimeuuid({}))",
        uuid(),
        i64::from(now() - hours * 3600) * 1000
    );
    session.query_unpaged(text, ()).await.unwrap();
}

async fn writer_ids_come_back(keyspace: &Keyspace, session: &Session, metadata: &str) {
    let store = keyspace.store_of(WriterIdentity::new(3, 0)).await;
    keyspace.sync(&store, &["60s:2d,2d:30d"]).await;
    store.check(&tables(&["60s:2d,2d:30d"])).await.unwrap();
    futures::stream::iter((0..16_384).step_by(8))
        .for_each_concurrent(64, |id| register_ago(session, metadata, id, 95))
        .await;
    assert_eq!(store.free_writer(3).await.unwrap(), None, "two days, and one window of two days");
    let identity = WriterIdentity::new(3, 800);
    assert!(!store.register_writer(identity, uuid(), "a").await.unwrap());
    register_ago(session, metadata, 800, 97).await;
    assert_eq!(store.free_writer(3).await.unwrap(), Some(identity));
    let mine = uuid();
    assert!(store.register_writer(identity, mine, "a").await.unwrap());
    assert!(!store.register_writer(identity, uuid(), "b").await.unwrap(), "it is renewed");
    session
        .query_unpaged(
            format!("DELETE FROM \"{metadata}\".plumbago_writers WHERE replica = 3 AND writer = 1600"),
            (),
        )
        .await
        .unwrap();
    assert_eq!(store.free_writer(3).await.unwrap(), Some(WriterIdentity::new(3, 1600)));

    // A row that hides ours: the other instance's clock is ahead.
    let hidden = format!(
        "INSERT INTO \"{metadata}\".plumbago_writers (replica, writer, instance, since) VALUES \
         (3, 2400, {}, minTimeuuid(0)) USING TIMESTAMP {}",
        uuid(),
        i64::from(now() + 3600) * 1_000_000
    );
    session.query_unpaged(hidden, ()).await.unwrap();
    assert!(!store.register_writer(WriterIdentity::new(3, 2400), mine, "a").await.unwrap());

    // Rows are refused once the registration was not renewed for a day.
    let clock = Arc::new(ManualClock::at(i64::from(now())));
    let store = CassandraStore::connect(&keyspace.config, identity, clock.clone(), &Registry::new()).unwrap();
    assert!(store.register_writer(identity, mine, "a").await.unwrap());
    let batch = WriteBatch::default();
    let written = async || store.writer().write_at(&batch, 1).await;
    clock.advance(86_400);
    written().await.unwrap();
    clock.advance(1);
    let error = written().await.unwrap_err();
    assert!(error.is_transient() && error.source.unwrap().to_string().contains("not renewed"));
    assert!(store.register_writer(identity, mine, "a").await.unwrap());
    written().await.unwrap();
    store.set_writer_identity(WriterIdentity::new(3, 1600));
    written().await.unwrap_err();
}

/// A name that was deleted while the clock was ahead can be created again by the next process.
async fn changes_win_after_a_clock_was_ahead(keyspace: &Keyspace, session: &Session, metadata: &str) {
    let ahead = i64::from(now() + 3600) * 1_000_000;
    for table in ["metrics", "metrics_metadata"] {
        let text = format!(
            "DELETE FROM \"{metadata}\".{table} USING TIMESTAMP {ahead} WHERE name = 'ahead.deleted'"
        );
        session.query_unpaged(text, ()).await.unwrap();
    }
    let metrics = [metric("ahead.deleted", 6)];
    let next = keyspace.store().await;
    // The spool of the next process has the timestamp of the last rows of points before the deletion.
    next.continue_after(ahead - 60_000_000);
    next.create(&metrics).await.unwrap();
    assert!(next.get(&["ahead.deleted"]).await.unwrap()[0].is_some());
    next.delete(&["ahead.deleted"]).await.unwrap();
    assert!(next.get(&["ahead.deleted"]).await.unwrap()[0].is_none());
}
