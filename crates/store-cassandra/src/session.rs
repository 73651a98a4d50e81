//! Connections to a cluster, opened in the background. A server that cannot be reached at the start is not
//! an error: calls fail with `Unavailable` until it can be reached.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumbago_model::{Clock, SystemClock};
use plumbago_store::{ErrorKind, NodeStart, StoreError};
use scylla::client::PoolSize;
use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::TlsContext;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::Node;
use scylla::cluster::metadata::Strategy;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::config::{Config, Tls};
use crate::driver::{self, Session};
use crate::retry::Persistent;
use crate::stats::Stats;
use crate::timestamps::Timestamps;
use crate::{datacenter, error, nodes, tls};

/// Interval of keepalive requests on each connection. It is also the shortest timeout for their answer,
/// after which a node that hangs is no longer used.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// The longest pause between two attempts to connect.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How often the driver reads the schema again, so that changes to the replication of the keyspaces are noticed.
const REFRESH: Duration = Duration::from_secs(30);

/// The role of a cluster that holds only names.
const NAMES: &str = "names";

/// State of the connection to a cluster.
#[derive(Debug)]
enum Link {
    /// The first attempt is in progress.
    Trying,
    /// The last attempt failed, for this reason; another one follows.
    Failed(String),
    Up(Arc<dyn Session>),
}

/// The settings for connections to one cluster.
#[derive(Debug, Clone)]
struct Settings {
    /// What the cluster holds, for messages.
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
    timestamps: Timestamps,
}

/// A cluster and the task that connects to it. Dropping it stops the task.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    link: watch::Sender<Link>,
    /// Number of restarts of nodes that were noticed.
    restarts: AtomicU64,
    starts: nodes::Starts,
    /// Whether the connections to all nodes were lost.
    is_lost: AtomicBool,
    /// The nodes that are used but not connected, as text for operators; `None` if all or none are connected.
    missing: Mutex<Option<String>>,
    replication: Mutex<Replication>,
    /// Number of changes of the replication or of the local data centre so far.
    changes: AtomicU64,
    stats: Stats,
}

/// How the keyspaces are replicated.
#[derive(Debug, Default)]
struct Replication {
    /// The strategies of the existing keyspaces, as of the last look.
    strategies: Vec<Strategy>,
    /// The local data centre; empty for no preference.
    datacenter: Arc<str>,
}

/// The cluster for points and the cluster for names, which usually are the same.
#[derive(Debug, Clone)]
pub struct Clusters {
    /// The cluster for points.
    pub points: Arc<Cluster>,
    /// The cluster for names.
    pub names: Arc<Cluster>,
    /// Gives each change of a name its timestamp.
    pub(crate) timestamps: Timestamps,
}

impl Clusters {
    /// Starts connecting in the background. Must be called inside the runtime that will use the connections.
    pub(crate) fn connect(config: &Config, stats: &Stats) -> Result<Self, StoreError> {
        let own = config.has_metadata_cluster();
        let (data, metadata) = (config.keyspace.clone(), config.metadata_keyspace());
        let timestamps = Timestamps::default();
        let keyspaces = if own { vec![data] } else { vec![data, metadata.clone()] };
        let role = if own { "points" } else { "points and names" };
        let settings = Settings::of(config, role, keyspaces, timestamps.clone());
        let points = Arc::new(Cluster::start(settings.clone(), stats)?);
        if !own {
            return Ok(Self { names: points.clone(), points, timestamps });
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
        Ok(Self { points, names: Arc::new(Cluster::start(settings, stats)?), timestamps })
    }

    /// Whether both clusters are connected.
    pub fn is_up(&self) -> bool {
        self.points.is_up() && self.names.is_up()
    }
}

impl Cluster {
    /// Starts connecting to a cluster in order to read a keyspace of another program. `role` says what the
    /// cluster holds, for messages.
    pub(crate) fn for_reading(
        config: &Config,
        keyspace: &str,
        role: &'static str,
        stats: &Stats,
    ) -> Result<Self, StoreError> {
        let settings = Settings::of(config, role, vec![keyspace.to_owned()], Timestamps::default());
        Self::start(settings, stats)
    }

