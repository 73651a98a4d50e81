//! Directories that cannot be used are refused with a message that names them. Damage in a table costs only
//! the damaged rows.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::{BLOCK, LONG, block, block_on, blocks_by_state, metrics, open, read, try_open};
use plumbago_model::MetricConfig;
use plumbago_store::{ErrorKind, FlushStore, MetadataStore, MetricMeta};
use plumbago_tests::crash::{child_directory, child_test};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

fn refusal(dir: &Path) -> (ErrorKind, String) {
    let error = try_open(dir, 0).err().expect("refused");
    (error.kind, error.to_string())
}

#[test]
fn a_directory_in_use_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _store = open(dir.path());
    let (kind, text) = refusal(dir.path());
    assert_eq!(kind, ErrorKind::Unavailable);
    assert!(text.contains("in use") && text.contains(&dir.path().display().to_string()), "{text}");
    // Another process is refused as well.
    let output = child_test("refusal::child_opens", dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("refused: failed to open") && text.contains("in use by another process"), "{text}");
}

#[test]
#[ignore = "runs as a child of the test above"]
fn child_opens() {
    let Some(dir) = child_directory() else { return };
    if let Err(error) = try_open(&dir, 0) {
        println!("refused: {error}");
    }
}

#[test]
fn a_newer_or_foreign_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).store.close().unwrap();
    for text in ["plumbago-store 2\n", "something else", ""] {
        fs::write(dir.path().join("plumbago-format"), text).unwrap();
        let (kind, message) = refusal(dir.path());
        let is_newer = text.starts_with("plumbago-store");
        assert_eq!(kind, if is_newer { ErrorKind::Invalid } else { ErrorKind::Corrupt });
        assert!(message.contains("plumbago-format"), "{message}");
    }
}

/// All table files, with the keyspace's directory.
fn tables(dir: &Path) -> Vec<PathBuf> {
    let keyspaces = fs::read_dir(dir.join("keyspaces")).unwrap().map(|entry| entry.unwrap().path());
    let tables = keyspaces
        .filter(|path| !path.ends_with("0"))
        .filter_map(|path| fs::read_dir(path.join("tables")).ok());
    let mut tables: Vec<PathBuf> = tables.flatten().map(|entry| entry.unwrap().path()).collect();
    tables.sort();
    tables
}

#[test]
fn damage_in_a_table_costs_only_what_is_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let all = metrics(400, LONG);
    let config = std::sync::Arc::new(MetricConfig {
        retention: "60s:7d".parse().unwrap(),
        aggregation: plumbago_model::Aggregation::Average,
        x_files_factor: 0.5,
    });
    let names: Vec<String> =
        (0..20_000).map(|i| format!("servers.host{i:05}.cpu.{:x}", i * 2_654_435_761_u64)).collect();
    {
        let store = open(dir.path()).store;
        for number in 0..30 {
            store.commit(&block(&store, &all, number)).unwrap();
        }
        let metas: Vec<MetricMeta> = names
            .iter()
            .map(|name| MetricMeta { name: name.clone(), config: config.clone(), created_on: 1 })
            .collect();
        block_on(store.create(&metas)).unwrap();
        store.write_tables().unwrap();
        store.close().unwrap();
    }
    // Flips a byte in each larger table, in its first half: data, not the index.
    let mut random = SmallRng::seed_from_u64(5);
    let mut damaged = 0;
    for table in tables(dir.path()) {
        let file = fs::OpenOptions::new().read(true).write(true).open(&table).unwrap();
        let len = file.metadata().unwrap().len();
        if len > 100_000 {
            let at = random.random_range(len / 10..len / 2);
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged >= 2, "{damaged} tables");

    let opened = open(dir.path());
    let store = &opened.store;
    let mut lost = 0;
    for metric in &all {
        let first = metric.first(store);
        for (slot, value) in (first..).zip(read(store, metric, first, first + 30 * BLOCK)) {
            lost += u32::from(value.is_nan());
            assert!(value.is_nan() || value.to_bits() == metric.value(slot).to_bits());
        }
    }
    assert!(lost > 0 && lost < 400 * 30 * BLOCK / 10, "{lost} of {} slots lost", 400 * 30 * BLOCK);
    assert!(opened.registry.value("plumbago_store_damaged_rows_total") > Some(0.0));

    let page = block_on(store.scan(None, 100_000)).unwrap();
    let found: Vec<&str> = page.iter().map(|(name, _)| name).collect();
    assert!(found.is_sorted() && found.len() > 19_000, "{} names", found.len());
    assert!(blocks_by_state(store).len() > 200);
    // The store still accepts writes.
    store.commit(&block(store, &all, 30)).unwrap();
    // A merge that finds damage leaves the bucket readable.
    let report = store.merge_all(&mut |_| true).unwrap();
    assert_eq!(report.merged_buckets + report.failed_buckets, 1);
    let first = all[3].first(store);
    assert!(!read(store, &all[3], first + 30 * BLOCK, first + 31 * BLOCK)[5].is_nan());
}

