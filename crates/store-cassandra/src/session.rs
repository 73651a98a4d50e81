//! Connections to a cluster, made in the background: a server that cannot be reached at the start is
//! no error, calls fail with `Unavailable` until it is there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumbago_store::{ErrorKind, StoreError};
use scylla::client::PoolSize;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::{Session, TlsContext};
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::Strategy;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::timestamp_generator::MonotonicTimestampGenerator;
use scylla::statement::Consistency;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::config::{Config, Level, Tls};
use crate::stats::Stats;
use crate::{error, tls};

/// How often the state of the nodes is looked at.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// The longest pause between two tries to connect.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What it takes to connect to one cluster.
#[derive(Debug, Clone)]
struct Settings {
    /// For messages.
    role: &'static str,
    contact_points: Vec<String>,
    keyspaces: Vec<String>,
    datacenter: String,
    username: String,
    password: String,
    tls: Tls,
    request_timeout: Duration,
    connect_timeout: Duration,
    connections: usize,
}

/// One cluster.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    session: watch::Sender<Option<Arc<Session>>>,
    /// Why there is no session yet.
    last_error: Mutex<String>,
    /// Grows whenever a node is seen to return.
    returns: watch::Sender<u64>,
    stats: Stats,
}

/// The cluster of the points and that of the names, which mostly are one.
#[derive(Debug, Clone)]
pub struct Clusters {
    /// Points.
    pub points: Arc<Cluster>,
    /// Names.
    pub names: Arc<Cluster>,
}

impl Clusters {
    /// Begins to connect. Must be called inside of the runtime that will use it.
    pub(crate) fn connect(config: &Config, stats: &Stats) -> Result<Self, StoreError> {
        let own = config.has_metadata_cluster();
        let (data, metadata) = (config.keyspace.clone(), config.metadata_keyspace());
        let keyspaces = if own { vec![data] } else { vec![data, metadata.clone()] };
        let settings = Settings {
            role: if own { "points" } else { "points and names" },
            contact_points: config.contact_points.clone(),
            keyspaces,
            datacenter: config.datacenter.clone(),
            username: config.username.clone(),
            password: config.password.clone(),
            tls: config.tls.clone(),
            request_timeout: *config.request_timeout,
            connect_timeout: *config.connect_timeout,
            connections: config.connections_per_node as usize,
        };
        let points = Arc::new(Cluster::start(settings.clone(), stats)?);
        if !own {
            return Ok(Self { names: points.clone(), points });
        }
        let other = &config.metadata;
        let settings = Settings {
            role: "names",
            contact_points: other.contact_points.clone(),
            keyspaces: vec![metadata],
            datacenter: other.datacenter.clone(),
            username: other.username.clone(),
            password: other.password.clone(),
            tls: other.tls.clone(),
            ..settings
        };
        Ok(Self { points, names: Arc::new(Cluster::start(settings, stats)?) })
    }

    /// True when both are connected.
    pub fn is_up(&self) -> bool {
        self.points.session().is_ok() && self.names.session().is_ok()
    }
}

impl Cluster {
    fn start(settings: Settings, stats: &Stats) -> Result<Self, StoreError> {
        // Files that cannot be read are a mistake in the settings and no matter of waiting.
        let tls = tls::client_config(&settings.tls)?;
        let shared = Arc::new(Shared {
            settings,
            session: watch::Sender::new(None),
            last_error: Mutex::new("not tried yet".to_owned()),
            returns: watch::Sender::new(0),
            stats: stats.clone(),
        });
        let task = tokio::spawn(run(shared.clone(), tls));
        Ok(Self { shared, task })
    }

    /// The connections, when they are there.
    pub fn session(&self) -> Result<Arc<Session>, StoreError> {
        self.shared.session.borrow().clone().ok_or_else(|| {
            let settings = &self.shared.settings;
            let why = self.shared.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let nodes = settings.contact_points.join(", ");
            let operation = format!("reach the cluster of {} at {nodes}", settings.role);
            StoreError::with(ErrorKind::Unavailable, operation, why)
        })
    }

    /// Waits until the connections are there.
    pub async fn wait(&self) -> Result<Arc<Session>, StoreError> {
        let mut changes = self.shared.session.subscribe();
        // The sender lives as long as we do.
        let _ = changes.wait_for(Option::is_some).await;
        self.session()
    }

