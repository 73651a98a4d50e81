//! A bare client, which only sends prepared statements through the driver. Its figures are the upper limit
//! with which the daemon's figures are compared.

use futures::StreamExt;
use plumbago_cassandra_node::Cluster;
use plumbago_model::{MetricId, Stage};
use plumbago_store_cassandra::layout::{Partition, Table, offset};
use plumbago_store_cassandra::statements::{Names, Points};
use plumbago_store_cassandra::{Config, config_to_map};
use scylla::client::PoolSize;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use uuid::Uuid;

const IN_FLIGHT: usize = 128;

pub(super) struct Bare {
    runtime: tokio::runtime::Runtime,
    session: Session,
    config: Config,
}

impl Bare {
    pub(super) fn connect(node: &Cluster, config: Config) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().unwrap();
        let connect = async {
            let builder = SessionBuilder::new().known_node(&node.contact_points()[0]);
            builder.pool_size(PoolSize::PerHost(2.try_into().unwrap())).build().await
        };
        let session = runtime.block_on(connect).unwrap();
        Self { runtime, session, config }
    }

    /// Writes `rows` consecutive rows of each metric, one request per metric.
    pub(super) fn points(&self, table: Table, metrics: &[String], first: u32, rows: u32) {
        self.runtime.block_on(async {
            let text = Points::new(&self.config.keyspace, table).insert;
            let mut insert = self.session.prepare(text).await.unwrap();
            insert.set_consistency(Consistency::LocalOne);
            let one = BatchStatement::PreparedStatement(insert);
            let mut batch = Batch::new_with_statements(BatchType::Unlogged, vec![one; rows as usize]);
            batch.set_consistency(Consistency::LocalOne);
            let (session, batch) = (&self.session, &batch);
            let start = |slot| Partition::of(slot).start_ms(table.stage);
            let requests = metrics.iter().map(|name| async move {
                let id = Uuid::from_bytes(MetricId::of(name).0);
                if table.coarse {
                    let row = |i| (id, start(first + i), offset(first + i), 16_000_i16, f64::from(i), 1_i16);
                    session.batch(batch, &(0..rows).map(row).collect::<Vec<_>>()).await.unwrap();
                } else {
                    let row = |i| (id, start(first + i), offset(first + i), f64::from(i));
                    session.batch(batch, &(0..rows).map(row).collect::<Vec<_>>()).await.unwrap();
                }
            });
            futures::stream::iter(requests).buffer_unordered(IN_FLIGHT).for_each(|()| async {}).await;
        });
    }

    /// Writes two rows in two requests for each name of four components, without looking anything up.
    pub(super) fn names(&self, all: &[String], config: &plumbago_model::MetricConfig) {
        self.runtime.block_on(async {
            let text = Names::new(&self.config.metadata_keyspace());
            let tree = self.session.prepare(text.insert_tree(false, 4)).await.unwrap();
            let metadata = text.insert_metadata().replace("(?, ?, now()", "(?, now(), now()");
            let metadata = self.session.prepare(metadata).await.unwrap();
            let map = config_to_map(config);
            let (session, tree, metadata, map) = (&self.session, &tree, &metadata, &map);
            let requests = all.iter().map(|name| async move {
                let parts: Vec<&str> = name.split('.').collect();
                let parent = format!("{}.", parts[..3].join("."));
                let row = (name, &parent, parts[0], parts[1], parts[2], parts[3], "__END__");
                session.execute_unpaged(tree, row).await.unwrap();
                let id = Uuid::from_bytes(MetricId::of(name).0);
                session.execute_unpaged(metadata, (name, id, map)).await.unwrap();
            });
            futures::stream::iter(requests).buffer_unordered(64).for_each(|()| async {}).await;
        });
    }

    /// Writes empty directories of three components.
    pub(super) fn directories(&self, all: &[String]) {
        self.runtime.block_on(async {
            let text = Names::new(&self.config.metadata_keyspace());
            let tree = self.session.prepare(text.insert_tree(true, 3)).await.unwrap();
            let (session, tree) = (&self.session, &tree);
            let requests = all.iter().map(|name| async move {
                let parts: Vec<&str> = name.split('.').collect();
                let parent = format!("{}.", parts[..2].join("."));
                let row = (name, &parent, parts[0], parts[1], parts[2], "__END__");
                session.execute_unpaged(tree, row).await.unwrap();
            });
            futures::stream::iter(requests).buffer_unordered(64).for_each(|()| async {}).await;
        });
    }
}

/// Name of the table of a stage.
pub(super) fn table(resolution: u32, points: u32, coarse: bool) -> Table {
    Table { stage: Stage { resolution, points }, coarse }
}
