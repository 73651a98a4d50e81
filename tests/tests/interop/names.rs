//! Compares names and their metadata in both directions: each program reads what the other writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use plumbago_model::{Aggregation, MetricConfig, MetricId};
use plumbago_store::{MetadataStore, MetricMeta};
use plumbago_store_cassandra::CassandraStore;
use plumbago_tests::biggraphite::{Metric, Names, ONE};

use super::beside::{Beside, aggregation, retention};

const RETENTION: &str = "60*1s:1440*60s";

/// Names of several depths and with unusual characters. One of them is both a metric and a directory.
fn names(prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = (0..200)
        .map(|n| format!("{prefix}.dc{}.host{:03}.{}", n % 3, n, ["cpu.idle", "mem", "disk.sda.io"][n % 3]))
        .collect();
    let odd = ["dc0", "dc0.host000", "é.ü ß", "a b.c'd", "50%", "UPPER.lower", "1.2.3.4.5.6.7.8.9"];
    names.extend(odd.map(|name| format!("{prefix}.{name}")));
    names.sort();
    names
}

fn directories(names: &[String]) -> Vec<String> {
    let mut found: Vec<String> =
        names.iter().flat_map(|n| n.match_indices('.').map(|(dot, _)| n[..dot].to_owned())).collect();
    found.sort();
    found.dedup();
    found
}

fn ours(beside: &Beside, store: &CassandraStore) -> BTreeMap<String, MetricConfig> {
    let (mut found, mut position) = (BTreeMap::new(), None);
    loop {
        let page = beside.wait(store.scan(position, 50)).unwrap();
        found.extend(page.iter().map(|(name, entry)| (name.to_owned(), (*entry.config).clone())));
        position = page.next.clone();
        if position.is_none() {
            return found;
        }
    }
}

/// Our store lists and reads the metrics that BigGraphite creates, and misses those that it deletes.
#[test]
fn we_know_the_metrics_that_biggraphite_made() {
    let Some(mut beside) = Beside::made_by_biggraphite("interop_names_bg", &[RETENTION]) else { return };
    let mut names = names("theirs");
    // A semicolon has no special meaning in BigGraphite.
    names.push("theirs.x;y".to_owned());
    let methods = ["average", "total", "minimum", "maximum", "last"];
    let metric = |(i, name): (usize, &String)| Metric {
        name: name.clone(),
        retention: RETENTION.to_owned(),
        aggregator: methods[i % 5].to_owned(),
        factor: [0.5, 0.25, 1.0][i % 3],
    };
    let mut metrics: Vec<Metric> = names.iter().enumerate().map(metric).collect();
    beside.biggraphite.create(ONE, &metrics);
    let gone: Vec<Metric> = metrics.drain(10..20).collect();
    beside.biggraphite.delete(ONE, &gone.iter().map(|m| m.name.as_str()).collect::<Vec<_>>());

    let store = beside.store(0, 8);
    let config = |m: &Metric| MetricConfig {
        retention: retention(&m.retention),
        aggregation: aggregation(m),
        x_files_factor: m.factor,
    };
    let expected: BTreeMap<String, MetricConfig> =
        metrics.iter().map(|m| (m.name.clone(), config(m))).collect();
    assert_eq!(ours(&beside, &store), expected);

    let asked: Vec<&str> = names.iter().map(String::as_str).chain(["theirs", "nothing"]).collect();
    let found = beside.wait(store.get(&asked)).unwrap();
    for (name, found) in asked.iter().zip(&found) {
        assert_eq!(found.as_ref().map(|m| (*m.config).clone()), expected.get(*name).cloned(), "{name}");
    }
}

/// BigGraphite lists, finds and reads the metrics that our store creates. For an aggregation method that
/// BigGraphite does not have, it reads the nearest one, while our store reads the original.
#[test]
fn biggraphite_knows_the_metrics_that_we_made() {
    let Some(mut beside) = Beside::made_by_us("interop_names_us", &[RETENTION]) else { return };
    let names = names("ours");
    let methods = [
        (Aggregation::Average, "average"),
        (Aggregation::Sum, "total"),
        (Aggregation::Min, "minimum"),
        (Aggregation::Max, "maximum"),
        (Aggregation::Last, "last"),
        (Aggregation::AvgZero, "average"),
        (Aggregation::Count, "total"),
        (Aggregation::AbsMax, "maximum"),
        (Aggregation::AbsMin, "minimum"),
        (Aggregation::Percentile(950), "last"),
    ];
    let config = |i: usize| MetricConfig {
        retention: retention(RETENTION),
        aggregation: methods[i % 10].0,
        x_files_factor: [0.5, 0.0, 0.75][i % 3],
    };
    let meta = |(i, name): (usize, &String)| MetricMeta {
        name: name.clone(),
        config: Arc::new(config(i)),
        created_on: 1_700_000_000,
    };
    let metas: Vec<MetricMeta> = names.iter().enumerate().map(meta).collect();
    let store = beside.store(0, 8);
    beside.wait(store.create(&metas)).unwrap();
    let asked: Vec<&str> = names.iter().map(String::as_str).collect();
    let known = beside.biggraphite.get(ONE, &asked);
    for (i, (name, known)) in names.iter().zip(&known).enumerate() {
        let known = known.as_ref().unwrap_or_else(|| panic!("BigGraphite does not know {name:?}"));
        assert_eq!(known.id, MetricId::of(name).to_string(), "{name}");
        assert_eq!((known.retention.as_str(), known.aggregator.as_str()), (RETENTION, methods[i % 10].1));
        // BigGraphite does not distinguish 0 from a missing value.
        assert_eq!(known.factor, ["0.500000", "0.500000", "0.750000"][i % 3]);
    }
    let all = Names { metrics: names.clone(), directories: directories(&names) };
    assert_eq!(beside.biggraphite.glob(ONE, &["**"]), [Ok(all)]);
    let expected: BTreeMap<String, MetricConfig> =
        names.iter().enumerate().map(|(i, name)| (name.clone(), config(i))).collect();
    assert_eq!(ours(&beside, &store), expected);

    beside.wait(store.delete(&asked[..50])).unwrap();
    let left = beside.biggraphite.get(ONE, &asked);
    assert!(left[..50].iter().all(Option::is_none) && left[50..].iter().all(Option::is_some));
}