#[test]
fn damage_that_keeps_it_from_opening_is_named() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = open(dir.path()).store;
        let all = metrics(400, LONG);
        for number in 0..10 {
            store.commit(&block(&store, &all, number)).unwrap();
        }
        store.write_tables().unwrap();
        store.close().unwrap();
    }
    let table = tables(dir.path()).into_iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let whole = fs::read(&table).unwrap();
    let keyspace = table.parent().unwrap().parent().unwrap();
    let manifest = fs::read_dir(keyspace).unwrap().map(|entry| entry.unwrap().path());
    let manifest = manifest.filter(|path| path.to_str().unwrap().contains("/v")).max().unwrap();
    let manifest_whole = fs::read(&manifest).unwrap();

    let refused = |path: &Path| {
        let (kind, text) = refusal(dir.path());
        assert_eq!(kind, ErrorKind::Corrupt, "{text}");
        assert!(text.contains(path.to_str().unwrap()), "{text} does not name {}", path.display());
    };
    let mut broken = whole.clone();
    let end = broken.len() - 60;
    broken[end] ^= 0xff;
    fs::write(&table, &broken).unwrap();
    refused(&table);
    fs::write(&table, &whole[..whole.len() / 2]).unwrap();
    refused(&table);
    fs::remove_file(&table).unwrap();
    refused(&table);
    fs::write(&table, &whole).unwrap();

    fs::write(&manifest, &manifest_whole[..manifest_whole.len() / 3]).unwrap();
    refused(&manifest);
    fs::write(&manifest, &manifest_whole).unwrap();

    // These two files can be written again from other files.
    fs::write(dir.path().join("version"), b"what").unwrap();
    fs::remove_file(keyspace.join("current")).unwrap();
    let opened = open(dir.path());
    assert_eq!(opened.registry.value("plumbago_damaged_files"), Some(2.0));
    opened.store.close().unwrap();
    assert_eq!(fs::read(dir.path().join("version")).unwrap(), b"FJL\x03");

    // Without its log the database is refused, and nothing is deleted.
    let before = tables(dir.path());
    let log = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let log = log.filter(|path| path.extension().is_some_and(|extension| extension == "jnl")).max().unwrap();
    fs::rename(&log, dir.path().join("aside")).unwrap();
    refused(&dir.path().join("0.jnl"));
    assert_eq!(tables(dir.path()), before);
}

/// A process that is killed while it creates a keyspace leaves one without `current`. That is no damage, and rows in the
/// log are kept.
#[test]
fn an_unfinished_keyspace_is_no_damage() {
    let dir = tempfile::tempdir().unwrap();
    let meta = MetricMeta {
        name: "servers.a".to_owned(),
        config: std::sync::Arc::new(MetricConfig {
            retention: "60s:7d".parse().unwrap(),
            aggregation: plumbago_model::Aggregation::Average,
            x_files_factor: 0.5,
        }),
        created_on: 1,
    };
    let store = open(dir.path()).store;
    block_on(store.create(std::slice::from_ref(&meta))).unwrap();
    store.close().unwrap();
    let keyspaces = fs::read_dir(dir.path().join("keyspaces")).unwrap().map(|entry| entry.unwrap().path());
    let is_empty = |path: &PathBuf| fs::read_dir(path.join("tables")).map_or(0, Iterator::count) == 0;
    let unfinished: Vec<PathBuf> =
        keyspaces.filter(|path| !path.ends_with("0") && is_empty(path) && path.join("v0").exists()).collect();
    assert!(!unfinished.is_empty());
    for path in &unfinished {
        fs::remove_file(path.join("current")).unwrap();
    }
    let opened = open(dir.path());
    assert_eq!(opened.registry.value("plumbago_damaged_files").unwrap_or(0.0), 0.0);
    assert!(block_on(opened.store.get(&["servers.a"])).unwrap()[0].is_some());
    opened.store.close().unwrap();
    assert!(unfinished.iter().all(|path| path.join("current").exists()));
}

/// A table of the names or of their copy is damaged: all names are still found, and the start rewrites the damaged
/// keyspace.
#[test]
fn names_come_back_from_their_copy() {
    let whole = tempfile::tempdir().unwrap();
    let config = std::sync::Arc::new(MetricConfig {
        retention: "60s:7d".parse().unwrap(),
        aggregation: plumbago_model::Aggregation::Average,
        x_files_factor: 0.5,
    });
    let names: Vec<String> =
        (0..20_000).map(|i| format!("servers.host{i:05}.cpu.{:x}", i * 2_654_435_761_u64)).collect();
    let metas: Vec<MetricMeta> = names
        .iter()
        .map(|name| MetricMeta { name: name.clone(), config: config.clone(), created_on: 1 })
        .collect();
    {
        let store = open(whole.path()).store;
        block_on(store.create(&metas)).unwrap();
        store.write_tables().unwrap();
        store.close().unwrap();
    }
    let mut met = 0;
    for table in tables(whole.path()) {
        let len = fs::metadata(&table).unwrap().len();
        if len < 100_000 {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let copied =
            std::process::Command::new("cp").arg("-a").arg(whole.path().join(".")).arg(dir.path()).status();
        assert!(copied.unwrap().success());
        let damaged = dir.path().join(table.strip_prefix(whole.path()).unwrap());
        let mut bytes = fs::read(&damaged).unwrap();
        bytes[len as usize / 3] ^= 0x10;
        fs::write(&damaged, bytes).unwrap();
        for round in 0..2 {
            let opened = open(dir.path());
            let page = block_on(opened.store.scan(None, 100_000)).unwrap();
            assert!(page.iter().map(|(name, _)| name).eq(names.iter()), "{} names", page.entries.len());
            let found = opened.registry.value("plumbago_damaged_files").unwrap();
            assert!(found <= f64::from(1 - round), "round {round}: {found} damaged files");
            met += u32::from(found > 0.0);
            opened.store.scan_states(&mut |_, _| {}).unwrap();
            opened.store.close().unwrap();
        }
    }
    assert_eq!(met, 1, "damage in the table of names");
}
