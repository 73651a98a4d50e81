//! A search by SASI on a real server finds the same names as the glob matcher run over all names.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use plumbago_model::{Aggregation, MetricConfig, Pattern, SystemClock};
use plumbago_store::{MetadataStore, MetricMeta, WriterIdentity};
use plumbago_store_cassandra::CassandraStore;
use plumbago_store_cassandra::config::Indexes;
use plumbago_store_cassandra::find::{FindError, Limits, Node, Want};
use plumbago_telemetry::Registry;
use plumbago_tests::rounds::is_long;

use crate::common::{Keyspace, now};

/// A small random generator with a seed, so that a failing glob can be reproduced.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const PARTS: [&str; 16] =
    ["a", "ab", "abc", "b", "ba", "c%", "%d", "d_e", "e,f", "h-1", "h-10", "h-2", "é☃", "cpu", "x%y", "m{1}"];

fn name(random: &mut Random) -> String {
    let depth = 1 + random.below(6);
    let parts: Vec<&str> = (0..depth).map(|_| random.one(&PARTS)).collect();
    parts.join(".")
}

fn glob(random: &mut Random) -> String {
    let depth = 1 + random.below(6);
    let parts: Vec<String> = (0..depth)
        .map(|_| match random.below(10) {
            0..=3 => random.one(&PARTS).replace('{', "\\{"),
            4 => "*".to_owned(),
            5 => format!("{}*", random.one(&["a", "ab", "h-", "%", "c%", "é", "x%"])),
            6 => random.one(&["?", "[ab]*", "*b*", "[!a]*", "h-[12]", "*%"]).to_owned(),
            7 => {
                random.one(&["{a,b}", "{ab*,b}", "{{a,b}b,c%}", "h-{1,10,2}", "{a.b,c%}", "{,a}b"]).to_owned()
            }
            8 => random.one(&["**", "*"]).to_owned(),
            _ => random.one(&["cpu", "a", "nothing"]).to_owned(),
        })
        .collect();
    parts.join(".")
}

async fn create(store: &CassandraStore, names: &BTreeSet<String>) {
    let config = Arc::new(MetricConfig {
        retention: "60s:1d".parse().unwrap(),
        aggregation: Aggregation::Average,
        x_files_factor: 0.5,
    });
    let metrics: Vec<MetricMeta> = names
        .iter()
        .map(|name| MetricMeta { name: name.clone(), config: config.clone(), created_on: now() })
        .collect();
    for chunk in metrics.chunks(500) {
        store.create(chunk).await.unwrap();
    }
}

fn wanted(pattern: &Pattern, names: &BTreeSet<String>, directories: &BTreeSet<String>) -> Vec<Node> {
    let all: BTreeSet<&String> =
        names.iter().chain(directories).filter(|name| pattern.matches(name)).collect();
    all.into_iter()
        .map(|path| Node {
            path: path.clone(),
            leaf: names.contains(path),
            branch: directories.contains(path),
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn globs_give_the_same_names_as_the_matcher() {
    let Some(keyspace) = Keyspace::new("find") else { return };
    globs(keyspace, if is_long() { 3000 } else { 600 }).await;
}

pub async fn globs(mut keyspace: Keyspace, rounds: usize) {
    keyspace.config.indexes = Indexes::Sasi;
    keyspace.config.components = 8;
    let registry = Registry::new();
    let store = keyspace.store_at(WriterIdentity::new(0, 1024), SystemClock, &registry).await;
    keyspace.sync(&store, &[]).await;
    let mut random = Random(7);
    let names: BTreeSet<String> = (0..800).map(|_| name(&mut random)).collect();
    let directories: BTreeSet<String> = names
        .iter()
        .flat_map(|name| name.match_indices('.').map(|(dot, _)| name[..dot].to_owned()))
        .collect();
    create(&store, &names).await;
    let mut found_any = 0;
    for round in 0..rounds {
        let glob = glob(&mut random);
        let Ok(pattern) = Pattern::parse(&glob) else { continue };
        // In the second half of the rounds, terms are counted and queries are chosen by the counts.
        let count_after = if round < rounds / 2 { Duration::MAX } else { Duration::ZERO };
        let limits = Limits { count_after, ..Limits::default() };
        let found = store.find(&pattern, Want::Nodes, limits).await.unwrap();
        assert_eq!(found, wanted(&pattern, &names, &directories), "round {round}: {glob}");
        found_any += usize::from(!found.is_empty());
    }
    assert!(found_any > rounds / 6, "{found_any} globs found something");
    let counted = registry.value("plumbago_cassandra_find_terms_counted_total").unwrap();
    assert!(counted > rounds as f64 / 100.0, "{counted} terms were counted");

    let everything = Pattern::parse("**").unwrap();
    let leaves = store.find(&everything, Want::Metrics, Limits::default()).await.unwrap();
    assert_eq!(leaves.len(), names.len());
    let few = Limits { results_max: 10, ..Limits::default() };
    assert!(matches!(store.find(&everything, Want::Nodes, few).await, Err(FindError::TooManyResults(10))));
    let few = Limits { rows_max: 100, ..Limits::default() };
    assert!(matches!(store.find(&everything, Want::Nodes, few).await, Err(FindError::TooManyRows(100))));
    keyspace.drop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_indexes_the_setting_is_named() {
    let Some(keyspace) = Keyspace::new("noidx") else { return };
    let store = keyspace.store().await;
    keyspace.sync(&store, &[]).await;
    let pattern = Pattern::parse("a.*").unwrap();
    let error = store.find(&pattern, Want::Nodes, Limits::default()).await.unwrap_err().to_string();
    // Cassandra 4.0 and older have another name for the setting.
    let version = store.live_schema().await.unwrap().server.version;
    let setting = if version < (4, 1) { "enable_sasi_indexes: true" } else { "sasi_indexes_enabled: true" };
    assert!(error.contains(setting) && error.contains("index.mode = \"memory\""), "{error}");
    keyspace.drop().await;
}
