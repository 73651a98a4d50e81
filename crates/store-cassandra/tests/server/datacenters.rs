//! A cluster of two data centres, and keyspaces whose replication changes.

use std::time::Duration;

use plumbago_cassandra_node::server;
use plumbago_cassandra_node::{Cluster, Options};
use plumbago_model::{Aggregation, MetricConfig, MetricId, Stage, SystemClock};
use plumbago_store::{
    ErrorKind, MetadataStore, MetricMeta, Run, SharedStore, StoreError, WriteBatch, WriterIdentity,
};
use plumbago_store_cassandra::config::Factor;
use plumbago_store_cassandra::{CassandraStore, Config};
use plumbago_telemetry::Registry;
use tokio::time::timeout;

use crate::common::{Keyspace, now, tables};

/// Longer than a minute, because the machine may be busy.
const HANG: Duration = Duration::from_secs(240);
const METRICS: u32 = 100;

fn point(n: u32) -> WriteBatch {
    let stage = Stage { resolution: 60, points: 1440 };
    let run = Run {
        id: MetricId::of(&format!("dc.{n}")),
        stage,
        stage_index: 0,
        aggregation: Aggregation::Average,
        first_slot: stage.slot(now()),
        len: 0,
        at: 0,
        whole: false,
    };
    let mut batch = WriteBatch::default();
    batch.push(run, &[1.0], None);
    batch
}

async fn write(store: &CassandraStore, n: u32) -> Result<(), StoreError> {
    store.writer().write_at(&point(n), store.writer().next_timestamp_us()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_local_data_centre_is_enough_and_its_replicas_count() {
    let options = Options {
        heap_mib: 320,
        sasi: false,
        stays_up: true,
        datacenters: vec!["east".to_owned(), "west".to_owned()],
        ..Options::default()
    };
    let Some(mut cluster) = server::cluster_for_test(2, &options) else { return };
    let mut keyspace = Keyspace::on(&cluster.contact_points()[0], "dcs");
    let both = || Factor::ByDatacenter(vec![("east".to_owned(), 1), ("west".to_owned(), 1)]);
    keyspace.config.replication.data = both();
    keyspace.config.replication.metadata = both();
    let store = keyspace.store().await;
    assert_eq!(&*store.datacenter(), "", "there are no keyspaces yet");
    keyspace.sync(&store, &["60s:1d"]).await;
    let report = store.check(&tables(&["60s:1d"])).await.unwrap();
    assert_eq!(report.differences, []);
    let chosen = async {
        while &*store.datacenter() != "east" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(HANG, chosen).await.unwrap();

    an_unknown_one_is_refused(&keyspace.config).await;
    one_is_cut_off(&keyspace, &mut cluster).await;
    replication_is_followed(&keyspace, &store).await;
}

async fn an_unknown_one_is_refused(config: &Config) {
    let config = Config { datacenter: "north".to_owned(), ..config.clone() };
    let clock = std::sync::Arc::new(SystemClock);
    let store = CassandraStore::connect(&config, WriterIdentity::new(0, 0), clock, &Registry::new()).unwrap();
    let reason = async {
        loop {
            match store.trouble() {
                Some(reason) if reason.contains("north") => return reason,
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    };
    let reason = timeout(HANG, reason).await.unwrap();
    assert!(
        reason.contains("store.cassandra.datacenter is \"north\"") && reason.contains("east, west"),
        "{reason}"
    );
}

/// The nodes of the other data centre hang, but no request waits for them. Only leases are not granted,
/// because a daemon in the other data centre may hold them.
async fn one_is_cut_off(keyspace: &Keyspace, cluster: &mut Cluster) {
    let registry = Registry::new();
    let store = keyspace.store_at(WriterIdentity::new(0, 80), SystemClock, &registry).await;
    let connected = async {
        while registry.value("plumbago_cassandra_nodes_up") != Some(2.0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(HANG, connected).await.unwrap();
    cluster.node(1).pause();
    for n in 0..METRICS {
        write(&store, n).await.unwrap();
    }
    let config = MetricConfig {
        retention: "60s:1d".parse().unwrap(),
        aggregation: Aggregation::Average,
        x_files_factor: 0.5,
    };
    let metrics: Vec<MetricMeta> = (0..METRICS)
        .map(|n| MetricMeta { name: format!("dc.{n}"), config: config.clone().into(), created_on: 5 })
        .collect();
    store.create(&metrics).await.unwrap();
    let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert!(store.get(&names).await.unwrap().iter().all(Option::is_some));
    let take = || store.take_lease("maintenance/clean", "host", Duration::from_secs(30));
    let refused = take().await.map(|lease| lease.is_some()).unwrap_err();
    assert!(refused.is_transient(), "{refused:?}");
    cluster.node(1).resume();
    cluster.wait_settled().unwrap();
    let granted = async {
        while !take().await.is_ok_and(|lease| lease.is_some()) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(HANG, granted).await.unwrap();
}

/// With three replicas, a write needs two of them, but the local data centre has only one node.
async fn replication_is_followed(keyspace: &Keyspace, store: &CassandraStore) {
    let session = keyspace.session().await;
    let alter = async |replicas: u32| {
        let text = format!(
            "ALTER KEYSPACE \"{}\" WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'east': '{replicas}', 'west': '1'}}",
            keyspace.config.keyspace
        );
        session.query_unpaged(text, ()).await.unwrap();
    };
    let pause = || tokio::time::sleep(Duration::from_millis(200));
    write(store, 0).await.unwrap();
    alter(3).await;
    let refused = async {
        loop {
            match write(store, 0).await {
                Ok(()) => pause().await,
                Err(error) => return error,
            }
        }
    };
    let started = std::time::Instant::now();
    let error = timeout(HANG, refused).await.unwrap();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    eprintln!("the new level was used after {:?}", started.elapsed());
    alter(1).await;
    let accepted = async {
        while write(store, 0).await.is_err() {
            pause().await;
        }
    };
    timeout(HANG, accepted).await.unwrap();
}
