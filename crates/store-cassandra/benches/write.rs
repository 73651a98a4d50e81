//! Writes to a real server: compares our writer with a plain loop over the driver, which is the upper bound,
//! at 1, 10 and 60 rows per request. It also measures the creation of metrics and a read of all names.
//!
//! `cargo bench -p plumbago-store-cassandra` starts a node of its own, or uses the one that
//! `PLUMBAGO_TEST_CASSANDRA` names. Argument: a factor for the amount of data (default 1).

#![allow(clippy::unwrap_used, reason = "a benchmark stops at the first error")]

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use futures::StreamExt;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use plumbago_cassandra_node::{Cluster, Options, server};
use plumbago_model::{Aggregation, Clock, MetricConfig, MetricId, Stage, SystemClock};
use plumbago_store::{MetadataStore, MetricMeta, RemotePoints, Run, WriteBatch, WriterIdentity};
use plumbago_store_cassandra::layout::{Partition, Table, offset};
use plumbago_store_cassandra::statements::{Names, Points};
use plumbago_store_cassandra::{CassandraStore, Config, config_to_map};
use plumbago_telemetry::Registry;
use scylla::client::PoolSize;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use uuid::Uuid;

const STAGE: Stage = Stage { resolution: 60, points: 10_080 };
const IN_FLIGHT: usize = 128;
const SLOTS_PER_CALL: usize = 16_384;

fn main() {
    let factor: f64 = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(1.0);
    let given = server::given();
    let options = Options { heap_mib: 2048, quick: false, ..Options::default() };
    let own = if given.is_none() { Some(Cluster::start(1, &options).unwrap()) } else { None };
    let server = given.unwrap_or_else(|| own.as_ref().unwrap().nodes()[0].socket().to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run(&server, factor));
}