    fn start(settings: Settings, stats: &Stats) -> Result<Self, StoreError> {
        // An unreadable file is a mistake in the settings, so fail at once instead of retrying.
        let tls = tls::client_config(&settings.tls)?;
        let shared = Arc::new(Shared {
            settings,
            link: watch::Sender::new(Link::Trying),
            restarts: AtomicU64::new(0),
            starts: nodes::Starts::new(SystemClock.now_ms()),
            is_lost: AtomicBool::new(false),
            missing: Mutex::default(),
            replication: Mutex::default(),
            changes: AtomicU64::new(0),
            stats: stats.clone(),
        });
        let task = tokio::spawn(run(shared.clone(), tls));
        Ok(Self { shared, task })
    }

    /// Whether the cluster is connected.
    pub fn is_up(&self) -> bool {
        self.current().is_ok()
    }

    /// The driver's session, without waiting.
    ///
    /// # Errors
    /// `Unavailable` with the reason, if the cluster is not connected.
    pub(crate) fn current(&self) -> Result<Arc<dyn Session>, StoreError> {
        let why = match &*self.shared.link.borrow() {
            Link::Up(session) => return Ok(session.clone()),
            Link::Trying => "still connecting".to_owned(),
            Link::Failed(why) => why.clone(),
        };
        let settings = &self.shared.settings;
        let nodes = settings.contact_points.join(", ");
        let operation = format!("reach the cluster of {} at {nodes}", settings.role);
        Err(StoreError::with(ErrorKind::Unavailable, operation, why))
    }

    /// Whether an attempt to connect has failed and no attempt has succeeded.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(&*self.shared.link.borrow(), Link::Failed(_))
    }

    /// Why no request can be answered at the moment, as text for operators; `None` if a node is connected.
    pub(crate) fn trouble(&self) -> Option<String> {
        if let Err(down) = self.current() {
            let why = down.source.as_ref().map(|source| format!(": {source}")).unwrap_or_default();
            return Some(format!("{down}{why}"));
        }
        self.shared.is_lost.load(Ordering::Acquire).then(|| self.shared.settings.lost())
    }

    /// Which of several nodes are not connected, as text for operators; `None` if all or none are connected.
    /// Nodes of other data centres do not count if a local one is used.
    pub(crate) fn missing(&self) -> Option<String> {
        self.shared.missing().clone()
    }

    /// The driver's session. During the first attempt to connect it waits for the result, so that calls right
    /// after a start do not fail.
    ///
    /// # Errors
    /// `Unavailable` with the reason, if the cluster is not connected.
    pub(crate) async fn session(&self) -> Result<Arc<dyn Session>, StoreError> {
        self.when(|link| !matches!(link, Link::Trying)).await
    }

    /// Waits until the cluster is connected.
    ///
    /// # Errors
    /// `Unavailable` if there is no connection after the wait; this does not happen in normal operation.
    pub(crate) async fn wait(&self) -> Result<Arc<dyn Session>, StoreError> {
        self.when(|link| matches!(link, Link::Up(_))).await
    }

    async fn when(&self, wanted: impl FnMut(&Link) -> bool) -> Result<Arc<dyn Session>, StoreError> {
        // This fails only if the sender is gone, and `self` holds it.
        let _ = self.shared.link.subscribe().wait_for(wanted).await;
        self.current()
    }

    /// The data centre whose nodes are used; empty for no preference.
    pub fn datacenter(&self) -> Arc<str> {
        Arc::clone(&self.shared.replication().datacenter)
    }

    /// Number of changes of the replication of the keyspaces or of the local data centre so far. Consistency
    /// levels depend on them.
    pub(crate) fn replication_changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// The ids of the nodes that the cluster has now.
    ///
    /// # Errors
    /// `Unavailable` if there is no connection.
    pub(crate) fn node_ids(&self) -> Result<Vec<Uuid>, StoreError> {
        let state = self.current()?.get_cluster_state();
        Ok(state.get_nodes_info().iter().map(|node| node.host_id).collect())
    }

    /// The known nodes and their last known starts. Empty before the first connection.
    pub fn node_starts(&self) -> Vec<NodeStart> {
        self.shared.starts.list()
    }

