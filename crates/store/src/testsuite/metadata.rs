//! Checks of [`MetadataStore`]. The store may also contain metrics that do not belong to the suite.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use plumbago_model::MetricConfig;

use super::random::Random;
use super::{config, insist};
use crate::{MetadataStore, MetricMeta};

/// Runs every check of this module.
pub async fn all(store: &dyn MetadataStore) {
    created_metrics_are_found(store).await;
    creating_again_keeps_the_date_and_takes_the_configuration(store).await;
    deletion_forgets(store).await;
    names_keep_their_bytes(store).await;
    scans_page_through_everything_once(store).await;
    hidden_series_are_listed_until_they_are_shown_or_deleted(store).await;
}

fn metric(name: &str, config: &Arc<MetricConfig>, created_on: u32) -> MetricMeta {
    MetricMeta { name: name.to_owned(), config: config.clone(), created_on }
}

async fn create(store: &dyn MetadataStore, metrics: &[MetricMeta]) {
    insist(|| store.create(metrics)).await;
}

/// Metrics are returned in the order of the names; `None` for those that were never created.
pub async fn created_metrics_are_found(store: &dyn MetadataStore) {
    let short = Arc::new(config("60s:1d"));
    let long = Arc::new(config("60s:7d,900s:2y"));
    let metrics = [metric("meta.found.a", &short, 5), metric("meta.found.b", &long, 6)];
    insist(|| store.create(&[])).await;
    insist(|| store.create(&metrics)).await;
    let found = insist(|| {
        store.get(&["meta.found.b", "meta.found", "meta.found.a", "meta.found.b", "meta.found.a.b"])
    })
    .await;
    let [a, b] = metrics.map(Some);
    assert_eq!(found, [b.clone(), None, a, b, None]);
    assert!(insist(|| store.get(&[])).await.is_empty());
}

/// Creating an existing metric again keeps its creation date and replaces its settings.
pub async fn creating_again_keeps_the_date_and_takes_the_configuration(store: &dyn MetadataStore) {
    let (old, new) = (Arc::new(config("60s:1d")), Arc::new(config("10s:2d")));
    create(store, &[metric("meta.again", &old, 100)]).await;
    create(store, &[metric("meta.again", &old, 200)]).await;
    create(store, &[metric("meta.again", &new, 300), metric("meta.again2", &new, 300)]).await;
    let found = insist(|| store.get(&["meta.again", "meta.again2"])).await;
    assert_eq!(found, [Some(metric("meta.again", &new, 100)), Some(metric("meta.again2", &new, 300))]);
}

/// A deleted metric no longer exists and may be created again with a new date.
pub async fn deletion_forgets(store: &dyn MetadataStore) {
    let config = Arc::new(config("60s:1d"));
    create(store, &[metric("meta.gone", &config, 1), metric("meta.stays", &config, 2)]).await;
    insist(|| store.delete(&["meta.gone", "meta.never"])).await;
    insist(|| store.delete(&["meta.gone"])).await;
    let found = insist(|| store.get(&["meta.gone", "meta.stays"])).await;
    assert_eq!(found, [None, Some(metric("meta.stays", &config, 2))]);
    create(store, &[metric("meta.gone", &config, 9)]).await;
    assert_eq!(insist(|| store.get(&["meta.gone"])).await, [Some(metric("meta.gone", &config, 9))]);
}

/// Names with tags, special characters, other alphabets or great length are stored unchanged.
pub async fn names_keep_their_bytes(store: &dyn MetadataStore) {
    let config = Arc::new(config("60s:1d"));
    let long = format!("meta.bytes.{}", "x".repeat(4000));
    let names =
        ["meta.bytes.é.☃", "meta.bytes;dc=a;host=b", "meta.bytes.%2e/\\'\"{}[]*?", &long, "meta.bytes"];
    let metrics: Vec<MetricMeta> = names.iter().map(|name| metric(name, &config, 3)).collect();
    insist(|| store.create(&metrics)).await;
    let found = insist(|| store.get(&names)).await;
    assert_eq!(found, metrics.iter().cloned().map(Some).collect::<Vec<_>>());
    let listed = scan(store, 2).await;
    assert!(metrics.iter().all(|m| listed.get(&m.name) == Some(&(m.created_on, m.config.to_text()))));
}

