//! Tests of records of reads: two bytes in the row of a name, which survive a restart and a new
//! configuration, but not a deletion.

use std::path::Path;
use std::sync::Arc;

use fjall::{KeyspaceCreateOptions, PersistMode};
use plumbago_model::{Aggregation, MetricConfig, MetricId, Retention};
use plumbago_store::{MetadataStore, MetricMeta, ReadNotes, RowStore};
use plumbago_store_embedded::EmbeddedStore;

use crate::common::{START, open};

const DAY: u32 = 86_400;
/// The day on which the tests begin.
const TODAY: u32 = START / 1440;

async fn create(store: &EmbeddedStore, names: &[&str], retention: &str) {
    let aggregation = Aggregation::Average;
    let config = MetricConfig { retention: retention.parse().unwrap(), aggregation, x_files_factor: 0.5 };
    let config = Arc::new(config);
    let meta =
        |name: &&str| MetricMeta { name: (*name).to_owned(), config: config.clone(), created_on: 1000 };
    store.create(&names.iter().map(meta).collect::<Vec<_>>()).await.unwrap();
}

/// The days on which the metrics were last read.
async fn days(store: &EmbeddedStore, names: &[&str]) -> Vec<Option<u32>> {
    let rows = store.look_up_rows(names).await.unwrap();
    rows.into_iter().map(|row| row.unwrap().read_on.map(|time| time / DAY)).collect()
}

#[tokio::test]
async fn a_note_goes_with_its_metric_only() {
    let dir = tempfile::tempdir().unwrap();
    let opened = open(dir.path());
    let store = &opened.store;
    create(store, &["a", "b", "c"], "60s:1d").await;
    store.note_read(&["b", "a", "b", "not.there"]).await.unwrap();
    opened.clock.advance(i64::from(DAY));
    store.note_read(&["a"]).await.unwrap();
    assert_eq!(days(store, &["a", "b", "c"]).await, [Some(TODAY + 1), Some(TODAY), None]);
    assert_eq!(store.look_up_rows(&["not.there"]).await.unwrap(), [None], "a note makes no metric");

    create(store, &["a", "c"], "60s:7d").await;
    let row = store.look_up_rows(&["a"]).await.unwrap().remove(0).unwrap();
    let retention: Retention = "60s:7d".parse().unwrap();
    assert_eq!(row.config.as_ref().unwrap().retention, retention);
    assert_eq!((row.created_on, row.read_on), (1000, Some((TODAY + 1) * DAY)));

    // After its deletion the name is new; a read on the same day is recorded again.
    MetadataStore::delete(store, &["a"]).await.unwrap();
    create(store, &["a"], "60s:1d").await;
    assert_eq!(days(store, &["a"]).await, [None]);
    store.note_read(&["a"]).await.unwrap();
    store.delete_rows(&["b"], i64::MAX).await.unwrap();
    create(store, &["b"], "60s:1d").await;
    assert_eq!(days(store, &["a", "b"]).await, [Some(TODAY + 1), None]);

    store.close().unwrap();
    drop(opened);
    let store = open(dir.path()).store;
    assert_eq!(days(&store, &["a", "b", "c"]).await, [Some(TODAY + 1), None, None]);
    assert_eq!(store.reads_noted_since().await.unwrap(), Some(TODAY * DAY));
}

/// Writes records of reads as earlier versions did: in a keyspace with the id as the key.
fn write_old_notes(dir: &Path, notes: &[(&str, u32)], since: u32) {
    let uncompressed = fjall::CompressionType::None;
    let database = fjall::Database::builder(dir).journal_compression(uncompressed).open().unwrap();
    let old = database.keyspace("reads", KeyspaceCreateOptions::default).unwrap();
    old.insert("since", since.to_le_bytes()).unwrap();
    for (name, day) in notes {
        old.insert(MetricId::of(name).0, day.to_le_bytes()).unwrap();
    }
    let system = database.keyspace("system", KeyspaceCreateOptions::default).unwrap();
    system.remove("reads-since").unwrap();
    database.persist(PersistMode::SyncAll).unwrap();
}

#[tokio::test]
async fn notes_of_an_earlier_version_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).store;
    create(&store, &["a", "b", "c"], "60s:1d").await;
    store.note_read(&["b"]).await.unwrap();
    store.close().unwrap();
    drop(store);
    write_old_notes(dir.path(), &[("a", TODAY - 5), ("b", TODAY - 9), ("gone", TODAY - 7)], TODAY - 90);
    for _ in 0..2 {
        let store = open(dir.path()).store;
        assert_eq!(days(&store, &["a", "b", "c"]).await, [Some(TODAY - 5), Some(TODAY), None]);
        assert_eq!(store.reads_noted_since().await.unwrap(), Some((TODAY - 90) * DAY));
        store.close().unwrap();
    }
    let database = fjall::Database::builder(dir.path()).open().unwrap();
    assert!(!database.keyspace_exists("reads"));
}