    /// Number of restarts of nodes that this process has noticed.
    pub fn restarts(&self) -> u64 {
        self.shared.restarts.load(Ordering::Relaxed)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connects, with retries, then watches the nodes.
async fn run(shared: Arc<Shared>, tls: Option<Arc<rustls::ClientConfig>>) {
    let mut pause = Duration::from_millis(250);
    let mut is_first = true;
    let (session, addresses) = loop {
        match connect(&shared.settings, tls.clone()).await {
            Ok(connected) => break connected,
            Err(error) => note_failure(&shared, &error, is_first),
        }
        is_first = false;
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    };
    tracing::info!(role = shared.settings.role, "connected to the cluster");
    shared.note_replication(&*session, &addresses);
    shared.link.send_replace(Link::Up(session.clone()));
    let looked = |nodes: &[Arc<Node>]| {
        shared.count(nodes);
        shared.note_replication(&*session, &addresses);
    };
    nodes::watch(&*session, &shared.starts, || shared.restarted(), looked).await;
}

fn note_failure(shared: &Shared, error: &StoreError, first: bool) {
    shared.stats.connects_failed.add(1);
    let why = error.source.as_ref().map_or_else(|| error.to_string(), ToString::to_string);
    let why = innermost(&why).to_owned();
    if first {
        tracing::warn!(role = shared.settings.role, %why, "the cluster cannot be reached; retrying");
    }
    shared.link.send_replace(Link::Failed(why));
}

/// The innermost cause in an error text of the driver. The text before it names the driver's layers, which does not
/// help operators.
fn innermost(why: &str) -> &str {
    const LAYERS: [&str; 3] = [
        "Failed to perform initial cluster metadata fetch: ",
        "Control connection pool error: ",
        "The pool is broken; Last connection failed with: ",
    ];
    LAYERS.iter().fold(why, |rest, layer| rest.strip_prefix(layer).unwrap_or(rest))
}

fn profile(settings: &Settings, datacenter: &str) -> ExecutionProfile {
    let mut policy = DefaultPolicy::builder().token_aware(true);
    if !datacenter.is_empty() {
        policy = policy.prefer_datacenter(datacenter.to_owned());
    }
    ExecutionProfile::builder()
        .request_timeout(Some(settings.request_timeout))
        .load_balancing_policy(policy.build())
        .retry_policy(Arc::new(Persistent::default()))
        .build()
}

/// Opens a session. Also returns the addresses of the contact points.
async fn connect(
    settings: &Settings,
    tls: Option<Arc<rustls::ClientConfig>>,
) -> Result<(Arc<dyn Session>, Vec<IpAddr>), StoreError> {
    let operation = format!("connect to {}", settings.contact_points.join(", "));
    let connections =
        std::num::NonZeroUsize::new(settings.connections).unwrap_or(std::num::NonZeroUsize::MIN);
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.contact_points)
        .keyspaces_to_fetch(settings.keyspaces.clone())
        .default_execution_profile_handle(profile(settings, &settings.datacenter).into_handle())
        .cluster_metadata_refresh_interval(REFRESH)
        .connection_timeout(settings.connect_timeout)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(KEEPALIVE.max(settings.request_timeout))
        .pool_size(PoolSize::PerHost(connections))
        .timestamp_generator(Arc::new(settings.timestamps.clone()));
    if !settings.username.is_empty() {
        builder = builder.user(&settings.username, &settings.password);
    }
    if let Some(tls) = tls {
        builder = builder.tls_context(Some(TlsContext::from(tls)));
    }
    let session = driver::open(builder).await.map_err(|error| error::connect(&operation, error))?;
    let key = settings.datacenter_key();
    if let Some(why) = datacenter::unknown(&settings.datacenter, key, &datacenter::of_nodes(&*session)) {
        return Err(StoreError::with(ErrorKind::Unavailable, operation, why));
    }
    Ok((session, datacenter::addresses(&settings.contact_points).await))
}

impl Settings {
    /// The settings of the cluster for points, for connections to some keyspaces.
    fn of(config: &Config, role: &'static str, keyspaces: Vec<String>, timestamps: Timestamps) -> Self {
        Self {
            role,
            contact_points: config.contact_points.clone(),
            keyspaces,
            datacenter: config.datacenter.clone(),
            username: config.username.clone(),
            password: config.password.clone(),
            tls: config.tls.clone(),
            request_timeout: *config.request_timeout,
            connect_timeout: *config.connect_timeout,
            connections: config.connections_per_node as usize,
            timestamps,
        }
    }