async fn run(server: &str, factor: f64) {
    let config = Config {
        contact_points: vec![server.to_owned()],
        keyspace: format!("bench{}", std::process::id()),
        ..Config::default()
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let store = CassandraStore::connect(&config, WriterIdentity::new(0, 0), clock, &Registry::new()).unwrap();
    store.wait().await.unwrap();
    let plan = store.plan_sync(&BTreeSet::from([Table { stage: STAGE, coarse: false }]), None).await.unwrap();
    store.sync(&plan, &mut |_| {}).await.unwrap();
    let session = SessionBuilder::new()
        .known_node(server)
        .pool_size(PoolSize::PerHost(2.try_into().unwrap()))
        .build()
        .await
        .unwrap();
    println!("{:<28} {:>12} {:>22}", "", "per second", "client CPU s per M");
    for round in 0..3 {
        for (rows, total) in [(1, 100_000), (10, 600_000), (60, 2_000_000)] {
            let total = (f64::from(total) * factor) as usize;
            let seed = round * 10;
            measure(
                &format!("bare loop, {rows} rows"),
                total,
                bare_points(&session, &config, rows, total, seed),
            )
            .await;
            measure(&format!("our writer, {rows} rows"), total, our_points(&store, rows, total, seed + 1))
                .await;
        }
        let total = (20_000.0 * factor) as usize;
        measure("bare loop, metrics", total, bare_names(&session, &config, total, round)).await;
        measure("our creation, metrics", total, our_names(&store, total, round)).await;
        let known = total * 2 * (round as usize + 1);
        measure("names read", known, all_names(&store, known)).await;
    }
    for keyspace in [config.keyspace.clone(), config.metadata_keyspace()] {
        session.query_unpaged(format!("DROP KEYSPACE \"{keyspace}\""), ()).await.unwrap();
    }
}

async fn measure(what: &str, amount: usize, work: impl Future<Output = ()>) {
    let cpu = || {
        let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
        (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6
    };
    let (before, start) = (cpu(), Instant::now());
    work.await;
    let (rate, cpu) = (amount as f64 / start.elapsed().as_secs_f64(), cpu() - before);
    println!("{what:<28} {rate:>12.0} {:>22.2}", cpu / amount as f64 * 1e6);
}

fn first_slot(rows: usize) -> u32 {
    // All rows of a request have to be in the same partition.
    let slot = STAGE.slot(SystemClock.now() as u32) - 100;
    if slot % 2000 + rows as u32 > 2000 { slot / 2000 * 2000 } else { slot }
}

async fn bare_points(session: &Session, config: &Config, rows: usize, total: usize, seed: u32) {
    let text = Points::new(&config.keyspace, Table { stage: STAGE, coarse: false }).insert;
    let mut insert = session.prepare(text).await.unwrap();
    insert.set_consistency(Consistency::LocalOne);
    let mut batch = Batch::new_with_statements(
        BatchType::Unlogged,
        vec![BatchStatement::PreparedStatement(insert.clone()); rows],
    );
    batch.set_consistency(Consistency::LocalOne);
    let slot = first_slot(rows);
    let start = Partition::of(slot).start_ms(STAGE);
    let (insert, batch) = (&insert, &batch);
    let requests = (0..total / rows).map(|n| async move {
        let id = Uuid::from_u128(u128::from(seed) << 100 | (n as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if rows == 1 {
            session.execute_unpaged(insert, (id, start, offset(slot), n as f64)).await.unwrap();
        } else {
            let values: Vec<_> =
                (0..rows as u32).map(|i| (id, start, offset(slot + i), f64::from(i))).collect();
            session.batch(batch, &values).await.unwrap();
        }
    });
    futures::stream::iter(requests).buffer_unordered(IN_FLIGHT).for_each(|()| async {}).await;
}

async fn our_points(store: &CassandraStore, rows: usize, total: usize, seed: u32) {
    let slot = first_slot(rows);
    let values: Vec<f64> = (0..rows).map(|i| i as f64).collect();
    let metrics = total / rows;
    let per_call = (SLOTS_PER_CALL / rows).max(1);
    let values = &values;
    let calls = (0..metrics.div_ceil(per_call)).map(|call| async move {
        let mut batch = WriteBatch::default();
        for n in call * per_call..metrics.min((call + 1) * per_call) {
            let id = u128::from(seed) << 100 | (n as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let run = Run {
                id: MetricId(id.to_be_bytes()),
                stage: STAGE,
                stage_index: 0,
                aggregation: Aggregation::Average,
                first_slot: slot,
                len: 0,
                at: 0,
                whole: false,
            };
            batch.push(run, values, None);
        }
        store.write_at(&batch, store.writer().next_timestamp_us()).await.unwrap();
    });
    futures::stream::iter(calls).buffer_unordered(2).for_each(|()| async {}).await;
}

fn name(seed: u32, n: usize) -> String {
    format!("dc{}.host{seed}_{:04}.kind{}.m{n}", n / 40 % 4, n / 40, n / 10 % 4)
}

fn config_of_metrics() -> MetricConfig {
    MetricConfig {
        retention: "60s:7d,15m:2y".parse().unwrap(),
        aggregation: Aggregation::Average,
        x_files_factor: 0.5,
    }
}

/// Writes the same rows as `create`, in two requests for each metric, and the rows of the directories, but looks
/// nothing up first.
async fn bare_names(session: &Session, config: &Config, total: usize, seed: u32) {
    let text = Names::new(&config.metadata_keyspace());
    let tree = session.prepare(text.insert_tree(false, 4)).await.unwrap();
    let metadata = session
        .prepare(
            text.insert_metadata()
                .replace("created_on, updated_on", "updated_on, created_on")
                .replace("(?, ?, now()", "(?, now(), now()"),
        )
        .await
        .unwrap();
    let map = config_to_map(&config_of_metrics());
    let mut directories = Vec::new();
    for depth in 1..4 {
        directories.push(session.prepare(text.insert_tree(true, depth)).await.unwrap());
    }
    let (tree, metadata, map, directories) = (&tree, &metadata, &map, &directories);
    let requests = (0..total).map(|n| async move {
        let name = name(seed * 2, n);
        let parts: Vec<&str> = name.split('.').collect();
        let parent = format!("{}.", parts[..3].join("."));
        let values = (&name, &parent, parts[0], parts[1], parts[2], parts[3], "__END__");
        session.execute_unpaged(tree, values).await.unwrap();
        // The first metric of a directory also writes the directory, and any new directories above it.
        let firsts = [(n % 10 == 0, 3), (n % 40 == 0, 2), (n < 4, 1)];
        for depth in firsts.into_iter().filter(|(first, _)| *first).map(|(_, depth)| depth) {
            let mut row = vec![parts[..depth].join(".")];
            row.push(if depth == 1 { ".".to_owned() } else { parts[..depth - 1].join(".") + "." });
            row.extend(parts[..depth].iter().map(|part| (*part).to_owned()));
            row.push("__END__".to_owned());
            session.execute_unpaged(&directories[depth - 1], row).await.unwrap();
        }
        let id = Uuid::from_bytes(MetricId::of(&name).0);
        session.execute_unpaged(metadata, (&name, id, map)).await.unwrap();
    });
    futures::stream::iter(requests).buffer_unordered(64).for_each(|()| async {}).await;
}

async fn our_names(store: &CassandraStore, total: usize, seed: u32) {
    let config = Arc::new(config_of_metrics());
    let now = SystemClock.now() as u32;
    let metric = |n| MetricMeta { name: name(seed * 2 + 1, n), config: config.clone(), created_on: now };
    let all: Vec<MetricMeta> = (0..total).map(metric).collect();
    for chunk in all.chunks(1000) {
        store.create(chunk).await.unwrap();
    }
}

async fn all_names(store: &CassandraStore, wanted: usize) {
    let (mut position, mut found) = (None, 0);
    loop {
        let page = store.scan(position, 20_000).await.unwrap();
        found += page.entries.len();
        position = page.next;
        if position.is_none() {
            break;
        }
    }
    assert_eq!(found, wanted);
}
