//! Globs answered in three ways: by our index in memory, by our SASI queries, and by BigGraphite where it is
//! correct.

use std::collections::BTreeSet;
use std::sync::Arc;

use plumbago_index::{FindLimits, Index};
use plumbago_model::{MetricConfig, Pattern};
use plumbago_store::{MetadataStore, MetricMeta};
use plumbago_store_cassandra::CassandraStore;
use plumbago_store_cassandra::find::{Limits, Want};
use plumbago_telemetry::Registry;
use plumbago_tests::biggraphite::{Metric, Names, ONE};
use plumbago_tests::rounds::is_long;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::beside::{Beside, retention};

const RETENTION: &str = "60*1s:1440*60s";

/// Ordinary names, and names that are hard to find with LIKE or to write in a glob.
pub(crate) fn names(random: &mut SmallRng) -> Vec<String> {
    let mut names = BTreeSet::new();
    while names.len() < 3000 {
        let host = format!(
            "{}{:02}",
            ["web", "db", "cache-a", "cache-b"].choose(random).unwrap(),
            random.random_range(0..30)
        );
        let kind =
            ["cpu", "mem", "disk.sda", "disk.sdb", "net.eth0.rx", "net.eth0.tx"].choose(random).unwrap();
        let value = ["idle", "user", "used", "p99", "count", "count_ps"].choose(random).unwrap();
        let place = ["eu.paris", "eu.berlin", "us", "ap-1", "ap-10"].choose(random).unwrap();
        names.insert(format!("{place}.{host}.{kind}.{value}"));
    }
    let parts = ["a", "ab", "%", "c%d", "d_e", "{x}", "[y]", "w*", "q?", "é☃", "x,y", "A", "1", "b\\c", "'"];
    while names.len() < 4000 {
        let depth = random.random_range(1..7);
        let odd: Vec<&str> = (0..depth).map(|_| *parts.choose(random).unwrap()).collect();
        names.insert(odd.join("."));
    }
    names.into_iter().collect()
}

/// Derives globs from names, so that most globs match something.
pub(crate) struct Globs<'a> {
    pub(crate) random: SmallRng,
    pub(crate) names: &'a [String],
    /// Whether to generate only globs that BigGraphite answers like Graphite.
    pub(crate) plain: bool,
}

impl Globs<'_> {
    pub(crate) fn next(&mut self) -> String {
        let name = loop {
            let name = self.names.choose(&mut self.random).unwrap();
            if !self.plain || name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b)) {
                break name;
            }
        };
        let parts: Vec<&str> = name.split('.').collect();
        // The path is mostly a metric, otherwise a directory above one.
        let whole = self.random.random_ratio(2, 3);
        let keep = if whole { parts.len() } else { self.random.random_range(1..=parts.len()) };
        let mut glob: Vec<String> = parts[..keep].iter().map(|part| self.component(part)).collect();
        if self.random.random_ratio(1, 12) {
            let at = self.random.random_range(0..=glob.len());
            // BigGraphite accepts only one globstar, and inside a glob only down to a certain depth.
            let at = if self.plain { glob.len() } else { at };
            glob.insert(at, "**".to_owned());
        }
        glob.join(".")
    }

    fn component(&mut self, part: &str) -> String {
        let letters: Vec<char> = part.chars().collect();
        let at = self.random.random_range(0..letters.len());
        let (head, tail): (String, String) = (letters[..at].iter().collect(), letters[at..].iter().collect());
        let rest: String = letters[at + 1..].iter().collect();
        let other = ["web07", "idle", "cpu", "a", "us", "count"].choose(&mut self.random).unwrap();
        match self.random.random_range(0..if self.plain { 10 } else { 14 }) {
            0..3 => part.to_owned(),
            3 => "*".to_owned(),
            4 => format!("{head}*"),
            5 => format!("*{tail}"),
            6 => format!("{head}?{rest}"),
            7 => format!("{head}[{}a-m]{rest}", letters[at]),
            8 => format!("{{{part},{other}}}"),
            9 => format!("{head}[!xyz]{rest}"),
            10 => format!("{{{head}*,{other}}}"),
            11 => format!("{{{{{part},{other}}},b}}"),
            12 => letters.iter().map(|letter| format!("\\{letter}")).collect(),
            _ => format!("{head}{{{},{},}}{rest}*", letters[at], other),
        }
    }
}

