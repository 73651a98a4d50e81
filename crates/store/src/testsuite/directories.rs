//! Checks of [`RowStore`] and [`DirectoryStore`]. The store may also contain metrics that do not belong to
//! the suite.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{config, insist};
use crate::{DirectoryStore, MetadataStore, MetricMeta, MetricRow, RowStore, Share, directories_above};

/// A time before all writes of the suite, in microseconds since the epoch.
const EARLIER_US: i64 = 1;

/// Runs every check of metrics' rows. `now_us` returns a time after all writes so far, in microseconds since
/// the epoch.
pub async fn rows<S: RowStore + MetadataStore>(store: &S, now_us: impl Fn() -> i64) {
    metrics_are_scanned_once_in_any_number_of_parts(store).await;
    deleted_rows_are_gone(store, now_us).await;
}

/// Runs every check of directories. `now_us` returns a time after all writes so far, in microseconds since
/// the epoch.
pub async fn all<S: DirectoryStore + MetadataStore>(store: &S, now_us: impl Fn() -> i64) {
    creation_makes_the_directories_above(store).await;
    directories_outlive_their_metrics_until_deleted(store, now_us).await;
    directories_are_scanned_once_in_any_number_of_parts(store).await;
}

async fn create(store: &dyn MetadataStore, names: &[&str]) {
    let config = Arc::new(config("60s:1d"));
    let metrics: Vec<MetricMeta> = names
        .iter()
        .map(|name| MetricMeta { name: (*name).to_owned(), config: config.clone(), created_on: 1000 })
        .collect();
    insist(|| store.create(&metrics)).await;
}

/// With any page size and any number of parts, scanning all parts returns every metric exactly once.
pub async fn metrics_are_scanned_once_in_any_number_of_parts<S: RowStore + MetadataStore>(store: &S) {
    let names: Vec<String> = (0..200).map(|i| format!("rows.scan.d{}.m{i}", i % 7)).collect();
    create(store, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for (of, limit) in [(1, 1000), (1, 7), (3, 10), (8, 1)] {
        let mut seen = BTreeSet::new();
        for index in 0..of {
            for row in scan_rows(store, Share { index, of }, limit).await {
                assert!(row.problem.is_none() || !row.name.starts_with("rows.scan."), "{row:?}");
                assert!(seen.insert(row.name.clone()), "{} came twice", row.name);
            }
        }
        assert!(names.iter().all(|name| seen.contains(name)), "{of} parts, pages of {limit}");
    }
    let found = insist(|| store.look_up_rows(&["rows.scan.d0.m0", "rows.scan.none"])).await;
    assert!(matches!(&found[..], [Some(row), None] if row.created_on == 1000 && row.config.is_some()));
}

/// A metric is deleted if its rows are deleted. Rows written after the time of the deletion survive.
pub async fn deleted_rows_are_gone<S: RowStore + MetadataStore>(store: &S, now_us: impl Fn() -> i64) {
    create(store, &["rows.gone.a", "rows.gone.b"]).await;
    insist(|| store.delete_rows(&["rows.gone.a", "rows.gone.never"], now_us())).await;
    let found = insist(|| store.get(&["rows.gone.a", "rows.gone.b"])).await;
    assert!(found[0].is_none() && found[1].is_some());
    assert!(insist(|| store.look_up_rows(&["rows.gone.a"])).await[0].is_none());
    assert!(scan_rows(store, Share::ALL, 100).await.iter().all(|row| row.name != "rows.gone.a"));
    // The rows were written after this time, so they survive.
    insist(|| store.delete_rows(&["rows.gone.b"], EARLIER_US)).await;
    assert!(insist(|| store.get(&["rows.gone.b"])).await[0].is_some());
}

async fn scan_rows(store: &dyn RowStore, share: Share, limit: usize) -> Vec<MetricRow> {
    let mut rows = Vec::new();
    let mut position = None;
    loop {
        let page = insist(|| store.scan_rows(share, position.clone(), limit)).await;
        rows.extend(page.rows);
        match page.next {
            Some(next) => position = Some(next),
            None => return rows,
        }
    }
}

/// Creating a metric creates all directories above it.
pub async fn creation_makes_the_directories_above<S: DirectoryStore + MetadataStore>(store: &S) {
    let name = "dirs.new.a.b.c";
    create(store, &[name]).await;
    let above: Vec<&str> = directories_above(name).collect();
    assert_eq!(insist(|| store.have_directories(&above)).await, [true; 4]);
    assert_eq!(insist(|| store.have_metrics_below(&above)).await, [true; 4]);
    let others = ["dirs.new.a.b.c", "dirs.new.a.", "dirs.new.a.bb", "dirs.ne"];
    assert_eq!(insist(|| store.have_directories(&others)).await, [false; 4]);
    assert_eq!(insist(|| store.have_metrics_below(&others)).await, [false, false, false, false]);
}

/// A directory stays after its last metric was deleted, and can be created and deleted by itself.
pub async fn directories_outlive_their_metrics_until_deleted<S: DirectoryStore + MetadataStore>(
    store: &S,
    now_us: impl Fn() -> i64,
) {
    create(store, &["dirs.old.a.m", "dirs.old.b.m"]).await;
    insist(|| MetadataStore::delete(store, &["dirs.old.a.m"])).await;
    let both = ["dirs.old.a", "dirs.old.b"];
    assert_eq!(insist(|| store.have_directories(&both)).await, [true, true]);
    assert_eq!(insist(|| store.have_metrics_below(&both)).await, [false, true]);
    insist(|| store.delete_directories(&["dirs.old.a", "dirs.old.never"], now_us())).await;
    assert_eq!(insist(|| store.have_directories(&both)).await, [false, true]);
    insist(|| store.delete_directories(&["dirs.old.b"], EARLIER_US)).await;
    assert_eq!(insist(|| store.have_directories(&both)).await, [false, true]);
    insist(|| store.create_directories(&["dirs.lone.x.y"])).await;
    assert_eq!(insist(|| store.have_directories(&["dirs.lone.x.y", "dirs.lone.x"])).await, [true, false]);
}

/// With any page size and any number of parts, scanning all parts returns every directory exactly once.
pub async fn directories_are_scanned_once_in_any_number_of_parts<S: DirectoryStore + MetadataStore>(
    store: &S,
) {
    let names: Vec<String> = (0..150).map(|i| format!("dirs.scan.d{i}.m")).collect();
    create(store, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for (of, limit) in [(1, 1000), (1, 7), (3, 10), (5, 1)] {
        let mut seen = BTreeSet::new();
        for index in 0..of {
            let mut position = None;
            loop {
                let page =
                    insist(|| store.scan_directories(Share { index, of }, position.clone(), limit)).await;
                for name in page.names {
                    assert!(seen.insert(name.clone()), "{name} came twice");
                }
                let Some(next) = page.next else { break };
                position = Some(next);
            }
        }
        assert!((0..150).all(|i| seen.contains(&format!("dirs.scan.d{i}"))), "{of} parts, pages of {limit}");
        assert!(seen.contains("dirs.scan") && seen.contains("dirs"));
    }
}
