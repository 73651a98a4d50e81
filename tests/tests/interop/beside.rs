//! Runs BigGraphite and our store on the same two keyspaces.

use std::collections::BTreeSet;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use plumbago_cassandra_node::cql::{Connection, Rows};
use plumbago_cassandra_node::server;
use plumbago_model::{Aggregation, Clock, MetricId, Retention, Stage, SystemClock};
use plumbago_store::{Column, PointStore, ReadRequest, SlotRange, WriterIdentity};
use plumbago_store_cassandra::{CassandraStore, Config, schema};
use plumbago_telemetry::Registry;
use plumbago_tests::biggraphite::{self, BigGraphite, Metric, ONE, Range};

/// Fewer components than BigGraphite's 64, because creating the indexes of each component takes time.
const COMPONENTS: u32 = 16;

/// Both programs on a pair of keyspaces.
pub(crate) struct Beside {
    pub(crate) biggraphite: BigGraphite,
    pub(crate) server: SocketAddr,
    pub(crate) config: Config,
    runtime: tokio::runtime::Runtime,
}

impl Beside {
    /// Uses tables that BigGraphite created. The accessor [`ONE`] is open.
    pub(crate) fn made_by_biggraphite(keyspace: &str, retentions: &[&str]) -> Option<Self> {
        Self::made_by_biggraphite_on(server::for_tests()?.socket(), keyspace, retentions)
    }

    /// Like [`Self::made_by_biggraphite`], but on the given server.
    pub(crate) fn made_by_biggraphite_on(
        server: SocketAddr,
        keyspace: &str,
        retentions: &[&str],
    ) -> Option<Self> {
        let mut beside = Self::empty(server, keyspace, COMPONENTS)?;
        biggraphite::make_keyspaces(beside.server, keyspace);
        beside.biggraphite.syncdb(retentions);
        beside.biggraphite.open(ONE, 0, None);
        Some(beside)
    }

    /// Uses keyspaces and tables that our `syncdb` created.
    pub(crate) fn made_by_us(keyspace: &str, retentions: &[&str]) -> Option<Self> {
        Self::made_by_us_on(server::for_tests()?.socket(), keyspace, retentions)
    }

    /// Like [`Self::made_by_us`], but on the given server.
    pub(crate) fn made_by_us_on(server: SocketAddr, keyspace: &str, retentions: &[&str]) -> Option<Self> {
        let mut beside = Self::empty(server, keyspace, COMPONENTS)?;
        for name in [keyspace.to_owned(), format!("{keyspace}_metadata")] {
            beside.cql(&format!("DROP KEYSPACE IF EXISTS {name}"));
        }
        let store = beside.store(0, 8);
        let retentions: Vec<Retention> = retentions.iter().map(|text| retention(text)).collect();
        let tables: BTreeSet<_> = schema::tables_of(&retentions);
        let plan = beside.wait(store.plan_sync(&tables, None)).unwrap();
        beside.wait(store.sync(&plan, &mut |_| {})).unwrap();
        beside.biggraphite.open(ONE, 0, None);
        Some(beside)
    }

    /// Uses an existing keyspace.
    pub(crate) fn empty(server: SocketAddr, keyspace: &str, components: u32) -> Option<Self> {
        let biggraphite = BigGraphite::start(server, keyspace, components)?;
        let config = Config {
            contact_points: vec![server.to_string()],
            keyspace: keyspace.to_owned(),
            components,
            request_timeout: plumbago_model::Period::seconds(60),
            ..Config::default()
        };
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        Some(Self { biggraphite, server, config, runtime })
    }

    /// Our store with a replica id and a writer id.
    pub(crate) fn store(&self, replica: u8, writer: u16) -> CassandraStore {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let _inside = self.runtime.enter();
        let identity = WriterIdentity::new(replica, writer);
        let store = CassandraStore::connect(&self.config, identity, clock, &Registry::new()).unwrap();
        self.wait(store.wait()).unwrap();
        store
    }

    /// Runs a future to its end. Panics if it hangs.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let guarded = async { tokio::time::timeout(Duration::from_secs(240), future).await };
        self.runtime.block_on(guarded).expect("an answer within minutes")
    }

    /// Runs a CQL statement.
    pub(crate) fn cql(&self, statement: &str) -> Rows {
        Connection::open(self.server, None).unwrap().query(statement).unwrap()
    }

    /// Reads a range with our store and converts the result to BigGraphite's form: known slots only, with
    /// counts (1 in stage 0), averages as sums.
    pub(crate) fn read(
        &self,
        store: &CassandraStore,
        metric: &Metric,
        stage: usize,
        range: &Range,
    ) -> Vec<Counted> {
        let found = stage_of(metric, stage);
        let slot = |time: i64| u32::try_from(time).unwrap() / found.resolution;
        let wanted = SlotRange {
            id: MetricId::of(&metric.name),
            stage: found,
            stage_index: stage as u8,
            aggregation: aggregation(metric),
            from: slot(range.start),
            until: slot(range.end),
        };
        let request = ReadRequest { ranges: vec![wanted], ..Default::default() };
        let column = self.wait(store.read(&request)).unwrap().remove(0);
        counted(&column, slot(range.start), found)
    }
}

impl Drop for Beside {
    /// Drops the keyspaces of a given server. A node that was started for the tests ends with them.
    fn drop(&mut self) {
        if !std::thread::panicking() && server::given().is_some() {
            for name in [self.config.keyspace.clone(), self.config.metadata_keyspace()] {
                self.cql(&format!("DROP KEYSPACE IF EXISTS {name}"));
            }
        }
    }
}

/// Time, value, count.
pub(crate) type Counted = (i64, f64, u64);

fn counted(column: &Column, first: u32, stage: Stage) -> Vec<Counted> {
    let count = |i: usize| column.counts.get(i).copied().map_or(1, |count| u64::from(count.of_window()));
    let row = |(i, value): (usize, &f64)| {
        let time = (i64::from(first) + i as i64) * i64::from(stage.resolution);
        (!value.is_nan()).then(|| (time, *value, count(i)))
    };
    column.values.iter().enumerate().filter_map(row).collect()
}

/// Parses BigGraphite's notation of a retention.
pub(crate) fn retention(text: &str) -> Retention {
    let stage = |part: &str| {
        let (points, resolution) = part.trim_end_matches('s').split_once('*').unwrap();
        Stage { resolution: resolution.parse().unwrap(), points: points.parse().unwrap() }
    };
    Retention::new(text.split(':').map(stage).collect()).unwrap()
}

/// The aggregation method of a metric.
pub(crate) fn aggregation(metric: &Metric) -> Aggregation {
    metric.aggregator.parse().unwrap()
}

/// The stage of a metric with this index.
pub(crate) fn stage_of(metric: &Metric, stage: usize) -> Stage {
    retention(&metric.retention).stages()[stage]
}

/// A range of a stage of a metric. It is not longer than the stage, because BigGraphite reads no further.
pub(crate) fn range(metric: &Metric, stage: usize, start: i64, end: i64) -> Range {
    let Stage { resolution, points } = stage_of(metric, stage);
    let suffix = if stage == 0 { "0" } else { "aggr" };
    let step = i64::from(resolution);
    let end = (end + step - 1).div_euclid(step) * step;
    let start = (start.div_euclid(step) * step).max(end - step * i64::from(points));
    Range { name: metric.name.clone(), stage: format!("{points}*{resolution}s_{suffix}"), start, end }
}