#[test]
fn three_ways_to_find_the_same_names() {
    let Some(mut beside) = Beside::made_by_us("interop_globs", &[RETENTION]) else { return };
    let mut random = SmallRng::seed_from_u64(44);
    let names = names(&mut random);
    let store = beside.store(0, 8);
    create(&mut beside, &store, &names);
    let index = load(&beside, &store);
    assert_eq!(index.len(), names.len());

    let mut globs = Globs { random, names: &names, plain: false };
    let (any, plain) = if is_long() { (1000, 300) } else { (250, 100) };
    let mut hits = 0;
    for _ in 0..any {
        let glob = globs.next();
        hits += usize::from(!find_alike(&beside, &store, &index, &glob).metrics.is_empty());
    }
    assert!(hits > any * 2 / 5, "{hits} of {any} globs found a metric");

    globs.plain = true;
    let plain: Vec<String> = (0..plain).map(|_| globs.next()).collect();
    let asked: Vec<&str> = plain.iter().map(String::as_str).collect();
    for (glob, theirs) in plain.iter().zip(beside.biggraphite.glob(ONE, &asked)) {
        let ours = find_alike(&beside, &store, &index, glob);
        assert_eq!(Ok(ours), theirs, "{glob}");
    }
}

/// Creates some of the names with BigGraphite and the others with our store.
fn create(beside: &mut Beside, store: &CassandraStore, names: &[String]) {
    let (theirs, ours): (Vec<_>, Vec<_>) = names.iter().enumerate().partition(|(i, _)| i % 10 == 0);
    let metric = |(_, name): &(usize, &String)| Metric {
        name: (*name).clone(),
        retention: RETENTION.to_owned(),
        aggregator: "average".to_owned(),
        factor: 0.5,
    };
    beside.biggraphite.create(ONE, &theirs.iter().map(metric).collect::<Vec<_>>());
    let config = Arc::new(MetricConfig {
        retention: retention(RETENTION),
        aggregation: Default::default(),
        x_files_factor: 0.5,
    });
    let meta = |(_, name): &(usize, &String)| MetricMeta {
        name: (*name).clone(),
        config: Arc::clone(&config),
        created_on: 1_700_000_000,
    };
    for chunk in ours.chunks(500) {
        let metas: Vec<MetricMeta> = chunk.iter().map(meta).collect();
        beside.wait(store.create(&metas)).unwrap();
    }
}

/// The index as loaded by a daemon.
fn load(beside: &Beside, store: &CassandraStore) -> Index {
    let index = Index::new(&Registry::new());
    let mut position = None;
    loop {
        let page = beside.wait(store.scan(position, 1000)).unwrap();
        index.load(page.iter().map(|(name, _)| name));
        position = page.next.clone();
        if position.is_none() {
            return index;
        }
    }
}

/// The result of the index, which must equal that of the SASI queries.
fn find_alike(beside: &Beside, store: &CassandraStore, index: &Index, glob: &str) -> Names {
    let pattern = Pattern::parse(glob).unwrap_or_else(|e| panic!("{glob}: {e}"));
    let by_index = index.find(glob, &FindLimits::default()).unwrap();
    let by_index: Vec<_> = by_index.into_iter().map(|n| (n.path, n.leaf, n.branch)).collect();
    let leaves = index.leaves(glob, &FindLimits::default()).unwrap();
    let find = |want| beside.wait(store.find(&pattern, want, Limits::default())).unwrap();
    let nodes = || find(Want::Nodes).into_iter().map(|n| (n.path, n.leaf, n.branch)).collect();
    alike(glob, &by_index, nodes);
    alike(glob, &leaves, || find(Want::Metrics).into_iter().map(|n| n.path).collect());
    let directories = by_index.iter().filter(|(_, _, branch)| *branch).map(|(path, ..)| path.clone());
    Names { directories: directories.collect(), metrics: leaves }
}

/// A busy server silently leaves out index files that it could not search in time (about once in thousands of
/// globs), so an incomplete answer is requested again.
fn alike<T: PartialEq + std::fmt::Debug>(glob: &str, by_index: &[T], by_sasi: impl Fn() -> Vec<T>) {
    let mut found = by_sasi();
    for _ in 0..3 {
        if found != by_index && found.iter().all(|one| by_index.contains(one)) {
            eprintln!("{glob}: SASI found {} of {}", found.len(), by_index.len());
            found = by_sasi();
        }
    }
    assert_eq!(found, by_index, "{glob}");
}