    /// A number that grows whenever a node is seen to return: what it had not written to its disk is
    /// lost and has to be sent again.
    pub fn returns(&self) -> watch::Receiver<u64> {
        self.shared.returns.subscribe()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects, then watches the nodes.
async fn run(shared: Arc<Shared>, tls: Option<Arc<rustls::ClientConfig>>) {
    let mut pause = Duration::from_millis(250);
    let mut failed = false;
    let session = loop {
        match connect(&shared.settings, tls.clone()).await {
            Ok(session) => break Arc::new(session),
            Err(error) => note_failure(&shared, &error, !failed),
        }
        failed = true;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    };
    tracing::info!(role = shared.settings.role, "connected to the cluster");
    shared.session.send_replace(Some(session.clone()));
    if failed {
        shared.returned();
    }
    watch_nodes(&shared, &session).await;
}

fn note_failure(shared: &Shared, error: &StoreError, first: bool) {
    shared.stats.connects_failed.add(1);
    let why = error.source.as_ref().map_or_else(|| error.to_string(), ToString::to_string);
    if first {
        tracing::warn!(role = shared.settings.role, %why, "the cluster cannot be reached; trying on");
    }
    *shared.last_error.lock().unwrap_or_else(PoisonError::into_inner) = why;
}

async fn connect(settings: &Settings, tls: Option<Arc<rustls::ClientConfig>>) -> Result<Session, StoreError> {
    let operation = format!("connect to {}", settings.contact_points.join(", "));
    let mut policy = DefaultPolicy::builder().token_aware(true);
    if !settings.datacenter.is_empty() {
        policy = policy.prefer_datacenter(settings.datacenter.clone());
    }
    let profile = ExecutionProfile::builder()
        .request_timeout(Some(settings.request_timeout))
        .load_balancing_policy(policy.build())
        .build()
        .into_handle();
    let connections =
        std::num::NonZeroUsize::new(settings.connections).unwrap_or(std::num::NonZeroUsize::MIN);
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.contact_points)
        .keyspaces_to_fetch(settings.keyspaces.clone())
        .default_execution_profile_handle(profile)
        .connection_timeout(settings.connect_timeout)
        .pool_size(PoolSize::PerHost(connections))
        .timestamp_generator(Arc::new(MonotonicTimestampGenerator::new().without_warnings()));
    if !settings.username.is_empty() {
        builder = builder.user(&settings.username, &settings.password);
    }
    if let Some(tls) = tls {
        builder = builder.tls_context(Some(TlsContext::from(tls)));
    }
    builder.build().await.map_err(|error| error::connect(operation, error))
}

async fn watch_nodes(shared: &Shared, session: &Session) {
    let mut seen: HashMap<Uuid, bool> = HashMap::new();
    loop {
        let state = session.get_cluster_state();
        let nodes = state.get_nodes_info();
        for node in nodes {
            let up = node.is_connected();
            if seen.insert(node.host_id, up) == Some(false) && up {
                tracing::info!(node = %node.address, "a node has returned");
                shared.returned();
            }
        }
        shared.stats.nodes.set(nodes.len() as f64);
        shared.stats.nodes_up.set(nodes.iter().filter(|node| node.is_connected()).count() as f64);
        tokio::time::sleep(WATCH_EVERY).await;
    }
}

impl Shared {
    fn returned(&self) {
        self.stats.nodes_returned.add(1);
        self.returns.send_modify(|n| *n += 1);
    }
}

/// The driver's word for a level; `Auto` looks at the replicas of the keyspace.
pub(crate) fn consistency(level: Level, session: &Session, keyspace: &str, datacenter: &str) -> Consistency {
    match level {
        Level::Auto if replicas(session, keyspace, datacenter) >= 3 => Consistency::LocalQuorum,
        Level::Auto | Level::LocalOne => Consistency::LocalOne,
        Level::Any => Consistency::Any,
        Level::One => Consistency::One,
        Level::Two => Consistency::Two,
        Level::Three => Consistency::Three,
        Level::Quorum => Consistency::Quorum,
        Level::All => Consistency::All,
        Level::LocalQuorum => Consistency::LocalQuorum,
        Level::EachQuorum => Consistency::EachQuorum,
    }
}

fn replicas(session: &Session, keyspace: &str, datacenter: &str) -> usize {
    let state = session.get_cluster_state();
    match state.get_keyspace(keyspace).map(|keyspace| &keyspace.strategy) {
        Some(Strategy::SimpleStrategy { replication_factor }) => *replication_factor,
        Some(Strategy::NetworkTopologyStrategy { datacenter_repfactors }) => datacenter_repfactors
            .get(datacenter)
            .or_else(|| datacenter_repfactors.values().min())
            .copied()
            .unwrap_or(1),
        _ => 1,
    }
}
