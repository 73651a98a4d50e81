//! Connections to a cluster, made in the background: a server that cannot be reached at the start is
//! no error, calls fail with `Unavailable` until it is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use plumbago_store::{ErrorKind, StoreError};
use scylla::client::PoolSize;
use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::{Session, TlsContext};
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::Strategy;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::policies::timestamp_generator::MonotonicTimestampGenerator;
use scylla::statement::Consistency;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::{Config, Level, Tls};
use crate::retry::Persistent;
use crate::stats::Stats;
use crate::{error, nodes, tls};

/// How often connections are asked for a sign of life, and how long it may take at least: a node that
/// hangs is passed over after that time.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// The longest pause between two tries to connect.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The role of a cluster that has names only.
const NAMES: &str = "names";

/// How far the connecting got.
#[derive(Debug)]
enum Link {
    /// The first try goes on.
    Trying,
    /// Why the last try failed; another one follows.
    Failed(String),
    Up(Arc<Session>),
}

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
    link: watch::Sender<Link>,
    /// Grows whenever a node is seen to return.
    returns: watch::Sender<u64>,
    /// Nodes that are known and not connected.
    away: AtomicUsize,
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
            role: NAMES,
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
        self.points.is_up() && self.names.is_up()
    }
}

impl Cluster {
    fn start(settings: Settings, stats: &Stats) -> Result<Self, StoreError> {
        // Files that cannot be read are a mistake in the settings and no matter of waiting.
        let tls = tls::client_config(&settings.tls)?;
        let shared = Arc::new(Shared {
            settings,
            link: watch::Sender::new(Link::Trying),
            returns: watch::Sender::new(0),
            away: AtomicUsize::new(0),
            stats: stats.clone(),
        });
        let task = tokio::spawn(run(shared.clone(), tls));
        Ok(Self { shared, task })
    }

    /// True when the connections are there.
    pub fn is_up(&self) -> bool {
        self.current().is_ok()
    }

    /// True while a known node, or the whole cluster, is out of reach.
    pub fn misses_a_node(&self) -> bool {
        !self.is_up() || self.shared.away.load(Ordering::Relaxed) > 0
    }

    /// The connections, or why there are none at this moment.
    pub fn current(&self) -> Result<Arc<Session>, StoreError> {
        let why = match &*self.shared.link.borrow() {
            Link::Up(session) => return Ok(session.clone()),
            Link::Trying => "the first try goes on".to_owned(),
            Link::Failed(why) => why.clone(),
        };
        let settings = &self.shared.settings;
        let nodes = settings.contact_points.join(", ");
        let operation = format!("reach the cluster of {} at {nodes}", settings.role);
        Err(StoreError::with(ErrorKind::Unavailable, operation, why))
    }

    /// The connections. Who asks while the first try goes on waits for its end: right after a start
    /// nothing is wrong yet.
    pub async fn session(&self) -> Result<Arc<Session>, StoreError> {
        self.when(|link| !matches!(link, Link::Trying)).await
    }

    /// Waits until the connections are there.
    pub async fn wait(&self) -> Result<Arc<Session>, StoreError> {
        self.when(|link| matches!(link, Link::Up(_))).await
    }

    async fn when(&self, wanted: impl FnMut(&Link) -> bool) -> Result<Arc<Session>, StoreError> {
        // The sender lives as long as we do.
        let _ = self.shared.link.subscribe().wait_for(wanted).await;
        self.current()
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
    shared.link.send_replace(Link::Up(session.clone()));
    if failed {
        shared.returned();
    }
    nodes::watch(&session, || shared.returned(), |known, up| shared.counted(known, up)).await;
}

fn note_failure(shared: &Shared, error: &StoreError, first: bool) {
    shared.stats.connects_failed.add(1);
    let why = error.source.as_ref().map_or_else(|| error.to_string(), ToString::to_string);
    if first {
        tracing::warn!(role = shared.settings.role, %why, "the cluster cannot be reached; trying on");
    }
    shared.link.send_replace(Link::Failed(why));
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
        .retry_policy(Arc::new(Persistent::default()))
        .build()
        .into_handle();
    let connections =
        std::num::NonZeroUsize::new(settings.connections).unwrap_or(std::num::NonZeroUsize::MIN);
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.contact_points)
        .keyspaces_to_fetch(settings.keyspaces.clone())
        .default_execution_profile_handle(profile)
        .connection_timeout(settings.connect_timeout)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(KEEPALIVE.max(settings.request_timeout))
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

impl Shared {
    fn returned(&self) {
        self.stats.nodes_returned.add(1);
        self.returns.send_modify(|n| *n += 1);
    }

    fn counted(&self, known: usize, up: usize) {
        self.away.store(known.saturating_sub(up), Ordering::Relaxed);
        // Those of the points, where there are two clusters.
        if self.settings.role != NAMES {
            self.stats.nodes.set(known as f64);
            self.stats.nodes_up.set(up as f64);
        }
    }
}

/// How statements run that ask another node as well when one takes longer than `after`: a node that hangs
/// then costs a read that time and not its answer. None when it is never to be so.
pub(crate) fn speculative(session: &Session, after: Duration) -> Option<ExecutionProfileHandle> {
    let policy = SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval: after };
    let usual = session.get_default_execution_profile_handle();
    let profile = usual.pointee_to_builder().speculative_execution_policy(Some(Arc::new(policy)));
    (!after.is_zero()).then(|| profile.build().into_handle())
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