/// Scans with any page size return every metric exactly once, in name order if the store has that capability.
pub async fn scans_page_through_everything_once(store: &dyn MetadataStore) {
    let mut random = Random::new(21);
    let configs = [Arc::new(config("60s:1d")), Arc::new(config("60s:7d,3600s:1y"))];
    let mut wanted = BTreeMap::new();
    let mut metrics = Vec::new();
    for i in 0..500 {
        let name = format!("meta.scan.{}.{:x}", random.below(20), random.next() >> random.below(60));
        let config = &configs[random.below(2) as usize];
        if wanted.insert(name.clone(), (i, config.to_text())).is_none() {
            metrics.push(metric(&name, config, i));
        } else {
            wanted.insert(
                name.clone(),
                (metrics.iter().find(|m| m.name == name).unwrap().created_on, config.to_text()),
            );
            metrics.iter_mut().find(|m| m.name == name).unwrap().config = config.clone();
        }
    }
    for chunk in metrics.chunks(37) {
        insist(|| store.create(chunk)).await;
    }
    for limit in [1, 7, 100, 100_000] {
        let mut listed = scan(store, limit).await;
        listed.retain(|name, _| name.starts_with("meta.scan."));
        assert_eq!(listed, wanted, "pages of {limit}");
    }
}

/// A hidden series is listed until it is shown or deleted. Creating it again neither hides nor shows it.
pub async fn hidden_series_are_listed_until_they_are_shown_or_deleted(store: &dyn MetadataStore) {
    let config = Arc::new(config("60s:1d"));
    let names = ["meta.hidden;a=1", "meta.hidden;a=2", "meta.hidden;a=3"];
    let marked = |place: usize, at: u32| (names[place].to_owned(), at);
    create(store, &names.map(|name| metric(name, &config, 1))).await;
    insist(|| store.hide(&names, 10)).await;
    insist(|| store.hide(&names[..1], 20)).await;
    assert_eq!(hidden(store).await, [marked(0, 20), marked(1, 10), marked(2, 10)]);
    let shown = [names[1], "meta.hidden;a=4"];
    insist(|| store.show(&shown)).await;
    insist(|| store.delete(&names[2..])).await;
    assert_eq!(hidden(store).await, [marked(0, 20)]);
    create(store, &names.map(|name| metric(name, &config, 2))).await;
    assert_eq!(hidden(store).await, [marked(0, 20)], "creating again changes no mark");
    insist(|| store.show(&names)).await;
    assert_eq!(hidden(store).await, []);
    assert_eq!(insist(|| store.get(&names)).await.iter().flatten().count(), 3);
}

async fn hidden(store: &dyn MetadataStore) -> Vec<(String, u32)> {
    let mut hidden = insist(|| store.hidden()).await;
    hidden.retain(|(name, _)| name.starts_with("meta.hidden;"));
    hidden.sort_unstable();
    hidden
}

/// All metrics, read in pages of `limit`.
async fn scan(store: &dyn MetadataStore, limit: usize) -> BTreeMap<String, (u32, String)> {
    let mut listed = BTreeMap::new();
    let mut position = None;
    let mut last = String::new();
    let mut configs = BTreeSet::new();
    loop {
        let page = insist(|| store.scan(position.clone(), limit)).await;
        assert!(page.entries.len() <= limit, "a page holds at most {limit}");
        for (name, entry) in page.iter() {
            if store.capabilities().ordered_scan {
                assert!(last.as_str() < name || last.is_empty(), "{name} came after {last}");
                name.clone_into(&mut last);
            }
            configs.insert(entry.config.to_text());
            let row = (entry.created_on, entry.config.to_text());
            assert!(listed.insert(name.to_owned(), row).is_none(), "{name} came twice");
        }
        match page.next {
            Some(next) => position = Some(next),
            None => break,
        }
    }
    assert!(!configs.is_empty());
    listed
}
