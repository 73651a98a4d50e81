//! Gives each test a keyspace of its own on a real server.

use std::collections::BTreeSet;
use std::sync::Arc;

use plumbago_cassandra_node::server::{self, Server};
use plumbago_model::{Clock, Retention, SystemClock};
use plumbago_store::WriterIdentity;
use plumbago_store_cassandra::config::Indexes;
use plumbago_store_cassandra::layout::Table;
use plumbago_store_cassandra::{CassandraStore, Config, schema};
use plumbago_telemetry::Registry;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use uuid::Uuid;

/// A keyspace for one test. The test drops it at its end if its node goes on.
pub struct Keyspace {
    pub config: Config,
    is_kept: bool,
}

impl Keyspace {
    /// Settings for a new keyspace on the server that all tests share. Nothing is created yet. `None` if
    /// there is no server for tests.
    pub fn new(name: &str) -> Option<Self> {
        let server = server::for_tests()?;
        let keyspace = Self::on(&server.contact_point(), name);
        Some(if matches!(server, Server::Own(_)) { keyspace.kept() } else { keyspace })
    }

    /// Settings for a new keyspace on another server.
    pub fn on(contact_point: &str, name: &str) -> Self {
        let config = Config {
            contact_points: vec![contact_point.to_owned()],
            keyspace: format!("t{}_{name}", std::process::id()),
            components: 12,
            indexes: Indexes::None,
            ..Config::default()
        };
        Self { config, is_kept: false }
    }

    /// A connected store on this keyspace.
    pub async fn store(&self) -> CassandraStore {
        self.store_of(WriterIdentity::new(0, 1024)).await
    }

    /// A connected store with this writer identity.
    pub async fn store_of(&self, identity: WriterIdentity) -> CassandraStore {
        self.store_at(identity, SystemClock, &Registry::new()).await
    }

    /// A connected store with this clock and a registry whose counters the test can read.
    pub async fn store_at(
        &self,
        identity: WriterIdentity,
        clock: impl Clock + 'static,
        registry: &Registry,
    ) -> CassandraStore {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        let store = CassandraStore::connect(&self.config, identity, clock, registry).unwrap();
        store.wait().await.unwrap();
        store
    }

    /// Creates the tables for these retentions.
    pub async fn sync(&self, store: &CassandraStore, retentions: &[&str]) {
        let plan = store.plan_sync(&tables(retentions), None).await.unwrap();
        store.sync(&plan, &mut |_| {}).await.unwrap();
    }

    /// The same keyspace, which is not dropped, because its node ends with the test. In a run of these tests, the drops
    /// took a third of the processor time (`docs/decisions/nodes-for-tests.md`).
    pub fn kept(self) -> Self {
        Self { is_kept: true, ..self }
    }

    /// Drops the keyspace, unless its node ends with the tests.
    pub async fn drop(self) {
        if self.is_kept {
            return;
        }
        let session = self.session().await;
        for name in [self.config.keyspace.clone(), self.config.metadata_keyspace()] {
            session.query_unpaged(format!("DROP KEYSPACE IF EXISTS \"{name}\""), ()).await.unwrap();
        }
    }

    /// A separate session, to inspect and damage rows and tables.
    pub async fn session(&self) -> Session {
        SessionBuilder::new().known_nodes(&self.config.contact_points).build().await.unwrap()
    }
}

/// The tables for points that these retentions need.
pub fn tables(retentions: &[&str]) -> BTreeSet<Table> {
    let parsed: Vec<Retention> = retentions.iter().map(|text| text.parse().unwrap()).collect();
    schema::tables_of(&parsed)
}

/// The current time in seconds since the epoch.
pub fn now() -> u32 {
    u32::try_from(SystemClock.now()).unwrap()
}

/// A random UUID.
pub fn uuid() -> Uuid {
    Uuid::new_v4()
}