    /// The text for operators while no node is connected.
    fn lost(&self) -> String {
        format!(
            "no node of the cluster of {} is connected any more; the contact points are {}",
            self.role,
            self.contact_points.join(", ")
        )
    }

    /// The key of the data centre in the settings.
    fn datacenter_key(&self) -> &'static str {
        if self.role == NAMES { "store.cassandra.metadata.datacenter" } else { "store.cassandra.datacenter" }
    }
}

impl Shared {
    fn restarted(&self) {
        self.stats.nodes_returned.add(1);
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    fn replication(&self) -> MutexGuard<'_, Replication> {
        self.replication.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks whether the replication of the keyspaces has changed; if so, chooses the local data centre
    /// again.
    fn note_replication(&self, session: &dyn Session, contact_points: &[IpAddr]) {
        let state = session.get_cluster_state();
        let keyspaces = self.settings.keyspaces.iter().filter_map(|name| state.get_keyspace(name));
        let strategies: Vec<Strategy> = keyspaces.map(|keyspace| keyspace.strategy.clone()).collect();
        let mut replication = self.replication();
        if replication.strategies == strategies && self.changes.load(Ordering::Relaxed) > 0 {
            return;
        }
        let datacenter = self.local_datacenter(session, &strategies, contact_points);
        if *replication.datacenter != *datacenter {
            let mut handle = session.get_default_execution_profile_handle().clone();
            handle.map_to_another_profile(profile(&self.settings, &datacenter));
        }
        tracing::debug!(
            keyspaces = strategies.len(),
            datacenter,
            "the replication of the keyspaces is known"
        );
        *replication = Replication { strategies, datacenter: datacenter.into() };
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn local_datacenter(&self, session: &dyn Session, strategies: &[Strategy], points: &[IpAddr]) -> String {
        let key = self.settings.datacenter_key();
        let replicas: Vec<_> = strategies.iter().map(datacenter::of_replicas).collect();
        let set = &self.settings.datacenter;
        if !set.is_empty() {
            if replicas.iter().any(|of| !of.is_empty() && !of.contains(set)) {
                let found = datacenter::list(&replicas);
                tracing::warn!(
                    "{key} is {set:?}, but a keyspace has no replicas there; set one that has some: {found}"
                );
            }
            return set.clone();
        }
        let chosen = datacenter::choose(&replicas, &datacenter::of_addresses(session, points));
        match &chosen {
            Some(datacenter) => tracing::info!(
                datacenter,
                "{key} is not set and there are replicas in several data centres; using the data centre of the contact points"
            ),
            None if datacenter::are_several(&replicas) => tracing::warn!(
                "{key} is not set, and no contact point is in a data centre with replicas of all keyspaces: set it \
                 to one of {}",
                datacenter::list(&replicas)
            ),
            None => {}
        }
        chosen.unwrap_or_default()
    }

    fn missing(&self) -> MutexGuard<'_, Option<String>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, nodes: &[Arc<Node>]) {
        let (known, up) = (nodes.len(), nodes.iter().filter(|node| node.is_connected()).count());
        let is_lost = known > 0 && up == 0;
        self.is_lost.store(is_lost, Ordering::Release);
        let datacenter = Arc::clone(&self.replication().datacenter);
        *self.missing() = nodes::missing(nodes, &datacenter, self.settings.role);
        // With two clusters, the gauges are about the one for points.
        if self.settings.role != NAMES {
            self.stats.nodes.set(known as f64);
            self.stats.nodes_up.set(up as f64);
        }
    }
}

/// An execution profile that also sends a request to another node if the first takes longer than `after`, so
/// that a hanging node only delays a read. `None` if `after` is zero.
pub(crate) fn speculative(session: &dyn Session, after: Duration) -> Option<ExecutionProfileHandle> {
    let policy = SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval: after };
    let usual = session.get_default_execution_profile_handle();
    let profile = usual.pointee_to_builder().speculative_execution_policy(Some(Arc::new(policy)));
    (!after.is_zero()).then(|| profile.build().into_handle())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_of_the_driver_are_left_out() {
        let stacked = "Failed to perform initial cluster metadata fetch: Control connection pool error: The pool \
                       is broken; Last connection failed with: Connection refused (os error 111)";
        assert_eq!(innermost(stacked), "Connection refused (os error 111)");
        assert_eq!(innermost("another text"), "another text");
    }
}
