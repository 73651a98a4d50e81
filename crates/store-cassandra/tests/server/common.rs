//! A real server and a keyspace of the test's own.

use std::collections::BTreeSet;
use std::sync::Arc;

use plumbago_cassandra_node::server;
use plumbago_model::{Clock, Retention, SystemClock};
use plumbago_store_cassandra::config::Indexes;
use plumbago_store_cassandra::layout::Table;
use plumbago_store_cassandra::{CassandraStore, Config, Identity, schema};
use plumbago_telemetry::Registry;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use uuid::Uuid;

/// A keyspace of its own on the server, gone at the end of the test.
pub struct Keyspace {
    pub config: Config,
}

impl Keyspace {
    /// Settings for a new keyspace of the server that all tests share; nothing is made yet.
    pub fn new(name: &str) -> Option<Self> {
        Some(Self::on(&server::for_tests()?.contact_point(), name))
    }

    /// The same on another server.
    pub fn on(contact_point: &str, name: &str) -> Self {
        let config = Config {
            contact_points: vec![contact_point.to_owned()],
            keyspace: format!("t{}_{name}", std::process::id()),
            components: 12,
            indexes: Indexes::None,
            ..Config::default()
        };
        Self { config }
    }

    /// A store on it, connected.
    pub async fn store(&self) -> CassandraStore {
        self.store_of(Identity::new(0, 1024)).await
    }

    /// The same as another writer.
    pub async fn store_of(&self, identity: Identity) -> CassandraStore {
        self.store_at(identity, SystemClock, &Registry::new()).await
    }

    /// The same where the time is another, and the counters can be read.
    pub async fn store_at(
        &self,
        identity: Identity,
        clock: impl Clock + 'static,
        registry: &Registry,
    ) -> CassandraStore {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let store = CassandraStore::connect(&self.config, identity, clock, registry).unwrap();
        store.wait().await.unwrap();
        store
    }

    /// Makes the tables for these retentions.
    pub async fn sync(&self, store: &CassandraStore, retentions: &[&str]) {
        let plan = store.plan_sync(&tables(retentions)).await.unwrap();
        store.sync(&plan, &mut |_| {}).await.unwrap();
    }

    /// Drops it.
    pub async fn drop(self) {
        let session = self.session().await;
        for name in [self.config.keyspace.clone(), self.config.metadata_keyspace()] {
            session.query_unpaged(format!("DROP KEYSPACE IF EXISTS \"{name}\""), ()).await.unwrap();
        }
    }

    /// A session of its own, to look and to spoil.
    pub async fn session(&self) -> Session {
        SessionBuilder::new().known_nodes(&self.config.contact_points).build().await.unwrap()
    }
}

/// The tables that retentions need.
pub fn tables(retentions: &[&str]) -> BTreeSet<Table> {
    let parsed: Vec<Retention> = retentions.iter().map(|text| text.parse().unwrap()).collect();
    schema::tables_of(&parsed)
}

/// Seconds since the epoch.
pub fn now() -> u32 {
    u32::try_from(SystemClock.now()).unwrap()
}

/// Any UUID.
pub fn uuid() -> Uuid {
    Uuid::new_v4()
}
